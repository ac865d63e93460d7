"""Interleaved and Sorted bookies that are idle have everything in their journals, and their disks say so."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.living.idle import audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LEDGERS = 8


@pytest.mark.parametrize("storage", ["InterleavedLedgerStorage", "SortedLedgerStorage", "DbLedgerStorage"])
def test_an_idle_cluster_is_healthy_by_its_disks_alone(
    storage: str, spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, storage) as (bookies, store):
        for ledger in range(LEDGERS):
            bookies.write(ledger, bookies.ids, 3, 3, 1 + 5 * ledger)
        run = audit(spark, store, [str(bookies.directory)], tmp_path / "run", witness="no")
    assert [row["id"] for row in run.findings()] == []
    assert run.report.verdict == "healthy"
    assert run.exit_code == 0


def test_suspects_alone_end_with_3(spark: SparkSession, tmp_path: Path) -> None:
    with idle_cluster(tmp_path, "InterleavedLedgerStorage") as (bookies, store):
        for ledger in range(LEDGERS):
            bookies.write(ledger, bookies.ids, 3, 3, 10)
        # Saved without journals, as many are: nothing says what came after the mark.
        saved = tmp_path / "saved"
        shutil.copytree(bookies.directory, saved, ignore=shutil.ignore_patterns("*.txn"))
        run = audit(spark, store, [str(saved)], tmp_path / "run", witness="no")
    assert {(id, confidence) for id, _, confidence in run.copies()} == {("entry-lost", "suspect")}
    assert len(run.copies()) == LEDGERS
    assert run.exit_code == 3
