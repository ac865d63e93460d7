"""Bookies that one list of instructions stops: asked together, because holds know each bookie alone.

Each of two bookies may stop while the other one serves the same entries. Both may not. Which bookies alone
serve an entry together, the run's ledgers show (`auditor.simulate.exposure.find_joint_holders`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from auditor.model.amounts import first_names

DANGERS = ("metadata-suspect", "gc-would-delete-live", "alias-gc-danger")
"""Findings of bookies whose next collection deletes what is needed: they stop, or collect nothing."""
NO_COLLECTION = "gcWaitTime=31536000000 and gcInitialWaitTime=31536000000"
"""A year, ms, before the first collection after a start, and before each one after that."""

_NAMED = 5
"""Bookies that a sentence names."""


def why_last_of_set(holders: Sequence[str]) -> str:
    """Return why one of these bookies must not stop: other steps of the plan stop the rest.

    >>> why_last_of_set(["a:1", "b:1"])
    'a:1, b:1 alone serve entries together, and this plan stops the others'
    """
    return f"{first_names(holders, _NAMED)} alone serve entries together, and this plan stops the others"


class StopSet:
    """The bookies that stop so far, and with whom one more of them would be the last.

    Args:
        joint_holders: Sets of two or more bookies that alone serve an entry together; None if there are too
            many to list: then any two may be such a set.
    """

    def __init__(self, joint_holders: Iterable[Collection[str]] | None = ()) -> None:
        self._joint_holders = (
            None if joint_holders is None else [frozenset(holders) for holders in joint_holders]
        )
        self.stopping: set[str] = set()

    def last_holders(self, *bookies: str) -> tuple[str, ...]:
        """Return the bookies that alone serve an entry together, if these stop too; empty if none do.

        >>> stops = StopSet([("a:1", "b:1")])
        >>> stops.last_holders("a:1")
        ()
        >>> stops.add("a:1")
        >>> stops.last_holders("b:1"), stops.last_holders("c:1")
        (('a:1', 'b:1'), ())
        """
        together = self.stopping | {*bookies}
        if self._joint_holders is None:
            return tuple(sorted(together)) if len(together) > 1 else ()
        last = (
            holders
            for holders in self._joint_holders
            if holders <= together and not holders.isdisjoint(bookies)
        )
        return tuple(sorted({name for holders in last for name in holders}))

    def add(self, *bookies: str) -> None:
        """Count these among those that stop."""
        self.stopping.update(bookies)
