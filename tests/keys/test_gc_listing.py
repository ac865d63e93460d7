"""What a collector makes of a listing, held to its loop as the server has it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.gc_listing import ALL_BEFORE, follow_ranges
from auditor.keys.ledger_tree import MAX_LEDGER_ID, MIN_LEDGER_ID

Range = frozenset[int] | None
"""The ids of one range; None: it cannot be listed."""

ids = st.one_of(st.integers(-3, 12), st.sampled_from([MIN_LEDGER_ID, MAX_LEDGER_ID - 1, MAX_LEDGER_ID]))
listings = st.lists(st.one_of(st.none(), st.frozensets(ids, min_size=1, max_size=4)), max_size=6)


def java_long(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def deleted_by_the_server(local: frozenset[int], ranges: list[Range]) -> set[int]:
    """The loop of ScanAndCompareGarbageCollector.gc, step by step."""
    deleted: set[int] = set()
    end = -1
    for each in [*ranges, frozenset()]:
        start = java_long(end + 1)
        if each is None:
            return deleted  # the iterator throws
        end = max(each) if each else MAX_LEDGER_ID
        if start > end:
            return deleted  # TreeSet.subSet throws
        deleted |= {one for one in local if start <= one <= end and one not in each}
    return deleted


def deleted_by_the_model(local: frozenset[int], ranges: list[Range]) -> set[int]:
    ends = np.array([ALL_BEFORE if each is None else max(each) for each in ranges], np.int64)
    found = follow_ranges(ends, np.array([each is None for each in ranges], bool))
    reached = found.reached.tolist()
    over = any(each == MAX_LEDGER_ID and here for each, here in zip(ends.tolist(), reached, strict=True))
    if over:
        return set(local)
    reach = MAX_LEDGER_ID if all(reached) else int(found.previous[reached.index(False)])
    seen = {
        one
        for number, each in enumerate(ranges)
        if each is not None and reached[number]
        for one in each
        if one > found.previous[number]
    }
    return {one for one in local if 0 <= one <= reach and one not in seen}


@given(st.frozensets(st.one_of(st.integers(0, 14), st.just(MAX_LEDGER_ID))), listings)
def test_the_model_deletes_what_the_server_does(local: frozenset[int], ranges: list[Range]) -> None:
    highest = [at for at, each in enumerate(ranges) if each is not None and max(each) == MAX_LEDGER_ID]
    ranges = ranges[: highest[0] + 1] if highest else ranges  # what is listed twice behind it is spared
    assert deleted_by_the_model(local, ranges) == deleted_by_the_server(local, ranges)


def test_a_sane_listing_is_seen_whole() -> None:
    found = follow_ranges(np.array([5, 9, 30]), np.zeros(3, bool))
    assert found.previous.tolist() == [-1, 5, 9]
    assert found.reached.all()


def test_an_empty_store_lists_nothing() -> None:
    found = follow_ranges(np.empty(0, np.int64), np.empty(0, bool))
    assert (found.previous.tolist(), found.reached.tolist()) == ([], [])
