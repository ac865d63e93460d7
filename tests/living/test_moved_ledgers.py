"""What moved between the two scans of an audit has no confirmed finding of any group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.living.idle import At, audit, idle_cluster
from tests.living.store import Store
from tests.servers.bookies.driver import Bookies

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EXTRA, STALE, SURPLUS, STEADY = range(1, 5)
ENTRIES = 12


def _written(bookies: Bookies) -> None:
    """Copies where metadata do not have them: as they lie before AutoRecovery writes where it put them."""
    a, b, c, d = bookies.ids
    for ledger in (EXTRA, STEADY):
        bookies.write(ledger, [a, b, c], 3, 3, ENTRIES)
        bookies.add(ledger, d, range(ENTRIES))
    bookies.write(SURPLUS, [a, b, c], 2, 2, ENTRIES)
    bookies.add(SURPLUS, b, range(ENTRIES))
    bookies.create(STALE, [a, b, c], 3, 2)
    bookies.append(STALE, 5)
    bookies.stop(c)
    bookies.append(STALE, 5)
    bookies.close(STALE)
    bookies.start(c)
    bookies.add(STALE, c, range(10))
    bookies.flush()


def _move(bookies: Bookies, store: Store) -> None:
    """Every ledger but the steady one gets a new version; one of them a new member."""
    *_, c, d = bookies.ids
    for ledger in (EXTRA, STALE, SURPLUS):
        data, _ = store.client.get(store.path(ledger))
        moved = data.replace(c.encode(), d.encode()) if ledger == EXTRA else data
        store.client.set(store.path(ledger), moved)


def _delete(bookies: Bookies, _: Store) -> None:
    for ledger in (EXTRA, STALE, SURPLUS):
        bookies.delete(ledger)


@pytest.mark.parametrize("stage", ["availability", "ledgers_again"])
@pytest.mark.parametrize("deed", [_move, _delete])
def test_nothing_is_confirmed_of_a_ledger_that_moved_or_went_between_the_scans(
    deed: Callable[[Bookies, Store], None], stage: str, spark: SparkSession, tmp_path: Path
) -> None:
    with idle_cluster(tmp_path, "SortedLedgerStorage", bookies=4) as (bookies, store):
        _written(bookies)
        progress = At(stage, lambda: deed(bookies, store))
        run = audit(spark, store, [str(bookies.directory)], tmp_path / "run", progress)
    assert progress.done
    rows = [row for row in run.findings() if row["ledger_id"] in (EXTRA, STALE, SURPLUS)]
    if deed is _delete:
        assert {row["id"] for row in rows} == {"orphan-ledger-deleting"}
    else:
        assert [row["id"] for row in rows if row["confidence"] == "confirmed"] == []
    # What stood still is confirmed beside it.
    assert [(row["ledger_id"], row["confidence"]) for row in run.of("over-replicated-ledger")][-1:] == [
        (STEADY, "confirmed")
    ]
