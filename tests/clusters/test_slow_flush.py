"""A slow flush: the index is as old as the flush's beginning, whatever end time the mark's file has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.clusters.idle import audit
from tests.clusters.living import IDLE_SETTINGS, LivingBookies, living_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BEFORE, DURING = 1, 2
SLOW_S = 600.0
GRACE_S = 1.0
SYNCS_OF_A_FLUSH = 10


def _marks(cluster: LivingBookies) -> dict[str, int]:
    return {bookie: _mark(cluster, bookie).stat().st_mtime_ns for bookie in cluster.ids}


def _let_one_flush_end(cluster: LivingBookies, bookie: str) -> None:
    """Let the waiting flush end; the next flush begins at once and waits in its place."""
    mark = _mark(cluster, bookie).stat().st_mtime_ns
    for _ in range(SYNCS_OF_A_FLUSH):
        cluster.slow(bookie, SLOW_S)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            if _mark(cluster, bookie).stat().st_mtime_ns != mark:
                return
            time.sleep(0.02)
    raise AssertionError(f"the flush of {bookie} does not end")


def _mark(cluster: LivingBookies, bookie: str) -> Path:
    return cluster.place(bookie) / "ledgers0" / "current" / "lastMark"


def test_entries_written_during_a_slow_flush_are_not_reported_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    with living_cluster(
        tmp_path, "DbLedgerStorage", bookies=2, settings=IDLE_SETTINGS, flush_interval_s=1
    ) as cluster:
        for bookie in cluster.ids:
            cluster.slow(bookie, SLOW_S)
        cluster.write(BEFORE, cluster.ids, 2, 2, 10)
        time.sleep(5)  # every bookie is at its flush, and waits for its disk
        before = _marks(cluster)
        cluster.write(DURING, cluster.ids, 2, 2, 10)
        time.sleep(GRACE_S + 3)
        assert _marks(cluster) == before, "the flush is over already"
        for bookie in cluster.ids:
            _let_one_flush_end(cluster, bookie)
        marks = _marks(cluster)
        run = audit(spark, cluster.store, [str(cluster.directory)], tmp_path / "run", grace=GRACE_S)
        assert _marks(cluster) == marks, "another flush ended while the audit ran"
        for bookie in cluster.ids:
            cluster.slow(bookie, 0)
    assert [row for row in run.copy_findings() if row[2] == "confirmed"] == []
    assert run.copy_findings() == []
    assert run.exit_code == 0
