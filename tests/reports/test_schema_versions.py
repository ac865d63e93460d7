"""Tests that a published schema changes only together with its version, so that scripts can rely on it.

schemas/versions.json has the digest of every version of every schema that was ever published. A change that
only improves an explanation changes no digest.
"""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from auditor.model.report import SCHEMA

SCHEMAS = Path(__file__).parents[2] / "schemas"
VERSIONS = SCHEMAS / "versions.json"
_FOR_PEOPLE = ("title", "description", "comment")


def read(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text("utf-8"))


def meaning(value: Any) -> Any:
    """Return a schema without the keys that only people read."""
    if isinstance(value, dict):
        return {
            key: meaning(part)
            for key, part in value.items()
            if not (key in _FOR_PEOPLE and isinstance(part, str))
        }
    return [meaning(part) for part in value] if isinstance(value, list) else value


def digest(schema: Any) -> str:
    text = json.dumps(meaning(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def schema_names() -> list[str]:
    return sorted(path.name for path in SCHEMAS.glob("*.json") if path != VERSIONS)


def newest_version(name: str) -> int:
    return max(map(int, read("versions.json")[name]))


def test_every_schema_has_numbered_versions_with_distinct_digests() -> None:
    versions = read("versions.json")
    assert sorted(versions) == schema_names()
    for name, digests in versions.items():
        assert [int(number) for number in digests] == list(range(1, len(digests) + 1)), name
        assert len(set(digests.values())) == len(digests), name


@pytest.mark.parametrize("name", schema_names())
def test_schema_digest_is_that_of_its_newest_version(name: str) -> None:
    version = newest_version(name)
    actual = digest(read(name))
    assert read("versions.json")[name][str(version)] == actual, (
        f"schemas/{name} is no longer version {version}. Scripts read it: give what changed a new version "
        f"({version + 1}, where the code names it) and put its digest, {actual}, into schemas/versions.json"
    )


@pytest.mark.parametrize("name", [name for name in schema_names() if name.endswith(".schema.json")])
def test_a_schema_names_its_own_version(name: str) -> None:
    assert (
        read(name)["$id"] == f"bookkeeper-auditor/{name.removesuffix('.schema.json')}/{newest_version(name)}"
    )


def test_a_report_names_the_newest_version() -> None:
    assert SCHEMA.rpartition("/")[2] == str(newest_version("report.schema.json"))


def test_digest_changes_with_the_meaning_and_not_with_a_description() -> None:
    schema = read("finding.schema.json")
    explained, changed, less = (copy.deepcopy(schema) for _ in range(3))
    explained["properties"]["missing"]["description"] = "in other words"
    changed["properties"]["severity"]["enum"].append("fatal")
    less["required"].remove("unknown")
    assert digest(explained) == digest(schema)
    assert len({digest(variant) for variant in (schema, changed, less)}) == 3
