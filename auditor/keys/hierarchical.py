"""Ledger id ⇄ znode path of the hierarchical layout: short paths, then long (HierarchicalLedgerManager).

Ids below 2147483647 lie where the legacy layout keeps them, all others where the long layout does. The first
long id is 2^31 - 1 itself, not 2^31: the server compares with ``Integer.MAX_VALUE``.
"""

from __future__ import annotations

from auditor.keys import legacy_hierarchical, long_hierarchical

FIRST_LONG_ID = 2**31 - 1
MAX_LEDGER_ID = long_hierarchical.MAX_LEDGER_ID


def to_path(ledger_id: int) -> str:
    """Where the hierarchical layout keeps a ledger, relative to the root.

    >>> to_path(2147483646), to_path(2147483647)
    ('21/4748/L3646', '000/0000/0021/4748/L3647')
    """
    if ledger_id < FIRST_LONG_ID:
        return legacy_hierarchical.to_path(ledger_id)
    return long_hierarchical.to_path(ledger_id)


def from_path(rel: str) -> int | None:
    """The ledger kept at ``rel``, or None where `to_path` would never have put one.

    >>> from_path("21/4748/L3646"), from_path("21/4748/L3647"), from_path("000/0000/0000/0000/L0001")
    (2147483646, None, None)
    """
    ledger_id = legacy_hierarchical.from_path(rel)
    if ledger_id is not None:
        return ledger_id if ledger_id < FIRST_LONG_ID else None
    ledger_id = long_hierarchical.from_path(rel)
    return ledger_id if ledger_id is not None and ledger_id >= FIRST_LONG_ID else None
