"""Index locations without their entry, found by the lowest entries and by entries that were read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from auditor.tables.space import MISPLACED, misplaced_locations
from tests.checks.tables_builder import NOW_MS, Row, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = {"bookie_id": "bk1", "logger": 0, "log_id": 3, "scope_id": 0}


def location(ledger_id: int, **columns: Any) -> Row:
    return PLACE | {"ledger_id": ledger_id, "entries": 10, "probe": "ok"} | columns


def sampled_location(ledger_id: int, entry_id: int, **columns: Any) -> Row:
    row = PLACE | {"ledger_id": ledger_id, "entry_id": entry_id, "entry_offset": 2000, "entries": 1}
    return row | {"reason": "other-entry"} | columns


def misplaced_rows(spark: SparkSession, earlier: DataFrame | None = None) -> dict[int, dict[str, Any]]:
    probed = [
        location(1),
        location(2, probe="missing", probe_entry=0, probe_offset=9),
        location(3, probe="past-end"),
        location(5),
    ]
    index_rows = [
        {"bookie_id": "bk1", "ledger_id": ledger, "scope_id": 0, "state": "ok"} for ledger in (1, 2, 5)
    ]
    sampled = [
        sampled_location(1, 6, there_ledger_id=1, there_entry_id=7),
        sampled_location(1, 7, there_ledger_id=1, there_entry_id=6),
        sampled_location(5, 0, reason=None),
        sampled_location(4, 0),  # gone from the index
    ]
    rows = misplaced_locations(
        frame(spark, "locations", probed),
        frame(spark, "availability", index_rows),
        frame(spark, "orphans", []),
        frame(spark, "digests", sampled),
        NOW_MS,
        earlier,
    )
    assert rows.columns == MISPLACED.names
    return {row["ledger_id"]: row.asDict() for row in rows.collect()}


def test_entries_of_sampled_digests_are_counted_too(spark: SparkSession) -> None:
    rows = misplaced_rows(spark)
    assert set(rows) == {1, 2}
    assert (rows[1]["probe"], rows[1]["entries"], rows[1]["probe_entry"]) == ("other", 2, 6)
    assert (rows[1]["there_ledger_id"], rows[1]["there_entry_id"]) == (1, 7)
    assert (rows[2]["probe"], rows[2]["entries"], rows[2]["since"]) == ("missing", 10, NOW_MS)


def test_unchanged_misplaced_location_keeps_its_first_time(spark: SparkSession) -> None:
    then = [row | {"since": NOW_MS - 5} for row in misplaced_rows(spark).values()]
    then[1 if then[1]["ledger_id"] == 1 else 0]["probe_offset"] = 2001  # it lay elsewhere
    rows = misplaced_rows(spark, frame(spark, "misplaced", then))
    assert {ledger: row["since"] for ledger, row in rows.items()} == {1: NOW_MS, 2: NOW_MS - 5}
