"""A record with a wrong size in an entry log: the real collector deletes live ledgers, as forecast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clusters.idle import IdleClusterRun, audit, idle_cluster
from tests.codecs.bookie.test_entry_log_records import scan_one_by_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.clusters.store import Store

SETTINGS: dict[str, str | int] = {
    "gcWaitTime": 86_400_000,
    # All ledgers but the last are in the first log, and the mark goes forward when the next log begins.
    "logSizeLimit": 13_600,
}
ENTRIES = 20
LEDGERS = range(1, 13)
DAMAGED = 7
"""The ledger one record of which has a wrong size: what follows it in the log is hidden."""


def damage(log: Path, spoil: Any) -> None:
    """Change the size of the tenth record of the ledger `DAMAGED`, in a log whose map was never written."""
    data = bytearray(log.read_bytes())
    del data[int.from_bytes(data[8:16]) or len(data) :]
    data[8:20] = bytes(12)
    offset = [start for start, _, _, ledger, _ in scan_one_by_one(bytes(data)) if ledger == DAMAGED][10]
    data[offset : offset + 4] = spoil(bytes(data[offset : offset + 4]))
    log.write_bytes(data)


def flip_sign(size: bytes) -> bytes:
    return bytes([size[0] ^ 0x80]) + size[1:]


def enlarge(size: bytes) -> bytes:
    return bytes([size[0], size[1] | 0x10]) + size[2:]


def danger_finding(run: IdleClusterRun) -> tuple[str, dict[str, Any]]:
    """Return the confidence of the one finding, and its evidence."""
    [finding] = run.findings_of("gc-would-delete-live")
    return finding["confidence"], json.loads(finding["evidence"])


def hidden_entries(run: IdleClusterRun) -> dict[int, int]:
    return {row["ledger_id"]: row["unseen"] for row in run.table("unseen_entries")}


def indexed_behind(run: IdleClusterRun) -> dict[int, int]:
    """Return the entries that the index has in the first log, of ledgers written after the damaged one.

    The start has replayed the last ones into a new log, and the index refers to that log for them.
    """
    rows = [row for row in run.table("locations") if row["log_id"] == 0 and row["ledger_id"] > DAMAGED]
    return {row["ledger_id"]: row["entries"] for row in rows}


@pytest.mark.parametrize(
    ("storage", "spoil"),
    [("DbLedgerStorage", flip_sign), ("InterleavedLedgerStorage", flip_sign), ("DbLedgerStorage", enlarge)],
)
def test_live_ledgers_behind_a_damaged_record_are_deleted_with_their_log(
    storage: str, spoil: Any, spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, storage, 1, settings=SETTINGS, flush_interval_s=1) as (bookies, store):
        [bookie] = bookies.ids
        for ledger in LEDGERS:
            bookies.write(ledger, [bookie], 1, 1, ENTRIES)
        # Each later write moves the mark past what was flushed before: the start replays little of it.
        for later in (19, 21):
            bookies.flush()
            bookies.write(later, [bookie], 1, 1, ENTRIES)
        bookies.flush()
        bookies.stop(bookie)
        log = next(bookies.place(bookie).rglob("current/0.log"))
        damage(log, spoil)
        bookies.start(bookie)
        # A newer log: the damaged one is the collector's from now on.
        bookies.write(20, [bookie], 1, 1, ENTRIES)
        bookies.flush()
        before = run_audit(spark, store, bookies.directory, tmp_path / "before")
        for ledger in range(1, DAMAGED + 1):
            bookies.delete(ledger)
        after = run_audit(spark, store, bookies.directory, tmp_path / "after")
        assert log.exists()
        bookies.collect(bookie)
        assert not log.exists()

    assert danger_finding(before)[0] == "suspect"
    assert danger_finding(before)[1]["causes"] == ["unseen-keep"]
    confidence, evidence = danger_finding(after)
    assert confidence == "confirmed"
    behind = indexed_behind(after)
    assert len(behind) >= 3
    assert (evidence["ledgers"], evidence["reasons"]) == (len(behind), ["unseen"])
    assert evidence["causes"] == ["unseen-delete"]
    # Of the damaged ledger entry 10 and those after it.
    assert hidden_entries(after) == {DAMAGED: ENTRIES - 10, **behind}
    classes = {row["class"] for row in after.table("space") if row["path"] == str(log)}
    assert "not-yet-mapped" not in classes
    [plan] = [row for row in after.table("log_foresight") if row["path"] == str(log)]
    assert (plan["action"], plan["frees"]) == ("delete", 0)


def run_audit(spark: SparkSession, store: Store, bookies: Path, out: Path) -> IdleClusterRun:
    return audit(spark, store, [str(bookies)], out, entry_logs=True, witness="no")
