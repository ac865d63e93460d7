"""Ledger id ⇄ znode path of the flat layout: every ledger a child of the root (FlatLedgerManager)."""

from __future__ import annotations

import re

MAX_LEDGER_ID = 2**63 - 1

_PATH = re.compile(r"L([0-9]{10,19})")


def to_path(ledger_id: int) -> str:
    """Where the flat layout keeps a ledger, relative to the root.

    >>> to_path(1), to_path(9999999999999)
    ('L0000000001', 'L9999999999999')
    """
    return f"L{ledger_id:010d}"


def from_path(rel: str) -> int | None:
    """The ledger kept at ``rel``, or None where `to_path` would never have put one.

    >>> from_path("L0000000001"), from_path("L1"), from_path("LAYOUT")
    (1, None, None)
    """
    match = _PATH.fullmatch(rel)
    if match is None:
        return None
    ledger_id = int(match[1])
    return ledger_id if ledger_id <= MAX_LEDGER_ID and to_path(ledger_id) == rel else None
