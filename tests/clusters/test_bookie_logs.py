"""A listing request for a missing ledger logs an ERROR with a stack trace on the bookie; audits cause few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.clusters.idle import audit, idle_cluster
from tests.clusters.store import Store
from tests.servers.bookies.driver import Bookies

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EMPTY, LACKING = 60, 40
BOOKIES = 3
MAX_ERROR_LINES = 10


class Cluster(NamedTuple):
    bookies: Bookies
    store: Store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("logs")
    with idle_cluster(root, "SortedLedgerStorage", BOOKIES) as (bookies, store):
        a, b, c = bookies.ids
        for ledger in range(EMPTY):
            bookies.write(ledger, bookies.ids, 3, 2, 0)  # of which no bookie ever heard
        for ledger in range(EMPTY, EMPTY + LACKING):
            bookies.record(ledger, [a, b, c], 1, 1, 0)
            bookies.add(ledger, a, [0])  # striped to one of the three
        bookies.create(EMPTY + LACKING, bookies.ids, 3, 2)  # open: any of them may hold entries
        bookies.flush()
        yield Cluster(bookies, store)


@pytest.mark.parametrize("disks", [True, False])
def test_listing_missing_ledgers_leaves_few_errors_in_the_bookies_log(
    disks: bool, cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    def errors() -> int:
        log = cluster.bookies.root / "bookies.log"
        return len(re.findall(r"(?m)^.*\bERROR\b", log.read_text(errors="replace")))

    before = errors()
    sources = [str(cluster.bookies.directory), "rpc:"] if disks else ["rpc:"]
    run = audit(spark, cluster.store, sources, tmp_path / "run")
    lines = errors() - before
    assert (0 if disks else BOOKIES) <= lines <= MAX_ERROR_LINES
    assert run.copy_findings() == []
    assert run.exit_code == 0
