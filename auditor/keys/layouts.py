"""Ledger id ⇄ path below the root, in the layouts that keep ledgers in ZooKeeper's tree.

FLAT                  L0000000001                       every ledger a child of the root
LEGACY_HIERARCHICAL   00/0000/L0001                     ids of up to ten digits
LONG_HIERARCHICAL     000/0000/0000/0000/L0001
HIERARCHICAL          legacy below 2^31 - 1, long from that id on (the server compares with Integer.MAX_VALUE)
"""

from __future__ import annotations

import re
from typing import Protocol

from auditor.errors import UsageError
from auditor.model.layout import LayoutKind

MAX_LEDGER_ID = 2**63 - 1
FIRST_LONG_ID = 2**31 - 1


class KeyLayout(Protocol):
    """Where ledgers of scope 0 are kept, and which ledger is kept somewhere."""

    def to_path(self, ledger_id: int) -> str:
        """Where the layout keeps a ledger, relative to the root."""

    def from_path(self, rel: str) -> int | None:
        """The ledger kept at ``rel``, or None where `to_path` would never have put one."""


class _Digits:
    """The decimal digits of an id in groups of these widths; the last group is as long as it must be."""

    def __init__(self, *widths: int, most: int = MAX_LEDGER_ID) -> None:
        self._ends = [sum(widths[: number + 1]) for number in range(len(widths) - 1)]
        self._width = sum(widths)
        *above, last = widths
        groups = [*(f"([0-9]{{{width}}})" for width in above), f"L([0-9]{{{last},19}})"]
        self._path = re.compile("/".join(groups))
        self._most = most

    def to_path(self, ledger_id: int) -> str:
        if ledger_id > self._most:  # of a longer id the server silently drops the tail
            raise UsageError(
                f"ledger id {ledger_id} is beyond the legacy hierarchical layout, which ends at {self._most}"
            )
        digits = f"{ledger_id:0{self._width}d}"
        starts = [0, *self._ends]
        groups = [digits[start:end] for start, end in zip(starts, [*self._ends, None], strict=True)]
        return "/".join([*groups[:-1], f"L{groups[-1]}"])

    def from_path(self, rel: str) -> int | None:
        match = self._path.fullmatch(rel)
        ledger_id = int("".join(match.groups())) if match else MAX_LEDGER_ID + 1
        return ledger_id if ledger_id <= self._most and self.to_path(ledger_id) == rel else None


class _Hierarchical:
    """Two trees of digits, each for ids of its own."""

    def to_path(self, ledger_id: int) -> str:
        return (LEGACY_HIERARCHICAL if ledger_id < FIRST_LONG_ID else LONG_HIERARCHICAL).to_path(ledger_id)

    def from_path(self, rel: str) -> int | None:
        for layout in (LEGACY_HIERARCHICAL, LONG_HIERARCHICAL):
            ledger_id = layout.from_path(rel)
            if ledger_id is not None:
                return ledger_id if self.to_path(ledger_id) == rel else None
        return None


FLAT: KeyLayout = _Digits(10)
LEGACY_HIERARCHICAL: KeyLayout = _Digits(2, 4, 4, most=9_999_999_999)
LONG_HIERARCHICAL: KeyLayout = _Digits(3, 4, 4, 4, 4)
HIERARCHICAL: KeyLayout = _Hierarchical()

LAYOUTS = {
    LayoutKind.FLAT: FLAT,
    LayoutKind.LEGACY_HIERARCHICAL: LEGACY_HIERARCHICAL,
    LayoutKind.HIERARCHICAL: HIERARCHICAL,
    LayoutKind.LONG_HIERARCHICAL: LONG_HIERARCHICAL,
}
