"""A finding's fingerprint, which identifies it in the next run, computed without Spark."""

from __future__ import annotations

import hashlib


def fingerprint(
    id: str, instance_id: str | None, scope_id: int | None, ledger_id: int | None, bookie_id: str | None
) -> str:
    """Return 16 hex digits of SHA-256 over all values, joined by NUL. None counts as the empty string.

    >>> fingerprint("orphan-ledger", "a77a8e0d", 0, 36, "bk1:3181")
    'a2b8aa759ab37bdf'
    """
    parts = (id, instance_id, scope_id, ledger_id, bookie_id)
    text = "\0".join("" if part is None else str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
