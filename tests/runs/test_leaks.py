"""Tests of the list of a run's leaks for review: all leaks, in order, in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import RunUsageError
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.report_source import LeakTotals
from auditor.runs.owners import Leaks, last_owner
from auditor.runs.reader import RunReader
from tests.cli.test_doors import bkaudit
from tests.made_runs import made_run

TOPIC = "/managed-ledgers/shop/orders/persistent/returns"
CLOSED: dict[str, Any] = {"state": "CLOSED", "length": 600, "last_entry_id": 9}


def leak(id: int, *, sure: bool, claim: str = TOPIC, **details: Any) -> Finding:
    confidence = Confidence.CONFIRMED if sure else Confidence.SUSPECT
    evidence = {"application": "pulsar", "claim": claim, "seen_before": sure, **details}
    return Finding("ledger-unowned", Severity.NOTE, confidence, 0, id, evidence=evidence)


FINDINGS = [
    leak(1, sure=False, **{**CLOSED, "length": 9000}),
    leak(2, sure=True, **CLOSED, made=1000),
    leak(3, sure=True, **{**CLOSED, "length": 700}, claim=f"{TOPIC}/audit"),
    leak(4, sure=True, state="OPEN", length=0, last_entry_id=-1, doubt="a gap"),
    leak(5, sure=True, **{**CLOSED, "length": 0, "last_entry_id": -1}, claim="/schemas/shop/orders/=cmd|1"),
    Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED, bookie_id="b:3181"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made_run(tmp_path, FINDINGS)
    return tmp_path


def test_confirmed_leaks_come_first_and_largest_first(run: Path) -> None:
    leaks = Leaks(RunReader(run))
    assert [row.ledger_id for row in leaks] == [3, 2, 5, 4, 1]
    first, second, empty, unclosed, _ = leaks
    assert (first.owner, first.bytes, first.entries) == ("subscription audit of shop/orders/returns", 700, 10)
    assert (second.owner, second.made, second.doubt) == ("topic shop/orders/returns", 1000, None)
    assert (empty.bytes, empty.entries) == (0, 0)
    assert (unclosed.bytes, unclosed.entries, unclosed.doubt) == (None, None, "a gap")
    assert second.why == f"{TOPIC} does not name this ledger; an earlier run found the same"
    assert leaks.totals() == LeakTotals(5, 4, 10_300, 1300, 30)


def test_every_form_has_every_leak_and_no_command_that_deletes(run: Path) -> None:
    shown = {
        form: bkaudit("report", str(run), "--leaks", "--format", form)
        for form in ("text", "markdown", "csv", "json", "jsonl")
    }
    assert {output.exit_code for output in shown.values()} == {0}
    rows = list(csv.DictReader(io.StringIO(shown["csv"].stdout)))
    value = json.loads(shown["json"].stdout)
    lines = [json.loads(line) for line in shown["jsonl"].stdout.splitlines()]
    assert [row["ledger_id"] for row in rows] == ["3", "2", "5", "4", "1"]
    assert value["leaks"] == lines
    assert [output["ledger_id"] for output in lines] == [row["ledger_id"] for row in rows]
    assert value["totals"]["confirmed_bytes"] == 1300
    assert lines[1]["age_seconds"] is not None
    for form in ("text", "markdown"):
        text = shown[form].stdout
        assert text.index("audit of shop/orders/returns") < text.index("topic shop/orders/returns")
        assert "5 ledgers have no owner" in text
        assert "the largest are at the top" in text
    assert all("deleteledger" not in output.stdout for output in shown.values())


def test_run_without_leaks_or_owners_says_so(tmp_path: Path) -> None:
    made_run(tmp_path)
    shown = bkaudit("report", str(tmp_path), "--leaks")
    assert (shown.exit_code, shown.stdout.strip()) == (0, "No leaked ledger is known.")
    assert json.loads(bkaudit("report", str(tmp_path), "--leaks", "--format", "json").stdout)["leaks"] == []
    assert bkaudit("report", str(tmp_path), "--leaks", "--format", "sarif").exit_code == 2
    (tmp_path / "tables" / "ownership").rename(tmp_path / "tables" / "other")
    with pytest.raises(RunUsageError, match="no owners of ledgers were read"):
        Leaks(RunReader(tmp_path))


def test_last_owner_is_derived_from_its_path() -> None:
    assert last_owner("/east/schemas/shop/orders/catalog") == "schema shop/orders/catalog"
    assert last_owner(f"{TOPIC}/__compaction") == "subscription __compaction of shop/orders/returns"
    assert last_owner("") == ""
