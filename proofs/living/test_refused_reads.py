"""A bookie that refuses the witness's reads makes no finding about its missing entries less certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from proofs.living.loop import audit
from proofs.living.ways import DISK
from tests.clusters.living import IDLE_SETTINGS, living_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LEDGER, ENTRIES, LOST = 1, 10, range(4)
CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")


def test_refused_reads_make_no_finding_less_certain(spark: SparkSession, tmp_path: Path) -> None:
    with living_cluster(
        tmp_path / "cluster", "DbLedgerStorage", bookies=2, settings=IDLE_SETTINGS
    ) as cluster:
        refusing_bookie, other_bookie = cluster.ids
        cluster.write(LEDGER, [refusing_bookie, other_bookie], 2, 2, ENTRIES)
        cluster.stop(refusing_bookie)
        cluster.forget_entries(refusing_bookie, LEDGER, LOST)
        cluster.settings({**IDLE_SETTINGS, "bookieAuthProviderFactoryClass": "RefusingAuth"})
        cluster.start(refusing_bookie)
        witness_run = audit(cluster, spark, DISK, "asked", grace=0)
        plain_run = audit(cluster, spark, DISK, "unasked", grace=0, witness="no")
    answers = pq.read_table(witness_run.path / "tables" / "witness").to_pylist()
    assert {row["answer"] for row in answers if row["bookie_id"] == refusing_bookie} == {"refused"}
    assert all("EUA" in row["reason"] for row in answers if row["bookie_id"] == refusing_bookie)
    witness_rows, plain_rows = (
        [(row["id"], row["ledger_id"], row["confidence"]) for id in CLASSES for row in run.by_id(id)]
        for run in (witness_run, plain_run)
    )
    assert witness_rows == plain_rows == [("below-ack-quorum", LEDGER, "confirmed")]
