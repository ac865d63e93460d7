"""The ledgers of an etcd whose keys are ZooKeeper's paths, cut into spans that are worth reading each.

    /ledgers/00/0000/L0018               ids below 2^31
    /ledgers/000/0000/0000/0000/L0018    beyond

Ids are digits, so a span with too many keys is cut where the next digit differs. Why spans at all:
`auditor.sources.metadata.etcd.spans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from auditor.sources.metadata.etcd.spans import PART_KEYS, SPAN_KEYS, Counter, First, KeySpan

CUTS_LIMIT = 500
"""Spans are cut no more often than this, in ten each, whatever the ids look like."""

_DIGITS = [bytes([byte]) for byte in range(ord("0"), ord("9") + 2)]
"""The digits, and the byte behind them."""


def digit_spans(start: bytes, end: bytes, counts: Counter, first: First, wanted: int) -> list[KeySpan]:
    """Spans in the order of keys, end to end, that cover everything from ``start`` and before ``end``.

    They are small enough to be dealt out to ``wanted`` tasks. What was counted empty is read as well.
    """
    (total,) = counts([(start, end)])
    grain = max(PART_KEYS, min(SPAN_KEYS, total // (2 * max(1, wanted))))
    waiting, done, cuts = [KeySpan(start, end, total)], [], 0
    while waiting:
        span = waiting.pop()
        edges = _edges(span, first) if span.keys > grain and cuts < CUTS_LIMIT else []
        if not edges:
            done.append(span)
            continue
        cuts += 1
        ranges = list(pairwise([span.start, *edges, span.end]))
        found = [KeySpan(*ends, keys) for ends, keys in zip(ranges, counts(ranges), strict=True)]
        waiting += found[::-1]
    return done


def _edges(span: KeySpan, first: First) -> Sequence[bytes]:
    """Where a span can be cut: at the digit in which its first key and its end begin to differ, or later."""
    key = first(span.start, span.end)
    if key is None:
        return []
    for at in range(_alike(key, span.end), len(key)):
        if key[at : at + 1].isdigit():
            edges = [key[:at] + digit for digit in _DIGITS]
            inside = [edge for edge in edges if span.start < edge < span.end]
            if inside:
                return inside
    return []


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes two keys have in common at their beginning."""
    for at, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine != its:
            return at
    return min(len(one), len(other))
