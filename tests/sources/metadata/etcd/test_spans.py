"""Ranges of etcd keys cut into spans, for the ids of real clusters and for arbitrary ids."""

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
    """A server with sorted keys that counts its requests."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = sorted(keys)
        self.question_count = 0

    def counts(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[int]:
        self.question_count += len(ranges)
        return [bisect_left(self.keys, end) - bisect_left(self.keys, start) for start, end in ranges]

    def first(self, start: bytes, end: bytes) -> bytes | None:
        self.question_count += 1
        index = bisect_left(self.keys, start)
        return self.keys[index] if index < len(self.keys) and self.keys[index] < end else None

    def cut_spans(self, part_count: int = 1) -> list[KeySpan]:
        spans = ledger_spans(SCOPE, self.counts, self.first, part_count)
        assert (spans[0].start, spans[-1].end) == (START, END)
        for before, after in pairwise(spans):
            assert before.start < before.end == after.start
        assert self.counts([(span.start, span.end) for span in spans]) == [span.keys for span in spans]
        assert sum(span.keys for span in spans) == len(self.keys)
        groups = group_spans(spans, part_count)
        edges = [edge for group in groups for span in group for edge in (span.start, span.end)]
        assert (edges[0], edges[-1], edges[1:-1:2]) == (START, END, edges[2:-1:2])
        return spans


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
def test_spans_cover_all_keys_within_the_size_limit(ids: Sequence[int]) -> None:
    server = Server([key(id_) for id_ in ids])
    spans = server.cut_spans()
    assert max(span.keys for span in spans) <= 50
    assert server.question_count < 400 + len(ids)


@pytest.mark.parametrize(("per_bucket", "expected_count"), [(1, 18), (1_000, 18 + 128), (120_000, 18 + 128)])
def test_driver_ids_need_at_most_two_counts_per_bucket(
    monkeypatch: pytest.MonkeyPatch, per_bucket: int, expected_count: int
) -> None:
    monkeypatch.setattr(key_ranges, "MAX_KEYS_PER_SPAN", 150_000)
    server = Server([])

    def counts(ranges: Sequence[tuple[bytes, bytes]]) -> list[int]:
        server.question_count += len(ranges)
        buckets = [key(bucket << 56) for bucket in range(128)]
        return [
            per_bucket * (bisect_left(buckets, end) - bisect_left(buckets, start)) for start, end in ranges
        ]

    spans = ledger_spans(SCOPE, counts, server.first, 16)
    assert sum(span.keys for span in spans) == 128 * per_bucket
    assert server.question_count == expected_count
    assert max(len(group) for group in group_spans(spans, 16)) <= 10


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("part_count", [1, 4, 30])
def test_spans_are_grouped_into_balanced_parts(part_count: int) -> None:
    server = Server([key(id_) for id_ in range(2000)])
    groups = group_spans(server.cut_spans(part_count), part_count)
    assert part_count <= len(groups) <= 2 * part_count
    assert max(sum(span.keys for span in group) for group in groups) <= 2 * 2000 // part_count


def test_keys_of_unknown_form_stay_in_one_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "MAX_KEYS_PER_SPAN", 5)
    server = Server([f"{SCOPE}/ledgers/!{number}".encode() for number in range(30)] + [key(7), key(8, -3)])
    assert max(span.keys for span in server.cut_spans()) == 31


@settings(deadline=None)
@given(st.sets(st.tuples(longs, longs), max_size=200))
def test_spans_of_any_ids_cover_all_keys(ledgers: set[tuple[int, int]]) -> None:
    Server([key(*ledger) for ledger in ledgers]).cut_spans()


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60), st.integers(1, 12))
def test_spans_are_grouped_in_order_and_evenly(sizes: list[int], part_count: int) -> None:
    edges = [b"%04d" % number for number in range(len(sizes) + 1)]
    all_spans = [KeySpan(edges[index], edges[index + 1], size) for index, size in enumerate(sizes)]
    groups = group_spans(all_spans, part_count)
    ends = [edge for group in groups for span in group for edge in (span.start, span.end)]
    assert (ends[0], ends[-1], ends[1:-1:2]) == (edges[0], edges[-1], ends[2:-1:2])
    assert sum(span.keys for group in groups for span in group) == sum(sizes)
    assert all(groups)
    assert len(groups) <= max(1, 2 * part_count)
    share = max(MIN_KEYS_PER_SPAN, -(-sum(sizes) // part_count))
    assert all(sum(span.keys for span in group) <= share + max(sizes) for group in groups)


def test_keys_of_extreme_ids_are_in_the_range() -> None:
    server = Server([key(-1, -1), key(2**63 - 1), key(-1), key(0)])
    assert [span.keys for span in server.cut_spans() if span.keys] == [1, 1, 1, 1]
