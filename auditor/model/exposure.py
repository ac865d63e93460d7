"""Dependence of ledgers on single bookies: last copies of entries, and ledgers that clients still write."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BookieExposure:
    """Numbers of ledgers that depend on one bookie alone.

    ``last_known_ledgers`` counts ledgers with an entry whose copies on all other bookies are missing.
    ``last_served_ledgers`` counts ledgers with an entry that no other registered bookie has. The ``possible``
    fields also count ledgers whose dependence on the bookie is uncertain. The ``degraded`` fields count the
    same ledgers as the ``possible`` fields, except ledgers that were written to one bookie only. Degraded
    ledgers once had other copies, which must be gone or out of reach. ``open_ledgers`` counts open ledgers
    that have this bookie in their last segment.
    """

    bookie_id: str
    last_known_ledgers: int
    last_known_possible: int
    last_known_degraded: int
    last_served_ledgers: int
    last_served_possible: int
    last_served_degraded: int
    open_ledgers: int

    @property
    def is_exposed(self) -> bool:
        """Whether any ledger depends on the bookie alone."""
        return any((self.last_known_possible, self.last_served_possible, self.open_ledgers))
