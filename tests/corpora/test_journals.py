"""Entries that only the journals have, from the bookies' files: killed bookies, and a late journal mark."""

from __future__ import annotations

import json
import os
import struct
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.collect.collect import collect
from auditor.model.report import exit_code
from auditor.model.run_facts import sentence_of
from auditor.notebook.run import open_run
from tests.corpora.audited import RunWithTables, audit, entries
from tests.corpora.cluster import HOUR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDLE = Path(__file__).parents[1] / "data" / "idle-journal" / "bookies.tar.gz"
LATE = 4_000_000_000  # s, after any time in the corpus


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    """Unpack three real bookies (4.17.2, Interleaved) that were killed while idle, with their file times."""
    with tarfile.open(IDLE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "idle-interleaved"


def audited(spark: SparkSession, root: Path, bookies: Path, out: Path, **options: Any) -> RunWithTables:
    return audit(spark, f"zk-snapshot://{root}/zookeeper/version-2", bookies, out, **options)


def entries_before_kill(root: Path) -> dict[tuple[int, str], frozenset[int]]:
    """Return the entries that a plain read found, by ledger and bookie."""
    truth: dict[str, Any] = json.loads((root / "truth.json").read_text())
    entries_by_copy = {}
    for ledger, ledger_truth in truth.items():
        for bookie, text in ledger_truth["held"].items():
            ends = [part.split("-") for part in text.split(",") if part]
            if entry_ids := frozenset(n for end in ends for n in range(int(end[0]), int(end[-1]) + 1)):
                entries_by_copy[int(ledger), bookie] = entry_ids
    return entries_by_copy


def test_killed_bookies_whose_entries_are_all_in_their_journals_are_healthy(
    spark: SparkSession, idle: Path, tmp_path: Path
) -> None:
    run = audited(spark, idle, idle / "bookies", tmp_path / "run")
    assert run.report.verdict == "healthy"
    assert (run.report.coverage.ledgers.total, run.report.coverage.ledgers.decided) == (12, 12)
    assert run.table("unequal") == []
    assert run.table("availability") == []  # nothing of it is in an index file
    tails = [row for row in run.table("journal_tails") if row["ledger_id"] is not None]
    tail_entries = {(row["ledger_id"], row["bookie_id"]): entries(row["groups"]) for row in tails}
    assert tail_entries == entries_before_kill(idle)
    journals = {row["path"]: row for row in run.table("journal_tails") if row["ledger_id"] is None}
    for row in run.table("bookies"):
        assert (row["tail"], row["tail_reason"]) == ("read", None)
        # A copy is as new as what was written to it last, and no newer.
        [own] = [part for path, part in journals.items() if f"/{row['bookie_id'].replace(':', '_')}/" in path]
        assert own["mark_file_id"] < row["index_time"] == own["modified"] < own["read_at"]
    assert not any("journal" in note for note in map(sentence_of, run.report.run.remarks))
    ledger = open_run(tmp_path / "run").ledger(11)
    assert {(part.state, entries(part.held_entries)) for part in ledger.replicas} == {
        ("ok", frozenset(range(1025)))
    }


def test_late_mark_without_journal_leaves_losses_suspect_until_the_index_is_newer(
    spark: SparkSession, idle: Path, tmp_path: Path
) -> None:
    """A flush takes many seconds: the bookie writes lastMark at its end, with the position of its start."""
    first_starts = {}
    for file in list(idle.rglob("*.txn")):
        place = file.parents[2]
        first_starts[place.name.replace("_3181", ":3181")] = int(file.stem, 16)
        mark = place / "ledgers0/current/lastMark"
        mark.write_bytes(struct.pack(">qq", int(file.stem, 16), 512))
        os.utime(mark, (LATE, LATE))
        file.unlink()
    run = audited(spark, idle, idle / "bookies", tmp_path / "runs" / "first")
    lost = run.findings_of("entry-lost")
    assert len(lost) == 12
    assert {row["confidence"] for row in lost} == {"suspect"}
    rows = run.table("bookies")
    assert {row["tail"] for row in rows} == {"unread"}
    missing = "is missing; the bookie would replay the journal from it"
    assert all(missing in row["tail_reason"] for row in rows)
    [note] = [note for note in map(sentence_of, run.report.run.remarks) if "journal" in note]
    assert note.startswith(
        "3 journals incomplete: data losses after the last mark are suspected, not confirmed: "
    )
    assert {row["bookie_id"]: row["index_time"] for row in rows} == first_starts
    assert {row["index_time_basis"] for row in rows} == {"first-start"}
    later = run.report.run.scan_time + HOUR
    newer = audited(spark, idle, idle / "bookies", tmp_path / "runs" / "newer", index_time=later)
    confidences = {row["ledger_id"]: row["confidence"] for row in newer.findings_of("entry-lost")}
    assert confidences == dict.fromkeys([row["ledger_id"] for row in lost], "confirmed")
    changes = [row["change"] for row in newer.table("changes") if row["id"] == "entry-lost"]
    assert changes == ["worse"] * len(lost)
    assert exit_code(newer.report, "new") == 1
    assert sum(tally["worse"] for tally in newer.report.run.tally) == len(lost)


def test_a_clock_that_was_ahead_at_the_first_start_confirms_no_loss(
    spark: SparkSession, idle: Path, tmp_path: Path
) -> None:
    """The ids of journal files are four months after the scan, and the file times are right."""
    for file in list(idle.rglob("*.txn")):
        mark = file.parents[2] / "ledgers0/current/lastMark"
        mark.write_bytes(struct.pack(">qq", int(file.stem, 16) + 120 * 24 * HOUR, 512))
        file.unlink()
    run = audited(spark, idle, idle / "bookies", tmp_path / "run")
    lost = run.findings_of("entry-lost")
    assert len(lost) == 12
    assert {row["confidence"] for row in lost} == {"suspect"}
    assert {(row["index_time"], row["index_time_basis"]) for row in run.table("bookies")} == {(None, None)}


def test_collection_has_journal_tails_and_old_collection_reports_that_it_has_none(
    spark: SparkSession, idle: Path, tmp_path: Path
) -> None:
    collected = collect([str(idle / "bookies")], str(tmp_path / "collected"))
    assert not any("journal" in line.replace(str(idle.parent), "") for line in collected.unread_lines)
    assert collected.manifest.rows("journal_tails") == len(entries_before_kill(idle)) + 3
    run = audited(spark, idle, tmp_path / "collected", tmp_path / "run")
    assert (run.report.verdict, {row["tail"] for row in run.table("bookies")}) == ("healthy", {"read"})
    manifest = tmp_path / "collected/collection.json"
    older = json.loads(manifest.read_text())
    del older["tables"]["journal_tails"]
    manifest.write_text(json.dumps(older))
    run = audited(spark, idle, tmp_path / "collected", tmp_path / "older")
    assert {row["confidence"] for row in run.findings_of("entry-lost")} == {"suspect"}
    assert {row["tail_reason"] for row in run.table("bookies")} == {
        "the bookie's collection has no journals: an older version of this program made it"
    }
