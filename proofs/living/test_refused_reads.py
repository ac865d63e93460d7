"""If a bookie refuses clients, findings about its missing entries stay as certain as without a witness."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from proofs.living.loop import audit
from proofs.living.ways import DISK
from tests.clusters.living import CALM, living_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LEDGER, ENTRIES, LOST = 1, 10, range(4)
CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")


def test_a_bookie_that_refuses_reads_makes_no_finding_less_certain(
    spark: SparkSession, tmp_path: Path
) -> None:
    with living_cluster(tmp_path / "cluster", "DbLedgerStorage", bookies=2, settings=CALM) as cluster:
        locked, other = cluster.ids
        cluster.write(LEDGER, [locked, other], 2, 2, ENTRIES)
        cluster.stop(locked)
        cluster.forget_entries(locked, LEDGER, LOST)
        cluster.settings({**CALM, "bookieAuthProviderFactoryClass": "RefusingAuth"})
        cluster.start(locked)
        asked = audit(cluster, spark, DISK, "asked", grace=0)
        unasked = audit(cluster, spark, DISK, "unasked", grace=0, witness="no")
    answers = pq.read_table(asked.path / "tables" / "witness").to_pylist()
    assert {row["answer"] for row in answers if row["bookie_id"] == locked} == {"refused"}
    assert all("EUA" in row["reason"] for row in answers if row["bookie_id"] == locked)
    found, known = (
        [(row["id"], row["ledger_id"], row["confidence"]) for id in CLASSES for row in run.of(id)]
        for run in (asked, unasked)
    )
    assert found == known == [("below-ack-quorum", LEDGER, "confirmed")]
