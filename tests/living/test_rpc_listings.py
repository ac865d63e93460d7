"""A listing over the wire proves presence, not absence: 4.17.2 leaves out a page that is only in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.living.idle import audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# The last entry is the first slot of a page of 8 KiB.
SIZES = (1, 1025)


@pytest.mark.parametrize("storage", ["InterleavedLedgerStorage", "SortedLedgerStorage"])
def test_an_idle_cluster_is_healthy_though_its_listings_leave_out_a_page_in_memory(
    storage: str, spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, storage) as (bookies, store):
        for ledger, entries in enumerate(SIZES * 3):
            bookies.write(ledger, bookies.ids, 3, 3, entries)
        by_wire = audit(spark, store, ["rpc:"], tmp_path / "runs" / "rpc", grace=0)
        both = audit(spark, store, [str(bookies.directory), "rpc:"], tmp_path / "runs" / "both", grace=0)
    for run in (by_wire, both):
        assert run.copies() == []
        assert run.report.verdict == "healthy"
        assert run.exit_code == 0


def test_what_a_listing_leaves_out_and_the_bookie_does_not_serve_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, "InterleavedLedgerStorage") as (bookies, store):
        a, b, c = bookies.ids
        for ledger, entries in enumerate(SIZES):
            bookies.record(ledger, [a, b, c], 3, 2, entries - 1)
            for bookie in (a, b):
                bookies.add(ledger, bookie, range(entries))
        bookies.add(1, c, range(1024))  # all but the last
        run = audit(spark, store, ["rpc:"], tmp_path / "run", grace=0)
    assert run.copies() == [("below-write-quorum", ledger, "confirmed") for ledger in range(len(SIZES))]
