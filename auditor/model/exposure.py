"""What depends on one bookie alone: last copies of entries, and ledgers that are still written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BookieExposure:
    """Ledgers that depend on one bookie alone; the possible ones include the certain ones.

    ``last_known`` counts ledgers with an entry of which every other copy is missing, ``last_served`` those
    with an entry that no other registered bookie has. ``degraded`` of the possible ones were written to more
    than one bookie: the copies of the others are gone or out of reach. ``open_ledgers`` name it in their last
    segment.
    """

    bookie_id: str
    last_known: int
    last_known_possible: int
    last_known_degraded: int
    last_served: int
    last_served_possible: int
    last_served_degraded: int
    open_ledgers: int

    @property
    def is_exposed(self) -> bool:
        """Whether anything depends on it alone."""
        return any((self.last_known_possible, self.last_served_possible, self.open_ledgers))
