"""Bookies that give each ledger its own entry log, and so write to several logs at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from auditor.sources.bookies.entry_logs.reader import read_contents
from tests.clusters.idle import IdleClusterRun, audit, idle_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPEN_LOGS = 8
SETTINGS: dict[str, str | int] = {
    "entryLogPerLedgerEnabled": "true",
    # The server closes the log of the ledger that was idle for longest. How much time passes is no matter.
    "maximumNumberOfActiveEntryLogs": OPEN_LOGS,
    "entrylogMapAccessExpiryTimeInSeconds": 86_400,
    "gcWaitTime": 86_400_000,
    "minorCompactionInterval": 86_400,
    "majorCompactionInterval": 172_800,
}
CLOSED = range(2, 31)
LATER = range(31, 34)
"""Ledgers that are opened after the flush: as many logs get their map then."""
FLUSHED, UNFLUSHED, UNMAPPED = (2, 3), (23, 24), (30,)
"""Deleted ledgers, by the state of their logs. Fewer than one in five: the metadata store is trusted."""
DELETED = (*FLUSHED, *UNFLUSHED, *UNMAPPED)


def deletable_logs(run: IdleClusterRun) -> set[str]:
    """Return the logs that the next collection deletes."""
    return {Path(row["path"]).name for row in run.table("log_foresight") if row["action"] == "delete"}


def confidence(run: IdleClusterRun) -> set[str]:
    return {row["confidence"] for row in run.findings_of("entry-log-reclaimable")}


def test_log_skipped_by_a_collection_is_not_confirmed_for_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    conf = tmp_path / "bk_server.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
    with idle_cluster(tmp_path, "InterleavedLedgerStorage", 1, settings=SETTINGS) as (bookies, store):
        [bookie] = bookies.ids

        def run_audit(name: str, bookie_conf: str | None) -> IdleClusterRun:
            # Runs lie beside those with the same settings: each is the earlier run of the next.
            out = tmp_path / ("conf" if bookie_conf else "plain") / name
            out.parent.mkdir(exist_ok=True)
            sources = [str(bookies.directory)]
            return audit(spark, store, sources, out, entry_logs=True, bookie_conf=bookie_conf, witness="no")

        def logs() -> set[str]:
            return {log.name for log in bookies.place(bookie).rglob("current/*.log")}

        def mapped() -> set[str]:
            """Return the logs to which the bookie has written their ledgers map."""
            results = [(log.name, read_contents(str(log))) for log in bookies.place(bookie).rglob("*.log")]
            return {name for name, contents in results if contents.map_bytes}

        bookies.create(1, [bookie], 1, 1)
        bookies.append(1, 10)
        for ledger in CLOSED:
            bookies.write(ledger, [bookie], 1, 1, 10)
        bookies.flush()
        flushed = mapped()
        for ledger in LATER:
            bookies.create(ledger, [bookie], 1, 1)
            bookies.append(ledger, 3)
        unflushed = mapped() - flushed
        for ledger in DELETED:
            bookies.delete(ledger)
        runs = {conf: [run_audit("before", conf)] for conf in (None, str(conf))}
        logs_before = logs()
        for _ in range(2):
            bookies.append(1, 3)
            bookies.collect(bookie)
        logs_after = logs()
        for settings_path, results in runs.items():
            results += [run_audit("after", settings_path), run_audit("later", settings_path)]

    def names(ledgers: tuple[int, ...]) -> set[str]:
        """Return the logs of ledgers. The id of a log is one less than that of its ledger."""
        return {f"{ledger - 1:x}.log" for ledger in ledgers}

    assert (len(flushed), len(unflushed)) == (len(CLOSED) + 1 - OPEN_LOGS, len(LATER))
    assert names(FLUSHED) <= flushed
    assert names(UNFLUSHED) <= unflushed
    # The collector takes a log to be open until a flush has followed its map.
    assert logs_before - logs_after == names(FLUSHED)
    plain, with_conf = runs[None], runs[str(conf)]
    # Each log that has no map may be written to: the collector leaves it, and nothing else is forecast.
    assert deletable_logs(with_conf[0]) == names((*FLUSHED, *UNFLUSHED))
    assert [confidence(run) for run in with_conf] == [{"suspect"}, set(), set()]
    # Without the configuration the open logs show it: the same is forecast, and nothing confirmed.
    assert deletable_logs(plain[0]) == names((*FLUSHED, *UNFLUSHED))
    assert [confidence(run) for run in plain] == [{"suspect"}, set(), set()]
