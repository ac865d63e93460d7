"""After a clean decommissioning with ensembles above the write quorum, audits report no bookie as faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proofs.living.loop import audit
from proofs.living.ways import DISK
from tests.clusters.living import BUSY_SETTINGS, LivingBookies, living_cluster, wait_until
from tests.corpora.brute_force import members

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LEDGERS = range(1, 25)
# These settings prevent garbage collection and compaction during the test.
NO_GC_SETTINGS = {"gcWaitTime": 3_600_000, "minorCompactionInterval": -1, "majorCompactionInterval": -1}


def decommission(cluster: LivingBookies, bookie: str) -> None:
    """Stop a bookie, wait until AutoRecovery has copied all of its ledgers, and delete its cookie."""
    cluster.stop(bookie)

    def is_free() -> bool:
        store = cluster.store.snapshot()
        is_member = any(bookie in members(ledger) for ledger in store.ledgers.values())
        return not is_member and not store.marks

    wait_until(is_free, f"no ledger names {bookie}", 180)
    cluster.store.delete(cluster.store.cookie(bookie))


def test_decommissioning_causes_no_disk_mismatch_and_no_error_finding(
    spark: SparkSession, tmp_path: Path
) -> None:
    with living_cluster(
        tmp_path / "cluster", "DbLedgerStorage", bookies=4, settings={**BUSY_SETTINGS, **NO_GC_SETTINGS}
    ) as cluster:
        *remaining, leaving_bookie = cluster.ids
        for ledger in LEDGERS:
            first, second = remaining[ledger % 3], remaining[(ledger + 1) % 3]
            cluster.write(ledger, [first, leaving_bookie, second], 2, 2, 30)
        decommission(cluster, leaving_bookie)
        run = audit(cluster, spark, DISK, "run")
    assert run.by_id("disk-content-mismatch") == []
    # The replication workers copied whole segments, so new members have more than their stripes.
    assert {row["bookie_id"] for row in run.by_id("surplus-entries")} <= {*remaining}
    assert run.by_id("surplus-entries")
    assert [row for row in run.findings if row["severity"] in ("error", "critical")] == []
