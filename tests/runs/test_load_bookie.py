"""Tests of the problems of a bookie, read from a run's findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.errors import RunError
from auditor.model.finding import ChangeStatus, Severity
from auditor.notebook.run import Run, open_run
from auditor.runs.load_bookie import _problem_views, bookie_view
from tests.made_runs import made_run
from tests.reports import samples
from tests.runs.test_ledger_findings import FINDING, write


def run_with_findings(below: Path) -> Run:
    (below / "tables").mkdir(parents=True)
    (below / "report.json").write_text(samples.report().to_json())
    orphans = [
        FINDING
        | {
            "id": "orphan-ledger",
            "severity": "note",
            "confidence": "suspect" if number else "confirmed",
            "ledger_id": number,
            "bookie_id": "bk-b:3181",
            "fingerprint": f"o{number}",
            "message": f"ledger {number}",
            "missing": [],
        }
        for number in range(5)
    ]
    elsewhere = orphans[0] | {"bookie_id": "bk-c:3181", "unknown": []}
    unsure = orphans[0] | {"bookie_id": None, "unknown": ["bk-b:3181"], "id": "surplus-entries"}
    write(below / "findings", [FINDING, *orphans, elsewhere, unsure])
    return open_run(below)


def test_findings_of_a_bookie_are_grouped_by_check_with_a_first_ledger(tmp_path: Path) -> None:
    run = run_with_findings(tmp_path)
    [orphan, surplus] = _problem_views(run, "bk-b:3181")
    assert (orphan.id, orphan.severity, orphan.count, orphan.unconfirmed_count) == (
        "orphan-ledger",
        Severity.NOTE,
        5,
        4,
    )
    assert orphan.messages == ("ledger 0", "ledger 1", "ledger 2")
    assert orphan.statuses == (None, None, None)
    assert orphan.first_ledger_finding is not None
    assert (orphan.first_ledger_finding.scope_id, orphan.first_ledger_finding.ledger_id) == (0, 0)
    assert (surplus.id, surplus.count) == ("surplus-entries", 1)
    [lost] = _problem_views(run, "bk-a:3181")
    assert lost.first_ledger_finding is not None
    assert (lost.id, lost.first_ledger_finding.ledger_id) == ("entry-lost", 42)


def test_shown_findings_of_a_bookie_have_their_change_status(tmp_path: Path) -> None:
    run = run_with_findings(tmp_path)
    row = {"fingerprint": "o1", "change": "worse", "first_seen": 7, "suppressed": None}
    schema = pa.schema([(name, pa.int64() if name == "first_seen" else pa.string()) for name in row])
    write(tmp_path / "tables" / "changes", [row], schema)
    assert _problem_views(run, "bk-b:3181")[0].statuses == (None, ChangeStatus("worse", 7), None)


def test_run_with_inconsistent_tables_is_refused_with_the_table_name(tmp_path: Path) -> None:
    bookie = {"bookie_id": "bk-a:3181", "named": True, "found": True, "read": "read"}
    run = made_run(tmp_path / "run", bookies=[bookie])
    with pytest.raises(
        RunError, match=r"/tables/identities: no row for bk-a:3181, which is in the table bookies$"
    ):
        bookie_view(run, "bk-a:3181")


IDS = (
    "127.0.101.1:3181",
    "127.0.101.10:3181",
    "127.0.101.2:3181",
    "127.0.101.2:3182",
    "bookie-7",
    "bookie-70",
)


def run_of(path: Path, ids: Sequence[str]) -> Run:
    """Return a run with bookies for which only the ids matter."""
    row = {"read": "read", "suspect": False, "foreign_instance": False, "marked": False, "ledgers": 0}
    return made_run(
        path,
        bookies=[row | {"bookie_id": bookie_id, "depending": 0, "replicas": 0} for bookie_id in ids],
        identities=[{"bookie_id": bookie_id, "aliases": []} for bookie_id in ids],
    )


@pytest.mark.parametrize(
    ("prefix", "meant"),
    [
        ("127.0.101.1:3181", "127.0.101.1:3181"),
        ("127.0.101.1", "127.0.101.1:3181"),
        ("127.0.101.10", "127.0.101.10:3181"),
        ("127.0.101.1:", "127.0.101.1:3181"),
        ("bookie-7", "bookie-7"),
    ],
)
def test_unique_prefix_of_a_bookie_id_selects_the_bookie(tmp_path: Path, prefix: str, meant: str) -> None:
    run = run_of(tmp_path / "run", IDS)
    assert bookie_view(run, prefix).bookie_id == meant


@pytest.mark.parametrize(
    ("prefix", "error_text"),
    [
        ("127.0.101.2", "2 bookie ids begin with '127.0.101.2': 127.0.101.2:3181, 127.0.101.2:3182"),
        ("book", "2 bookie ids begin with 'book': bookie-7, bookie-70"),
        ("27.0.101.1:3181", "no bookie '27.0.101.1:3181' is known; did you mean 127.0.101.1:3181"),
    ],
)
def test_ambiguous_or_unknown_id_lists_candidates(tmp_path: Path, prefix: str, error_text: str) -> None:
    run = run_of(tmp_path / "run", IDS)
    with pytest.raises(RunError, match=re.escape(error_text)):
        bookie_view(run, prefix)


def test_only_the_first_of_many_matching_bookie_ids_are_listed(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [f"bk{number:02}" for number in range(25)])
    with pytest.raises(RunError, match=r"25 bookie ids begin with 'bk': bk00, .*, bk19 and 5 more$"):
        bookie_view(run, "bk")
