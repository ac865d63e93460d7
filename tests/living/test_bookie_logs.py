"""A question leaves an ERROR with a stack trace in a bookie's log for each ledger that it lacks: few."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.living.idle import audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EMPTY, LACKING = 60, 40
BOOKIES = 3
FEW = 10


@pytest.mark.parametrize("disks", [True, False])
def test_asking_for_ledgers_that_a_bookie_lacks_leaves_few_errors_in_its_log(
    disks: bool, spark: SparkSession, tmp_path: Path
) -> None:
    def errors() -> int:
        return len(re.findall(r"(?m)^.*\bERROR\b", (tmp_path / "bookies.log").read_text(errors="replace")))

    with idle_cluster(tmp_path, "SortedLedgerStorage", BOOKIES) as (bookies, store):
        a, b, c = bookies.ids
        for ledger in range(EMPTY):
            bookies.write(ledger, bookies.ids, 3, 2, 0)  # of which no bookie ever heard
        for ledger in range(EMPTY, EMPTY + LACKING):
            bookies.record(ledger, [a, b, c], 1, 1, 0)
            bookies.add(ledger, a, [0])  # striped to one of the three
        bookies.create(EMPTY + LACKING, bookies.ids, 3, 2)  # open: any of them may hold entries
        bookies.flush()
        before = errors()
        sources = [str(bookies.directory), "rpc:"] if disks else ["rpc:"]
        run = audit(spark, store, sources, tmp_path / "run")
        lines = errors() - before
    assert (0 if disks else BOOKIES) <= lines <= FEW
    assert run.copies() == []
    assert run.exit_code == 0
