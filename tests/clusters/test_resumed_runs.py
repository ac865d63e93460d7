"""An audit that was broken off and is given again: old tables are read again, and the report says so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.clusters.idle import At, audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LOST, KEPT = 1, 2
RESUME_WITHIN_S = 3.0


class KilledError(Exception):
    """Stands for the end of the process."""


def _killed() -> None:
    raise KilledError


def test_a_fault_that_came_after_the_break_is_seen_where_tables_have_grown_old(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A run broke off before a ledger lost a copy, and goes on after it; a fresh one: `test_resumption`."""
    with idle_cluster(tmp_path, "InterleavedLedgerStorage", bookies=2) as (bookies, store):
        a, b = bookies.ids
        for ledger in (LOST, KEPT):
            bookies.write(ledger, [a, b], 2, 2, 10)
        bookies.flush()
        sources, out = [str(bookies.directory)], tmp_path / "run"
        with pytest.raises(KilledError):
            audit(spark, store, sources, out, At("verdicts", _killed), resume_within=RESUME_WITHIN_S)
        assert (out / "tables" / "availability").exists()
        bookies.stop(b)
        [index] = bookies.place(b).glob(f"*/current/*/*/{LOST:x}.idx")
        index.unlink()
        time.sleep(RESUME_WITHIN_S + 1)
        run = audit(spark, store, sources, out, resume_within=RESUME_WITHIN_S)
    said = repr(run.report.run) + (run.out / "report.json").read_text()
    assert "resum" in said
    assert [(id, ledger) for id, ledger, _ in run.copies()] == [("below-ack-quorum", LOST)]
    assert [row["bookie_id"] for row in run.of("bookie-down")] == [b]
