"""An audit that was broken off and is given again: old tables are read again, and the report says so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.living.idle import At, Finished, audit, idle_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOST, KEPT = 1, 2
RESUME_WITHIN_S = 3.0
WITHIN_S = (RESUME_WITHIN_S, 3600.0)


class Resumed(NamedTuple):
    """Runs by their limit, and the bookie that was stopped after they broke off."""

    runs: dict[float, Finished]
    stopped: str


class KilledError(Exception):
    """Stands for the end of the process."""


def _killed() -> None:
    raise KilledError


@pytest.fixture(scope="module")
def resumed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    """An audit for each limit of age: all broke off before a ledger lost a copy, and went on after it."""
    root = tmp_path_factory.mktemp("resumed")
    with idle_cluster(root, "InterleavedLedgerStorage", bookies=2) as (bookies, store):
        a, b = bookies.ids
        for ledger in (LOST, KEPT):
            bookies.write(ledger, [a, b], 2, 2, 10)
        bookies.flush()
        sources = [str(bookies.directory)]
        # Apart: runs side by side are compared with each other.
        outs = {within: root / f"within {within:g} s" / "run" for within in WITHIN_S}
        for within, out in outs.items():
            with pytest.raises(KilledError):
                audit(spark, store, sources, out, At("verdicts", _killed), resume_within=within)
            assert (out / "tables" / "availability").exists()
        bookies.stop(b)
        [index] = bookies.place(b).glob(f"*/current/*/*/{LOST:x}.idx")
        index.unlink()
        time.sleep(RESUME_WITHIN_S + 1)
        runs = {within: audit(spark, store, sources, outs[within], resume_within=within) for within in outs}
    return Resumed(runs, b)


@pytest.mark.parametrize("within", WITHIN_S)
def test_a_fault_that_came_after_the_break_is_seen_where_tables_have_grown_old(
    within: float, resumed: Resumed
) -> None:
    run = resumed.runs[within]
    said = repr(run.report.run) + (run.out / "report.json").read_text()
    assert "resum" in said
    old = within > RESUME_WITHIN_S
    assert [(id, ledger) for id, ledger, _ in run.copies()] == ([] if old else [("below-ack-quorum", LOST)])
    assert [row["bookie_id"] for row in run.of("bookie-down")] == ([] if old else [resumed.stopped])
