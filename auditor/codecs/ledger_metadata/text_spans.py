"""Pieces of the texts of many rows: where each lies, and the numbers that they spell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs

_MINUS, _ZERO = b"-0"


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Piece i is of row ``rows[i]`` and lies from ``starts[i]`` to ``ends[i]`` of some buffer."""

    rows: Longs
    starts: Longs
    ends: Longs

    def taken(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> TextSpans:
        """Some of them."""
        return TextSpans(self.rows[which], self.starts[which], self.ends[which])

    def behind(self, begin: bytes) -> TextSpans:
        """What follows ``begin``, with which all of them begin."""
        return TextSpans(self.rows, self.starts + len(begin), self.ends)


def integers(octets: NDArray[np.uint8], spans: TextSpans, most: int, odd: NDArray[np.bool_]) -> Longs:
    """Decimal numbers of up to ``most`` digits, 18 or fewer, without zeros in front.

    Where a piece is none, its row is marked in ``odd`` and the answer is 0.

    >>> spans = TextSpans(np.array([0, 1]), np.array([0, 4]), np.array([3, 6]))
    >>> odd = np.zeros(2, np.bool_)
    >>> integers(np.frombuffer(b"-42\\n07", np.uint8), spans, 18, odd).tolist(), odd.tolist()
    ([-42, 0], [False, True])
    """
    negative = octets.take(spans.starts, mode="clip") == _MINUS
    starts = spans.starts + negative
    digits = spans.ends - starts
    fine = (digits >= 1) & (digits <= most)
    fine &= (octets.take(starts, mode="clip") != _ZERO) | ((digits == 1) & ~negative)
    value = np.zeros(len(starts), np.int64)
    for place in range(int(digits[fine].max(initial=0))):
        inside = place < digits
        digit = octets.take(starts + place, mode="clip") - np.uint8(_ZERO)
        fine &= ~inside | (digit <= 9)
        value = np.where(inside, value * 10 + digit, value)
    odd[spans.rows[~fine]] = True
    return np.where(fine, np.where(negative, -value, value), 0)
