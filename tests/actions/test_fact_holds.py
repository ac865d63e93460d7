"""Holds that come from facts: the actions that unindexed bytes forbid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from auditor.actions.fact_holds import unindexed_byte_rows, unindexed_bytes
from auditor.model.holds import ERASING_ACTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPACE = (
    "bookie_id string, path string, log_id bigint, scope_id bigint, ledger_id bigint, class string, "
    "bytes bigint, current boolean"
)
LOG_ENTRIES = "path string, scope_id bigint, ledger_id bigint, groups binary, entries bigint"
LACKING = [("/2.log", 0, 7, b"", 3)]


def holds_of(spark: SparkSession, space: list[Any], log_entries: list[Any]) -> dict[str, tuple[bool, str]]:
    """Return whether each hold is certain, and its message, by key."""
    frames: dict[str, Any] = {
        "space": spark.createDataFrame(space, SPACE),
        "log_entries": spark.createDataFrame(log_entries, LOG_ENTRIES),
    }
    tables: Any = SimpleNamespace(frames=frames, empty_table_names=frozenset(), **frames)
    logs = unindexed_bytes(tables)
    assert logs is not None
    rows = unindexed_byte_rows([row.asDict() for row in logs.collect()])
    return {row["key"]: (row["certain"], row["message"]) for row in rows}


def in_log(kind: str, current: bool = False) -> tuple[Any, ...]:
    return ("a:1", "/2.log", 2, 0, 7, kind, 100, current)


@pytest.mark.parametrize(
    ("kind", "current", "lacking", "certain"),
    [
        ("not-indexed", False, LACKING, True),
        ("not-yet-mapped", False, LACKING, False),
        ("not-yet-mapped", False, [("/2.log", 0, 7, None, None)], False),  # nobody read the log for it
        ("not-yet-mapped", False, [], None),  # the index lacks none of it
        ("not-yet-mapped", True, LACKING, None),  # collection leaves it alone
        ("superseded", False, [], None),
    ],
)
def test_unindexed_bytes_give_a_certain_an_uncertain_or_no_hold(
    spark: SparkSession, kind: str, current: bool, lacking: list[Any], certain: bool | None
) -> None:
    """The next flush may list the bytes, or the index lost them: no alarm, and no deletion."""
    holds = holds_of(spark, [in_log(kind, current)], lacking)
    assert {key: is_certain for key, (is_certain, _) in holds.items()} == (
        {} if certain is None else {"a:1 2": certain, "a:1": certain}
    )
    if certain is False:
        assert (
            holds["a:1"][1]
            == "a:1 may have needed bytes in 1 entry log that the bookie's index does not list yet"
        )


def test_uncertain_unindexed_bytes_forbid_collection_and_erasing_actions() -> None:
    log = {"bookie_id": "a:1", "log_id": 2, "ledgers": 1, "bytes": 1, "certain": False}
    [of_log, of_bookie] = unindexed_byte_rows([log])
    assert of_log["forbids"] == ["collect", "compact"]
    assert of_bookie["forbids"] == [str(kind) for kind in ERASING_ACTIONS]
