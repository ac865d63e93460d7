"""Ledgers at ZooKeeper's paths in etcd: spans cover every key once, whatever the ids are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.ledger_tree import LayoutKind, to_path
from auditor.sources.metadata.etcd import key_ranges
from auditor.sources.metadata.etcd.key_ranges import path_ledger_spans

START, END = b"/ledgers/", b"/ledgers0"
ids = st.one_of(st.integers(0, 50_000), st.integers(0, 2**31 - 1), st.integers(2**31, 2**63 - 1))


class Keys:
    """Sorted keys, and the number of ranges that were counted."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = sorted(keys)
        self.questions = 0

    def counts(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[int]:
        self.questions += len(ranges)
        return [sum(start <= key < end for key in self.keys) for start, end in ranges]

    def first(self, start: bytes, end: bytes) -> bytes | None:
        return next((key for key in self.keys if start <= key < end), None)


def keys_of(numbers: Sequence[int]) -> list[bytes]:
    return [f"/ledgers/{to_path(LayoutKind.HIERARCHICAL, number)}".encode() for number in numbers]


@given(st.sets(ids, max_size=60), st.integers(1, 6))
def test_spans_cover_all_keys_without_gaps(numbers: set[int], grain: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_ranges, "MIN_KEYS_PER_SPAN", grain)
        keys = Keys([*keys_of(sorted(numbers)), b"/ledgers/LAYOUT", b"/ledgers/cookies/b:3181"])
        spans = path_ledger_spans(START, END, keys.counts, keys.first, 8)
    assert (spans[0].start, spans[-1].end) == (START, END)
    assert all(span_before.end == span_after.start for span_before, span_after in pairwise(spans))
    assert [span.keys for span in spans] == keys.counts([(span.start, span.end) for span in spans])
    # Only what no digit tells apart stays together.
    assert max(span.keys for span in spans) <= max(grain, 2)


def test_small_cluster_is_one_span() -> None:
    keys = Keys(keys_of(range(100)))
    assert len(path_ledger_spans(START, END, keys.counts, keys.first, 8)) == 1
    assert keys.questions == 1


def test_number_of_span_cuts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "MIN_KEYS_PER_SPAN", 1)
    monkeypatch.setattr(key_ranges, "MAX_SPAN_CUTS", 3)
    keys = Keys(keys_of(range(0, 9_000_000, 100_003)))
    spans = path_ledger_spans(START, END, keys.counts, keys.first, 1000)
    assert sum(span.keys for span in spans) == len(keys.keys)
    assert keys.questions <= 1 + 3 * 13
