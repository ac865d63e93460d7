"""What a later run has to have read before it lets go of a hold of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from auditor.actions.finding_holds import NEW_COLUMNS
from auditor.actions.memory import RunInputs, Seen, with_memory
from auditor.model.holds import ActionKind, Lift
from auditor.spark.batches import arrow_frame
from auditor.tables.changes import CHANGES
from auditor.tables.holds import HOLDS
from tests.plan.made import hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL_READ = RunInputs(entry_logs=1, answers=1, owner_stores=2)
BOOKIE = "a:1"


def held(reason: str, key: str = BOOKIE, object: str = "bookie", **more: Any) -> dict[str, Any]:
    lift = Lift.FACT_GONE if reason == "unindexed-bytes" else Lift.FINDING_GONE
    return hold(key, ActionKind.START, reason=reason, object=object) | {"lift": str(lift), **more}


def kept(spark: SparkSession, holds: list[dict[str, Any]], now: RunInputs, *earlier: RunInputs) -> set[str]:
    """Reasons that stay although nothing says them any more; the last of ``earlier`` is the run before."""
    import pyarrow as pa

    new = pa.schema([HOLDS.field(name) for name in NEW_COLUMNS])
    known = RunInputs()
    for run in earlier:
        known = known.joined(run)
    seen = Seen(
        metadata_whole=True,
        registrations_whole=True,
        bookies_read=frozenset({BOOKIE}),
        needed=frozenset(),
        anything_missing=False,
        unseen=frozenset(),
        lost_reasons=now.reasons_unseen(earlier[-1]),
        lost_carried=now.reasons_unseen(known),
    )
    rows = with_memory(
        arrow_frame(spark, new.empty_table()),
        arrow_frame(spark, pa.Table.from_pylist(holds, HOLDS)),
        arrow_frame(spark, CHANGES.empty_table()),
        seen,
        1,
    )
    return {row["reason"] for row in rows.collect()}


OF_OPTIONS = ["gc-would-delete-live", "unindexed-bytes", "index-incomplete", "owner-dangling"]


@pytest.mark.parametrize(
    ("now", "reasons"),
    [
        (ALL_READ, set()),
        (RunInputs(0, 1, 2), {"gc-would-delete-live", "unindexed-bytes"}),
        (RunInputs(1, 0, 2), {"index-incomplete"}),
        (RunInputs(1, 1, 1), {"owner-dangling"}),
    ],
)
def test_holds_stay_where_a_run_read_less(spark: SparkSession, now: RunInputs, reasons: set[str]) -> None:
    holds = [*map(held, OF_OPTIONS), held("cookie-missing")]
    assert kept(spark, holds, now, ALL_READ) == reasons


def test_holds_that_were_carried_on_stay_until_a_run_reads_as_much_again(spark: SparkSession) -> None:
    carried = [held(reason, carried=True) for reason in OF_OPTIONS]
    assert kept(spark, carried, RunInputs(), ALL_READ, RunInputs()) == {*OF_OPTIONS}
    assert kept(spark, carried, ALL_READ, ALL_READ, RunInputs()) == set()
    # What the run before found again without them does not rest on them.
    assert (
        kept(spark, [held(reason) for reason in OF_OPTIONS[:1]], RunInputs(), ALL_READ, RunInputs()) == set()
    )


def test_the_hold_on_an_entry_log_goes_with_its_bytes(spark: SparkSession) -> None:
    log = held("unindexed-bytes", f"{BOOKIE} 1", "entry-log")
    assert kept(spark, [log], ALL_READ, ALL_READ) == set()
    assert kept(spark, [log], RunInputs(0, 1, 2), ALL_READ) == {"unindexed-bytes"}
    other = held("unindexed-bytes", "b:1 1", "entry-log")
    assert kept(spark, [other], ALL_READ, ALL_READ) == {"unindexed-bytes"}
