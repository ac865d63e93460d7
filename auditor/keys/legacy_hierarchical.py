"""Ledger id ⇄ znode path of the legacy layout: 2, 4 and 4 digits (LegacyHierarchicalLedgerManager)."""

from __future__ import annotations

import re

from auditor.errors import UsageError

MAX_LEDGER_ID = 9_999_999_999  # ten digits; of a longer id the server silently drops the tail

_PATH = re.compile(r"([0-9]{2})/([0-9]{4})/L([0-9]{4})")


def to_path(ledger_id: int) -> str:
    """Where the legacy hierarchical layout keeps a ledger, relative to the root.

    Raises `UsageError` for an id above ten digits, whose path in Java is another ledger's.

    >>> to_path(1), to_path(12345)
    ('00/0000/L0001', '00/0001/L2345')
    """
    if ledger_id > MAX_LEDGER_ID:
        raise UsageError(
            f"ledger id {ledger_id} is beyond the legacy hierarchical layout, which ends at {MAX_LEDGER_ID}"
        )
    digits = f"{ledger_id:010d}"
    return f"{digits[:2]}/{digits[2:6]}/L{digits[6:]}"


def from_path(rel: str) -> int | None:
    """The ledger kept at ``rel``, or None where `to_path` would never have put one.

    >>> from_path("00/0001/L2345"), from_path("00/0000/X12")
    (12345, None)
    """
    match = _PATH.fullmatch(rel)
    return int(match[1] + match[2] + match[3]) if match else None
