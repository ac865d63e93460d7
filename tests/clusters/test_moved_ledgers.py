"""Ledgers that move between the two scans of an audit get no confirmed finding of any group.

One cluster has four ledgers for each case. The test disturbs an audit at each of the stages: it moves some
ledgers and then deletes others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.clusters.idle import IdleClusterRun, ProgressHook, audit, idle_cluster
from tests.clusters.store import Store
from tests.servers.bookies.driver import Bookies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRIES = 12


class Ledgers(NamedTuple):
    """The ledgers of a case. The steady one is not changed."""

    extra: int
    stale: int
    surplus: int
    steady: int


def _write(bookies: Bookies, cases: list[Ledgers]) -> None:
    """Write copies that the metadata do not name, as they are before AutoRecovery records their new place."""
    a, b, c, d = bookies.ids
    for case in cases:
        for ledger in (case.extra, case.steady):
            bookies.write(ledger, [a, b, c], 3, 3, ENTRIES)
            bookies.add(ledger, d, range(ENTRIES))
        bookies.write(case.surplus, [a, b, c], 2, 2, ENTRIES)
        bookies.add(case.surplus, b, range(ENTRIES))
        bookies.create(case.stale, [a, b, c], 3, 2)
        bookies.append(case.stale, 5)
    bookies.stop(c)
    for case in cases:
        bookies.append(case.stale, 5)
        bookies.close(case.stale)
    bookies.start(c)
    for case in cases:
        bookies.add(case.stale, c, range(10))
    bookies.flush()


def _move(bookies: Bookies, store: Store, case: Ledgers) -> None:
    """Give every ledger except the steady one a new version, and one of them a new member."""
    *_, c, d = bookies.ids
    for ledger in (case.extra, case.stale, case.surplus):
        data, _ = store.client.get(store.path(ledger))
        moved = data.replace(c.encode(), d.encode()) if ledger == case.extra else data
        store.client.set(store.path(ledger), moved)


def _delete(bookies: Bookies, _: Store, case: Ledgers) -> None:
    for ledger in (case.extra, case.stale, case.surplus):
        bookies.delete(ledger)


Deed = Callable[[Bookies, Store, Ledgers], None]
STAGES, DEEDS = ("availability", "ledgers_again"), (_move, _delete)
CASES: dict[tuple[str, Deed], Ledgers] = {
    (stage, deed): Ledgers(*range(1 + 4 * number, 5 + 4 * number))
    for number, (stage, deed) in enumerate((stage, deed) for stage in STAGES for deed in DEEDS)
}


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, IdleClusterRun]:
    """Return one audit per stage, during which the ledgers of the stage's cases are moved and deleted."""
    root, finished = tmp_path_factory.mktemp("moved"), {}
    with idle_cluster(root, "SortedLedgerStorage", bookies=4) as (bookies, store):
        _write(bookies, list(CASES.values()))
        for stage in STAGES:

            def disturb(stage: str = stage) -> None:
                for deed in DEEDS:
                    deed(bookies, store, CASES[stage, deed])

            progress = ProgressHook(stage, disturb)
            out = root / stage / "run"  # apart: runs side by side are compared with each other
            finished[stage] = audit(spark, store, [str(bookies.directory)], out, progress)
            assert progress.done
    return finished


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("deed", DEEDS)
def test_ledger_changed_between_the_scans_gets_no_confirmed_finding(
    deed: Deed, stage: str, runs: dict[str, IdleClusterRun]
) -> None:
    run, case = runs[stage], CASES[stage, deed]
    rows = [row for row in run.findings() if row["ledger_id"] in case[:3]]
    if deed is _delete:
        assert {row["id"] for row in rows} == {"orphan-ledger-deleting"}
    else:
        assert [row["id"] for row in rows if row["confidence"] == "confirmed"] == []
    # What stood still is confirmed beside it.
    surplus = [row for row in run.findings_of("over-replicated-ledger") if row["ledger_id"] in case]
    assert [(row["ledger_id"], row["confidence"]) for row in surplus][-1:] == [(case.steady, "confirmed")]
