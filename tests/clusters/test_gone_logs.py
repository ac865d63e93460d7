"""An entry log that indexes refer to is missing on one bookie, then on all. None serves its entries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor import Audit
from auditor.model.finding import Severity
from auditor.model.options import AuditOptions
from auditor.model.report import exit_code
from auditor.reports.ledger import render
from auditor.runs.load_ledger import ledger_view
from auditor.runs.reader import RunReader
from auditor.sources.metadata.dump.save import SaveRequest, save
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.clusters.idle import IdleClusterRun, audit, idle_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.bookies.driver import Bookies

SETTINGS: dict[str, str | int] = {
    "gcWaitTime": 86_400_000,
}
ENTRIES = 20
EARLY, LATER = range(1, 13), range(20, 23)
"""Ledgers in the first log, and those in the next."""


def remove_first_log(bookies: Bookies, *names: str) -> None:
    for name in names:
        bookies.stop(name)
        next(bookies.place(name).rglob("current/0.log")).unlink()
        bookies.start(name)


def classes(run: IdleClusterRun, id: str) -> dict[int, tuple[str, int]]:
    """Return the confidence of each finding of a check, and its number of entries, by ledger."""
    counts = {row["ledger_id"]: row["class_entries"]["count"] for row in run.table("judged")}
    return {row["ledger_id"]: (row["confidence"], counts[row["ledger_id"]]) for row in run.findings_of(id)}


def wholly_gone(run: IdleClusterRun, bookies: int) -> dict[int, tuple[str, int]]:
    """Return ledgers of which this many bookies have all entries in the missing log, as `classes` does.

    A start may have replayed the entries of other ledgers into a newer log.
    """
    rows = [row["ledger_id"] for row in run.table("gone_entries") if row["entries"] == ENTRIES]
    expected = {ledger: ("confirmed", ENTRIES) for ledger in EARLY if rows.count(ledger) == bookies}
    assert len(expected) >= 3
    return expected


def explanation(run: IdleClusterRun, ledger: int) -> str:
    return render(ledger_view(RunReader(run.out), ledger))


@pytest.mark.parametrize(
    ("storage", "release"), [("DbLedgerStorage", "4.17.3"), ("SortedLedgerStorage", "4.14.7")]
)
def test_entries_in_a_missing_log_do_not_count_as_copies(
    storage: str, release: str, spark: SparkSession, tmp_path: Path
) -> None:
    cluster: dict[str, Any] = {"settings": SETTINGS, "flush_interval_s": 1, "release": release}
    with idle_cluster(tmp_path, storage, 3, **cluster) as (bookies, store):
        for ledger in EARLY:
            bookies.write(ledger, bookies.ids, 3, 2, ENTRIES)
        bookies.flush()
        # A bookie that was started writes into a new log.
        for name in bookies.ids:
            bookies.stop(name)
            bookies.start(name)
        for ledger in LATER:
            bookies.write(ledger, bookies.ids, 3, 2, ENTRIES)
        bookies.flush()

        def run_audit(name: str, metadata: str | None = None, **options: Any) -> IdleClusterRun:
            return audit(spark, store, [str(bookies.directory)], tmp_path / name, entry_logs=True, **options)

        remove_first_log(bookies, bookies.ids[0])
        on_one = run_audit("one")
        remove_first_log(bookies, *bookies.ids[1:])
        on_all = run_audit("all")
        unasked = run_audit("unasked", witness="no")
        for name in bookies.ids:
            bookies.stop(name)
        dump = tmp_path / "metadata.jsonl"
        with dump.open("wb") as file:
            save(SaveRequest(parse_metadata_uri(store.uri), (), True, StoreOptions()), file)
        report = Audit(
            f"dump://{dump}", [str(bookies.directory)], str(tmp_path / "saved"), AuditOptions(entry_logs=True)
        ).run(spark)
        saved = IdleClusterRun(report, tmp_path / "saved", exit_code(report, Severity.ERROR))

    assert wholly_gone(on_one, 1).items() <= classes(on_one, "below-write-quorum").items()
    assert on_one.findings_of("entry-lost") == []
    for run in (on_all, unasked, saved):
        lost = wholly_gone(run, 3)
        assert lost.items() <= classes(run, "entry-lost").items()
        touched = {row["ledger_id"] for row in run.table("gone_entries")}
        assert classes(run, "entry-lost").keys() <= touched
        assert {row["state"] for row in run.table("gone_entries")} == {"agreed"}
    witness_rows = [row for row in on_all.table("witness") if row["ledger_id"] in lost]
    assert {row["ledger_id"] for row in witness_rows} == lost.keys()
    assert {row["answer"] for row in witness_rows}.isdisjoint({"served"})
    text = explanation(on_all, min(lost))
    assert "healthy" not in text
    assert "no copy" in text or "lost" in text
