"""A listing over the wire proves presence, not absence: 4.17.2 leaves out a page that is only in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.living.idle import audit, idle_cluster
from tests.living.store import Store
from tests.servers.bookies.driver import Bookies

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# The last entry is the first slot of a page of 8 KiB.
SIZES = (1, 1025)
DAMAGED = (100, 101)


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Bookies, Store]]:
    with idle_cluster(tmp_path_factory.mktemp("idle"), request.param) as (bookies, store):
        for ledger, entries in enumerate(SIZES * 3):
            bookies.write(ledger, bookies.ids, 3, 3, entries)
        yield bookies, store


@pytest.mark.parametrize("cluster", ["InterleavedLedgerStorage", "SortedLedgerStorage"], indirect=True)
def test_an_idle_cluster_is_healthy_though_its_listings_leave_out_a_page_in_memory(
    cluster: tuple[Bookies, Store], spark: SparkSession, tmp_path: Path
) -> None:
    bookies, store = cluster
    by_wire = audit(spark, store, ["rpc:"], tmp_path / "runs" / "rpc", grace=0)
    both = audit(spark, store, [str(bookies.directory), "rpc:"], tmp_path / "runs" / "both", grace=0)
    for run in (by_wire, both):
        assert run.copies() == []
        assert run.report.verdict == "healthy"
        assert run.exit_code == 0


@pytest.mark.parametrize("cluster", ["InterleavedLedgerStorage"], indirect=True)
def test_what_a_listing_leaves_out_and_the_bookie_does_not_serve_is_missing(
    cluster: tuple[Bookies, Store], spark: SparkSession, tmp_path: Path
) -> None:
    """Beside ledgers of which nothing is missing: after the tests of a cluster that is healthy."""
    bookies, store = cluster
    a, b, c = bookies.ids
    for ledger, entries in zip(DAMAGED, SIZES, strict=True):
        bookies.record(ledger, [a, b, c], 3, 2, entries - 1)
        for bookie in (a, b):
            bookies.add(ledger, bookie, range(entries))
    bookies.add(DAMAGED[1], c, range(1024))  # all but the last
    run = audit(spark, store, ["rpc:"], tmp_path / "run", grace=0)
    assert run.copies() == [("below-write-quorum", ledger, "confirmed") for ledger in DAMAGED]
