"""Ledger id ⇄ znode path of the long layout: 3, 4, 4, 4 and 4 digits (LongHierarchicalLedgerManager)."""

from __future__ import annotations

import re

MAX_LEDGER_ID = 2**63 - 1

_PATH = re.compile(r"([0-9]{3})/([0-9]{4})/([0-9]{4})/([0-9]{4})/L([0-9]{4})")


def to_path(ledger_id: int) -> str:
    """Where the long hierarchical layout keeps a ledger, relative to the root.

    >>> to_path(2147483647)
    '000/0000/0021/4748/L3647'
    """
    digits = f"{ledger_id:019d}"
    return f"{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def from_path(rel: str) -> int | None:
    """The ledger kept at ``rel``, or None where `to_path` would never have put one.

    >>> from_path("000/0000/0021/4748/L3647"), from_path("999/9999/9999/9999/L9999")
    (2147483647, None)
    """
    match = _PATH.fullmatch(rel)
    if match is None:
        return None
    ledger_id = int("".join(match.groups()))
    return ledger_id if ledger_id <= MAX_LEDGER_ID else None
