"""Ranges of etcd keys cut into spans, on ids as clusters have them and on any."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.keys import etcd
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.etcd import key_ranges
from auditor.sources.metadata.etcd.key_ranges import MIN_KEYS_PER_SPAN, KeySpan, group_spans, ledger_spans

SCOPE = "/bk"
START, END = etcd.children(SCOPE, "ledgers")
longs = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))


class Server:
    """Sorted keys; counts what it is asked."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = sorted(keys)
        self.asked = 0

    def counts(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[int]:
        self.asked += len(ranges)
        return [bisect_left(self.keys, end) - bisect_left(self.keys, start) for start, end in ranges]

    def first(self, start: bytes, end: bytes) -> bytes | None:
        self.asked += 1
        at = bisect_left(self.keys, start)
        return self.keys[at] if at < len(self.keys) and self.keys[at] < end else None

    def cut(self, wanted: int = 1) -> list[KeySpan]:
        found = ledger_spans(SCOPE, self.counts, self.first, wanted)
        assert (found[0].start, found[-1].end) == (START, END)
        for before, after in pairwise(found):
            assert before.start < before.end == after.start
        assert self.counts([(span.start, span.end) for span in found]) == [span.keys for span in found]
        assert sum(span.keys for span in found) == len(self.keys)
        lots = group_spans(found, wanted)
        edges = [edge for lot in lots for span in lot for edge in (span.start, span.end)]
        assert (edges[0], edges[-1], edges[1:-1:2]) == (START, END, edges[2:-1:2])
        return found


def key(ledger_id: int, scope_id: int = 0) -> bytes:
    return etcd.key_bytes(f"{SCOPE}/{etcd.to_path(LedgerId(ledger_id, scope_id))}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "MAX_KEYS_PER_SPAN", 50)
    monkeypatch.setattr(key_ranges, "MIN_KEYS_PER_SPAN", 10)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "ids",
    [
        [(bucket << 56) + n for bucket in range(128) for n in range(1, 30)],  # as the driver makes them
        range(3000),
        range(10**6, 10**9, 10**6),
        [2**n for n in range(63)],
        [*range(2000), *range(2**55, 2**55 + 2000)],
        [(5 << 56) + n for n in range(1000)],
    ],
    ids=["buckets", "small", "sparse", "powers", "two heaps", "one bucket"],
)
def test_spans_cover_all_keys_and_are_small(ids: Sequence[int]) -> None:
    server = Server([key(id_) for id_ in ids])
    found = server.cut()
    assert max(span.keys for span in found) <= 50
    assert server.asked < 400 + len(ids)


@pytest.mark.parametrize(("each", "asked"), [(1, 18), (1_000, 18 + 128), (120_000, 18 + 128)])
def test_ids_of_the_driver_need_at_most_two_counts_a_bucket(
    monkeypatch: pytest.MonkeyPatch, each: int, asked: int
) -> None:
    monkeypatch.setattr(key_ranges, "MAX_KEYS_PER_SPAN", 150_000)
    server = Server([])

    def counts(ranges: Sequence[tuple[bytes, bytes]]) -> list[int]:
        server.asked += len(ranges)
        buckets = [key(bucket << 56) for bucket in range(128)]
        return [each * (bisect_left(buckets, end) - bisect_left(buckets, start)) for start, end in ranges]

    found = ledger_spans(SCOPE, counts, server.first, 16)
    assert sum(span.keys for span in found) == 128 * each
    assert server.asked == asked
    assert max(len(lot) for lot in group_spans(found, 16)) <= 10


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("wanted", [1, 4, 30])
def test_few_tasks_or_many_get_their_share(wanted: int) -> None:
    server = Server([key(id_) for id_ in range(2000)])
    lots = group_spans(server.cut(wanted), wanted)
    assert wanted <= len(lots) <= 2 * wanted
    assert max(sum(span.keys for span in lot) for lot in lots) <= 2 * 2000 // wanted


def test_keys_of_another_making_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "MAX_KEYS_PER_SPAN", 5)
    server = Server([f"{SCOPE}/ledgers/!{number}".encode() for number in range(30)] + [key(7), key(8, -3)])
    assert max(span.keys for span in server.cut()) == 31


@settings(deadline=None)
@given(st.sets(st.tuples(longs, longs), max_size=200))
def test_spans_of_any_ids_cover_all_keys(ledgers: set[tuple[int, int]]) -> None:
    Server([key(*ledger) for ledger in ledgers]).cut()


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60), st.integers(1, 12))
def test_spans_are_dealt_out_in_order_and_evenly(sizes: list[int], wanted: int) -> None:
    edges = [b"%04d" % number for number in range(len(sizes) + 1)]
    all_spans = [KeySpan(edges[at], edges[at + 1], size) for at, size in enumerate(sizes)]
    lots = group_spans(all_spans, wanted)
    ends = [edge for lot in lots for span in lot for edge in (span.start, span.end)]
    assert (ends[0], ends[-1], ends[1:-1:2]) == (edges[0], edges[-1], ends[2:-1:2])
    assert sum(span.keys for lot in lots for span in lot) == sum(sizes)
    assert all(lots)
    assert len(lots) <= max(1, 2 * wanted)
    share = max(MIN_KEYS_PER_SPAN, -(-sum(sizes) // wanted))
    assert all(sum(span.keys for span in lot) <= share + max(sizes) for lot in lots)


def test_the_end_of_the_largest_scope_is_the_end_of_the_range() -> None:
    server = Server([key(-1, -1), key(2**63 - 1), key(-1), key(0)])
    assert [span.keys for span in server.cut() if span.keys] == [1, 1, 1, 1]
