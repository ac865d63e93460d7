"""An audit that was interrupted and is run again later: it makes old tables anew, and the report says so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.clusters.idle import ProgressHook, audit, idle_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAMAGED_LEDGER, INTACT_LEDGER = 1, 2
RESUME_WITHIN_S = 3.0


class KilledError(Exception):
    """An error that stands for the end of the process."""


def _killed() -> None:
    raise KilledError


def test_resumed_run_reports_a_copy_lost_since_the_interrupted_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A run stops before a ledger loses a copy, and restarts later; `test_resumption` tests fresh tables."""
    with idle_cluster(tmp_path, "InterleavedLedgerStorage", bookies=2) as (bookies, store):
        a, b = bookies.ids
        for ledger in (DAMAGED_LEDGER, INTACT_LEDGER):
            bookies.write(ledger, [a, b], 2, 2, 10)
        bookies.flush()
        sources, out = [str(bookies.directory)], tmp_path / "run"
        with pytest.raises(KilledError):
            audit(
                spark, store, sources, out, ProgressHook("verdicts", _killed), resume_within=RESUME_WITHIN_S
            )
        assert (out / "tables" / "availability").exists()
        bookies.stop(b)
        [index] = bookies.place(b).glob(f"*/current/*/*/{DAMAGED_LEDGER:x}.idx")
        index.unlink()
        time.sleep(RESUME_WITHIN_S + 1)
        run = audit(spark, store, sources, out, resume_within=RESUME_WITHIN_S)
    run_text = repr(run.report.run) + (run.out / "report.json").read_text()
    assert "resum" in run_text
    assert [(id, ledger) for id, ledger, _ in run.copy_findings()] == [("below-ack-quorum", DAMAGED_LEDGER)]
    assert [row["bookie_id"] for row in run.findings_of("bookie-down")] == [b]
