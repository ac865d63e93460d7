"""Files of real etcd members of each version, against the member's own answers for every key."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from auditor.sources.metadata.stores import open_store
from tests.sources.etcd_saved import SCOPE, KeysByPath, ledgers_of, nodes_of

HOMES = sorted((Path(__file__).parents[3] / "data").glob("etcd-*"))


@pytest.mark.parametrize("form", ["snapshot", "member"])
@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)
def test_keys_equal_the_answers_of_the_member(home: Path, form: str, tmp_path: Path) -> None:
    oracle = json.loads(gzip.decompress((home / "oracle.json.gz").read_bytes()))
    file = tmp_path / "saved.db"
    file.write_bytes(gzip.decompress((home / f"{form}.db.gz").read_bytes()))
    store = open_store(f"etcd-snapshot://{file}?scope={SCOPE}")
    ledgers, gaps = ledgers_of(store)
    expected: KeysByPath = {
        path: (base64.b64decode(record.get("value", "")), record["mod_revision"], record.get("lease", 0))
        for record in oracle["kvs"]
        if (path := base64.b64decode(record["key"]).decode()).startswith(f"{SCOPE}/")
    }
    assert not gaps
    assert not store.cluster().gaps
    assert len(expected) > 50
    assert ledgers | nodes_of(store) == expected
    assert store.cluster().position == f"revision {oracle['revision']}"
