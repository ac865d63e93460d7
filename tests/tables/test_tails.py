"""Index and journal together, pair by pair: what counts as held, and what never comes of a journal alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from auditor.codecs.availability.groups import GroupBatch
from auditor.tables.unequal import expected_groups, unequal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGERS = """
    scope_id long, ledger_id long, undecidable boolean,
    replicas array<struct<bookie_id string, groups binary>>
"""
TAILS = "scope_id long, ledger_id long, bookie_id string, groups binary"
HELD = f"{TAILS}, state string, answered long"


def groups(first: int, count: int) -> bytes:
    return GroupBatch.of([[(first, first, count, 0)]]).tobytes()


ALL, HEAD, REST = groups(0, 10), groups(0, 4), groups(4, 6)

# what the index has (state and groups; None: no index), what the journal has, what comes of it (None: no row)
PAIRS: dict[str, tuple[tuple[str, bytes] | None, bytes | None, tuple[str, bytes | None] | None]] = {
    "all in the journal, no index yet": (None, ALL, None),
    "each has a part": (("ok", HEAD), REST, None),
    "both have some of it": (("ok", ALL), HEAD, None),
    "the index alone": (("ok", ALL), None, None),
    "neither has the rest": (("ok", HEAD), groups(4, 2), ("ok", groups(0, 6))),
    "a part in the journal, no index yet": (None, HEAD, ("ok", HEAD)),
    "neither has anything": (None, None, ("absent", None)),
    "not in the index of ledgers yet": (("not-indexed", HEAD), REST, None),
    "not in the index of ledgers at all": (("not-indexed", ALL), None, ("not-indexed", ALL)),
    "a damaged index": (("unreadable", b""), HEAD, ("unreadable", HEAD)),
    "a damaged index, all in the journal": (("unreadable", b""), ALL, ("unreadable", ALL)),
    "an index that is cut": (("cut", HEAD), groups(4, 1), ("cut", groups(0, 5))),
    "limbo": (("limbo", HEAD), REST, ("limbo", ALL)),
    "more than there should be": (("ok", HEAD), groups(4, 9), ("ok", groups(0, 13))),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[int, dict[str, Any]]:
    """Ledger n is the nth of PAIRS, on bk1; what comes of all of them at once."""
    ledgers = [(0, number, False, [("bk1", ALL)]) for number in range(len(PAIRS))]
    held = [
        (0, number, "bk1", index[1], index[0], None)
        for number, (index, _, _) in enumerate(PAIRS.values())
        if index
    ]
    tails = [(0, number, "bk1", tail) for number, (_, tail, _) in enumerate(PAIRS.values()) if tail]
    left = expected_groups(spark.createDataFrame(ledgers, LEDGERS), spark.createDataFrame(tails, TAILS))
    rows = unequal(left, spark.createDataFrame(held, HELD), []).collect()
    assert len({row["ledger_id"] for row in rows}) == len(rows)
    return {row["ledger_id"]: row.asDict() for row in rows}


@pytest.mark.parametrize("name", PAIRS)
def test_what_either_shows_is_held(found: dict[int, dict[str, Any]], name: str) -> None:
    row = found.get(list(PAIRS).index(name))
    comes = PAIRS[name][2]
    if comes is None:
        assert row is None
        return
    assert row is not None
    held = None if row["held"] is None else bytes(row["held"])
    assert (row["index_state"], held, bytes(row["expected"])) == (*comes, ALL)


def test_nothing_comes_of_a_journal_alone(spark: SparkSession) -> None:
    """Ledgers that are gone, that cannot be read, that have left the bookie; an orphan stays as it is."""
    ledgers = spark.createDataFrame(
        [(0, 1, False, [("bk1", ALL)]), (0, 2, True, [("bk1", ALL)]), (0, 3, False, [("bk2", ALL)])], LEDGERS
    )
    held = [
        (0, 1, "bk1", ALL, "ok", None),
        (0, 3, "bk2", ALL, "ok", None),
        (0, 9, "bk1", HEAD, "not-indexed", None),
    ]
    tails = [(0, 2, "bk1", ALL), (0, 3, "bk1", ALL), (0, 8, "bk1", ALL), (0, 9, "bk1", ALL)]
    left = expected_groups(ledgers, spark.createDataFrame(tails, TAILS))
    [row] = unequal(left, spark.createDataFrame(held, HELD), []).collect()
    assert (row["ledger_id"], row["index_state"], bytes(row["held"])) == (9, "not-indexed", HEAD)


def test_the_open_end_of_a_ledger_is_held_by_the_journal(spark: SparkSession) -> None:
    """Nothing is expected of it yet, and what members have of it is compared."""
    ledgers = spark.createDataFrame([(0, 1, False, [("bk1", b""), ("bk2", b"")])], LEDGERS)
    tails = spark.createDataFrame([(0, 1, "bk1", HEAD)], TAILS)
    held = spark.createDataFrame([], HELD)
    [row] = unequal(expected_groups(ledgers, tails), held, []).collect()
    assert (row["bookie_id"], row["expected"], bytes(row["held"]), row["index_state"]) == (
        "bk1",
        None,
        HEAD,
        "ok",
    )


def test_what_a_foreign_bookie_holds_equals_nothing(spark: SparkSession) -> None:
    ledgers = spark.createDataFrame([(0, 1, False, [("bk1", ALL)])], LEDGERS)
    tails = spark.createDataFrame([(0, 1, "bk1", ALL)], TAILS)
    assert unequal(expected_groups(ledgers, tails), spark.createDataFrame([], HELD), ["bk1"]).count() == 1
