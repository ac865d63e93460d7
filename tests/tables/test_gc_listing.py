"""Trees whose listing by the server differs from their content, and the collector's loop over the listing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.ledger_tree import classify, to_path
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID, LayoutKind
from auditor.tables.gc_listing import (
    END_BEFORE_ALL_IDS,
    find_listed_ids,
    find_listing_positions,
    find_misplaced_ledgers,
    find_ranges,
    find_reached_ranges,
    summarize_walk,
)
from tests.checks.tables_builder import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLAT, LEGACY, HIERARCHICAL, LONG, ETCD = LayoutKind


def row(layout: LayoutKind, path: str) -> dict[str, object]:
    """Return the row that a scan writes for a path below the root."""
    place = classify(layout, path)
    assert place.kind in ("ledger", "malformed"), path
    status = "ok" if place.kind == "ledger" else "misplaced"
    return {"scope_id": place.scope_id, "ledger_id": place.ledger_id, "path": f"/l/{path}", "status": status}


@pytest.mark.parametrize(
    ("layout", "ledgers", "other_paths", "listed_ids", "reach", "overflows"),
    [
        (FLAT, [3, 7], [], [3, 7], None, False),
        (FLAT, [3, 7], ["L12"], [3, 7, 12], None, False),
        (FLAT, [], ["L-5"], [], -1, False),
        (FLAT, [3, MAX_LEDGER_ID], [], [3, MAX_LEDGER_ID], None, True),
        (HIERARCHICAL, [1, 70_000, 2**40], ["00/0000/X12"], [1, 12, 70_000, 2**40], None, False),
        # In the long tree, and below the last of the short one: judged by then, and not there.
        (HIERARCHICAL, [1, 70_000], ["000/0000/0000/0000/L0005"], [1, 70_000], 70_000, False),
        # The directory ends above the short tree, so the pass goes on; what of it lies below is too late.
        (
            HIERARCHICAL,
            [1, 15_000],
            ["000/0000/0000/0001/L2000", "000/0000/0000/0001/L9000"],
            [1, 15_000, 19_000],
            None,
            False,
        ),
        # A directory that is no number ends the listing of the short tree.
        (HIERARCHICAL, [1, 20_000, 2**40], ["00/0001x/L0001"], [1], 1, False),
        (LONG, [2**40], ["999/9999/9999/9999/L9999"], [2**40], 2**40, False),
        (LONG, [5, 2**62, MAX_LEDGER_ID], [], [5, 2**62, MAX_LEDGER_ID], None, True),
        (ETCD, [5, 2**62, MAX_LEDGER_ID], [], [5, 2**62], None, False),
        (ETCD, [*range(150)], ["ledgers/00000000-0000-0000-0000-00000000007x"], [*range(100)], 99, False),
        (ETCD, [1, 2], ["ledgers/zzz"], [1, 2], None, False),
    ],
)
def test_garbage_collection_pass_lists_expected_ids_by_layout(
    spark: SparkSession,
    layout: LayoutKind,
    ledgers: list[int],
    other_paths: list[str],
    listed_ids: list[int],
    reach: int | None,
    overflows: bool,
) -> None:
    rows = [row(layout, path) for path in [*(to_path(layout, ledger) for ledger in ledgers), *other_paths]]
    scan = frame(spark, "ledgers", rows)
    assert find_misplaced_ledgers(scan).isEmpty() == (not other_paths and MAX_LEDGER_ID not in ledgers)
    places = find_listing_positions(scan, layout, "/l")
    id_ranges = find_ranges(places)
    assert (
        sorted(ledger["ledger_id"] for ledger in find_listed_ids(places, id_ranges).collect()) == listed_ids
    )
    [end] = summarize_walk(id_ranges).collect()
    assert (end["reach"], end["overflows"]) == (reach, overflows)


MOVED = [3, 4, 10_007, 20_000, 123_456_789]
STAYED = [5, 15_000]


@pytest.mark.parametrize(
    ("layout", "tree", "stayed", "deleted"),
    [
        # Of seven ledgers these lay in the tree of another layout when bookies 4.17.2 collected, with
        # verifyMetadataOnGC and without, on SortedLedgerStorage and (the last) on DbLedgerStorage.
        *((layout, tree, stayed, MOVED) for layout, tree in (
            (FLAT, HIERARCHICAL), (FLAT, LONG), (LEGACY, FLAT), (LEGACY, LONG), (HIERARCHICAL, FLAT),
            (LONG, FLAT), (LONG, HIERARCHICAL),
        ) for stayed in ([], STAYED)),
        # It lists the long tree behind the short one, and breaks off at a range that ends too low.
        (HIERARCHICAL, LONG, [], []),
        (HIERARCHICAL, LONG, STAYED, [3, 4, 10_007]),
    ],
)  # fmt: skip
def test_foresight_equals_deletions_of_real_bookies_in_wrong_layout_tree(
    spark: SparkSession, layout: LayoutKind, tree: LayoutKind, stayed: list[int], deleted: list[int]
) -> None:
    moved = sorted({*MOVED, *STAYED} - set(stayed))
    paths = [*(to_path(layout, ledger) for ledger in stayed), *(to_path(tree, ledger) for ledger in moved)]
    places = find_listing_positions(
        frame(spark, "ledgers", [row(layout, path) for path in paths]), layout, "/l"
    )
    id_ranges = find_ranges(places)
    listed_ids = {ledger["ledger_id"] for ledger in find_listed_ids(places, id_ranges).collect()}
    [end] = summarize_walk(id_ranges).collect()
    reach = MAX_LEDGER_ID if end["reach"] is None else end["reach"]
    deleted_ids = [ledger for ledger in (*MOVED, *STAYED) if ledger not in listed_ids and ledger <= reach]
    assert deleted_ids == ([*deleted, *STAYED] if deleted and not stayed else deleted)


Range = frozenset[int] | None
"""The ids of one range; None: it cannot be listed."""

ids = st.one_of(st.integers(-3, 12), st.sampled_from([MIN_LEDGER_ID, MAX_LEDGER_ID - 1, MAX_LEDGER_ID]))
listings = st.lists(st.one_of(st.none(), st.frozensets(ids, min_size=1, max_size=4)), max_size=6)


def java_long(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def deleted_by_the_server(local: frozenset[int], ranges: list[Range]) -> set[int]:
    """Run the loop of ScanAndCompareGarbageCollector.gc step by step, and return the deleted ledgers."""
    deleted: set[int] = set()
    end = -1
    for id_range in [*ranges, frozenset()]:
        start = java_long(end + 1)
        if id_range is None:
            return deleted  # the iterator throws
        end = max(id_range) if id_range else MAX_LEDGER_ID
        if start > end:
            return deleted  # TreeSet.subSet throws
        deleted |= {
            ledger_id for ledger_id in local if start <= ledger_id <= end and ledger_id not in id_range
        }
    return deleted


def deleted_by_the_model(local: frozenset[int], ranges: list[Range]) -> set[int]:
    ends = np.array([END_BEFORE_ALL_IDS if span is None else max(span) for span in ranges], np.int64)
    walk = find_reached_ranges(ends, np.array([span is None for span in ranges], bool))
    reached = walk.is_reached.tolist()
    over = any(
        span == MAX_LEDGER_ID and is_reached for span, is_reached in zip(ends.tolist(), reached, strict=True)
    )
    if over:
        return set(local)
    reach = MAX_LEDGER_ID if all(reached) else int(walk.max_end_before[reached.index(False)])
    listed_ids = {
        ledger_id
        for number, span in enumerate(ranges)
        if span is not None and reached[number]
        for ledger_id in span
        if ledger_id > walk.max_end_before[number]
    }
    return {ledger_id for ledger_id in local if 0 <= ledger_id <= reach and ledger_id not in listed_ids}


@given(st.frozensets(st.one_of(st.integers(0, 14), st.just(MAX_LEDGER_ID))), listings)
def test_model_deletes_the_ledgers_that_server_deletes(local: frozenset[int], ranges: list[Range]) -> None:
    highest = [
        number
        for number, id_range in enumerate(ranges)
        if id_range is not None and max(id_range) == MAX_LEDGER_ID
    ]
    ranges = ranges[: highest[0] + 1] if highest else ranges  # what is listed twice behind it is spared
    assert deleted_by_the_model(local, ranges) == deleted_by_the_server(local, ranges)


def test_ascending_ranges_are_all_reached() -> None:
    walk = find_reached_ranges(np.array([5, 9, 30]), np.zeros(3, bool))
    assert walk.max_end_before.tolist() == [-1, 5, 9]
    assert walk.is_reached.all()


def test_empty_store_gives_empty_walk() -> None:
    walk = find_reached_ranges(np.empty(0, np.int64), np.empty(0, bool))
    assert (walk.max_end_before.tolist(), walk.is_reached.tolist()) == ([], [])
