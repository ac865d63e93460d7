"""A real collector deletes and rewrites what the audit forecast: by ledger, by log, and to the byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.model.check_settings import CheckSettings
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of
from auditor.sources.bookies.parts import IndexDirectory
from tests.clusters.idle import audit, idle_cluster
from tests.codecs.bookie.test_entry_log_records import scan_one_by_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: dict[str, str | int] = {
    "logSizeLimit": 16 << 10,
    "gcWaitTime": 86_400_000,
    "minorCompactionThreshold": "0.2",
    "minorCompactionInterval": 86_400,
    "majorCompactionThreshold": "0.5",
    "majorCompactionInterval": 172_800,
    "gcEntryLogMetadataCacheEnabled": "true",
}
SIZES = (300, 300, 40, 200, 20, 200, 150, 30, 150, 300, 60)
"""Entries of each ledger; about 200 are a log."""
DELETED = (0, 1, 3, 5, 7, 10)
SMALL_LEDGERS = len(DELETED) * 100 // CheckSettings().large_orphan_share_percent - len(SIZES)
"""Ledgers of one entry each that stay, so that one ledger in five is gone and no more: the metadata store is
trusted then."""


def entry_bytes(logs: list[Path]) -> Counter[int]:
    sizes: Counter[int] = Counter()
    for log in logs:
        for _, size, _, ledger, _ in scan_one_by_one(log.read_bytes()):
            sizes[ledger] += size
    return sizes


def read_again(place: Path) -> list[dict[str, Any]]:
    """Read the entry logs of a bookie with one ledger directory, and its collector's cached metadata."""
    [log] = {path.parents[1] for path in place.rglob("current/*.log")}
    index_directory = IndexDirectory.from_version(str(log), Path(log, "current", "VERSION").read_bytes())
    part = LogPart(None, None, index_directory.path, index_directory.version_sha256)
    return [row for batch in read_logs_of(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("storage", "small_ledgers", "verdict"),
    [
        ("DbLedgerStorage", SMALL_LEDGERS, ("right", "no-metadata")),
        ("InterleavedLedgerStorage", SMALL_LEDGERS, ("right", "no-metadata")),
        # More than one ledger in five is gone: the store may have lost them. The bookie deletes them.
        ("DbLedgerStorage", SMALL_LEDGERS - 1, ("unknown", "metadata-suspect")),
    ],
)
def test_collection_does_what_the_forecast_says(
    storage: str, small_ledgers: int, verdict: tuple[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    conf = tmp_path / "bk_server.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
    with idle_cluster(tmp_path, storage, bookies=1, settings=SETTINGS) as (bookies, store):
        [bookie] = bookies.ids
        for ledger, entries in enumerate([*SIZES, *[1] * small_ledgers]):
            bookies.write(ledger, [bookie], 1, 1, entries)
        bookies.flush()
        for ledger in DELETED:
            bookies.delete(ledger)
        before = bookies.stored_entries()[bookie]
        run = audit(
            spark,
            store,
            [str(bookies.directory)],
            tmp_path / "run",
            entry_logs=True,
            bookie_conf=str(conf),
            witness="no",
        )
        logs = {str(log): log.stat().st_size for log in bookies.place(bookie).rglob("*.log")}
        logs = {path: size for path, size in logs.items() if Path(path).parent.name == "current"}
        bytes_before = entry_bytes([Path(path) for path in logs])
        bookies.collect(bookie)
        bookies.flush()
        after = bookies.stored_entries()[bookie]
        cached = {row["path"]: row for row in read_again(bookies.place(bookie)) if row["ledger_id"] is None}
        remaining = {str(log): log.stat().st_size for log in bookies.place(bookie).rglob("current/*.log")}
        bytes_after = entry_bytes([Path(path) for path in remaining])

    plans = run.table("gc_foresight")
    assert {(row["ledger_id"], row["action"], row["verdict"], row["reason"]) for row in plans} == {
        (ledger, "delete", *verdict) for ledger in DELETED
    }
    suspected = {row["confidence"] for row in run.findings_of("metadata-suspect")}
    assert suspected == (set() if verdict[0] == "right" else {"suspect"})
    assert before.keys() - after.keys() == set(DELETED)
    rows = {row["path"]: row for row in run.table("log_foresight") if not row["current"]}
    assert {path: row["bytes"] for path, row in rows.items()}.items() <= logs.items()
    assert {row["action"] for row in rows.values()} >= {"delete", "major", "keep"}
    removed = {path for path, row in rows.items() if row["action"] != "keep"}
    assert logs.keys() - remaining.keys() == removed
    assert {path: remaining[path] for path in rows.keys() - removed} == {
        path: logs[path] for path in rows.keys() - removed
    }
    # The collector has kept the maps of the logs that it left, and they are what the logs have.
    assert {cached[path]["cache"] for path in rows.keys() - removed} == {"ok"}
    assert {row["cache"] for row in cached.values()} <= {"ok", None}
    # What compaction keeps of a log is written again; all else of it is freed.
    freed = sum(rows[path]["entries"] - rows[path]["remain"] for path in removed)
    assert bytes_before.total() - bytes_after.total() == freed
