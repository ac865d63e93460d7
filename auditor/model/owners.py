"""What the ledgers of a tenant, a namespace or a topic add up to, and those that belong to nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Level = Literal["tenant", "namespace", "topic"]
LEVELS: tuple[str, ...] = get_args(Level)
NOBODY = ""
"""The name of what belongs to nobody that is known."""
NO_OWNER = "(no known owner)"
"""How it is shown: no name has brackets."""


@dataclass(slots=True)
class OwnerTotal:
    """One tenant, namespace or topic: ``bytes`` and ``entries`` are of closed ledgers, one copy of each.

    ``dangling`` counts references to ledgers that are gone, ``unowned`` ledgers that are leaked, by the last
    owner that their custom metadata name, with their ``leaked_bytes`` and ``leaked_entries``. ``findings``
    counts by severity those about its ledgers.
    """

    name: str
    ledgers: int = 0
    bytes: int = 0
    dangling: int = 0
    unowned: int = 0
    leaked_bytes: int = 0
    entries: int = 0
    leaked_entries: int = 0
    findings: dict[str, int] = field(default_factory=dict)

    def add(self, other: OwnerTotal) -> None:
        """Take what another adds up to into this.

        >>> total = OwnerTotal("shop", 2, 700, findings={"error": 1})
        >>> total.add(OwnerTotal("", 1, 50, unowned=3, findings={"error": 2, "note": 1}))
        >>> total.ledgers, total.bytes, total.unowned, total.findings
        (3, 750, 3, {'error': 3, 'note': 1})
        """
        self.ledgers += other.ledgers
        self.bytes += other.bytes
        self.dangling += other.dangling
        self.unowned += other.unowned
        self.leaked_bytes += other.leaked_bytes
        self.entries += other.entries
        self.leaked_entries += other.leaked_entries
        for severity, count in other.findings.items():
            self.findings[severity] = self.findings.get(severity, 0) + count


@dataclass(frozen=True, slots=True)
class Leak:
    """One finding `ledger-unowned`: ``owner`` is the last known one, in words, and ``claim`` its path.

    ``made`` is in ms, None where nothing says it; ``bytes`` and ``entries`` are those of a closed ledger, one
    copy of it. ``why`` is what makes it a leak, ``doubt`` what speaks against it.
    """

    ledger_id: int
    confidence: str
    owner: str
    claim: str
    made: int | None
    bytes: int | None
    entries: int | None
    state: str | None
    why: str
    doubt: str | None


@dataclass(frozen=True, slots=True)
class LeakTotals:
    """What all leaks of a run add up to; ``confirmed`` are those that two runs agree on."""

    ledgers: int = 0
    confirmed: int = 0
    bytes: int = 0
    confirmed_bytes: int = 0
    entries: int = 0
