"""What a bookie says when it is asked for one entry by a plain read: see `auditor.audit.witness`."""

from __future__ import annotations

from enum import StrEnum


class WitnessAnswer(StrEnum):
    """One bookie's answer for one entry; unknown where there is none, or one that says nothing."""

    SERVED = "served"
    NO_SUCH_ENTRY = "no-such-entry"
    NO_SUCH_LEDGER = "no-such-ledger"
    UNKNOWN = "unknown"
