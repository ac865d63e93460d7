"""Bookies that one list of instructions stops, judged together; a hold only considers one bookie.

Each of two bookies may stop while the other one serves the same entries, but not both at once. The run's
ledgers show which bookies alone serve an entry together (`auditor.simulate.exposure.find_joint_holders`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from auditor.model.amounts import first_names

DANGEROUS_CHECKS = ("metadata-suspect", "gc-would-delete-live", "alias-gc-danger")
"""Checks on bookies whose next collection deletes needed data: stop them, or make them collect nothing."""
NO_COLLECTION = "gcWaitTime=31536000000 and gcInitialWaitTime=31536000000"
"""Settings with which a bookie collects garbage a year (in ms) after its start, and then once a year."""

_MAX_NAMES = 5
"""Largest number of bookies that a sentence names."""


def why_last_of_set(holders: Sequence[str]) -> str:
    """Return why one of these bookies must not stop: the plan already stops the others.

    >>> why_last_of_set(["a:1", "b:1"])
    'a:1, b:1 are the only bookies that serve some entries, and this plan stops the other bookies'
    """
    names = first_names(holders, _MAX_NAMES)
    return f"{names} are the only bookies that serve some entries, and this plan stops the other bookies"


class StopSet:
    """The bookies that stop so far. The set tells whether a further stop leaves an entry without a server.

    Args:
        joint_holders: sets of two or more bookies that are the only servers of an entry. None if there are
            too many sets; then any two bookies count as such a set.
    """

    def __init__(self, joint_holders: Iterable[Collection[str]] | None = ()) -> None:
        self._joint_holders = (
            None if joint_holders is None else [frozenset(holders) for holders in joint_holders]
        )
        self.stopping: set[str] = set()

    def last_holders(self, *bookies: str) -> tuple[str, ...]:
        """Return the only servers of an entry, if all of them stop once ``bookies`` stop too.

        Returns an empty tuple if there are none.

        >>> stops = StopSet([("a:1", "b:1")])
        >>> stops.last_holders("a:1")
        ()
        >>> stops.add("a:1")
        >>> stops.last_holders("b:1"), stops.last_holders("c:1")
        (('a:1', 'b:1'), ())
        """
        stopping_bookies = self.stopping | {*bookies}
        if self._joint_holders is None:
            return tuple(sorted(stopping_bookies)) if len(stopping_bookies) > 1 else ()
        last_holder_sets = (
            holders
            for holders in self._joint_holders
            if holders <= stopping_bookies and not holders.isdisjoint(bookies)
        )
        return tuple(sorted({name for holders in last_holder_sets for name in holders}))

    def add(self, *bookies: str) -> None:
        """Add bookies to those that stop."""
        self.stopping.update(bookies)
