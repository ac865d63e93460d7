"""A handful of ledgers made and deleted within one interval of garbage collection is everyday life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.living.idle import audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_new_cluster_whose_few_ledgers_were_all_deleted_is_healthy(
    spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, "SortedLedgerStorage", bookies=5) as (bookies, store):
        for ledger in range(3):
            bookies.write(ledger, bookies.ids, 5, 3, 10)
            bookies.delete(ledger)
        bookies.flush()
        run = audit(spark, store, [str(bookies.directory)], tmp_path / "run")
    assert run.of("metadata-suspect") == []
    assert len(run.of("orphan-ledger")) == 3 * 5
    assert {row["severity"] for row in run.findings()} == {"note"}
    assert run.exit_code == 0
