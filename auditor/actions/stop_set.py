"""Joint check of all bookie stops in a list. A single hold (a rule against actions) considers one bookie.

If two bookies are the only servers of an entry, one of them may stop while the other one runs. They may not
both stop. The run's ledgers show such sets of bookies (`auditor.simulate.exposure.find_joint_holders`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from auditor.model.amounts import first_names

DANGEROUS_CHECKS = ("metadata-suspect", "gc-would-delete-live", "alias-gc-danger")
"""Checks that find bookies whose next garbage collection deletes needed data."""
NO_GC_SETTINGS = "gcWaitTime=31536000000 and gcInitialWaitTime=31536000000"
"""Settings that delay a bookie's garbage collection to one year (in ms) after its start."""

_MAX_NAMES_SHOWN = 5
"""Largest number of bookies that a sentence names."""


def last_holders_text(holders: Sequence[str]) -> str:
    """Return why one of ``holders`` must not stop: the plan stops all other holders of some entries.

    >>> last_holders_text(["a:1", "b:1"])
    'only a:1, b:1 serve some entries, and this plan already stops the others of these bookies'
    """
    holder_names = first_names(holders, _MAX_NAMES_SHOWN)
    return f"only {holder_names} serve some entries, and this plan already stops the others of these bookies"


class StopSet:
    """Bookies that were already chosen to stop.

    The set shows whether a further stop makes entries unreadable.

    Args:
        joint_holders: sets of two or more bookies that are the only servers of an entry. None if there are
            too many such sets to list. Any two bookies then count as such a set.
    """

    def __init__(self, joint_holders: Iterable[Collection[str]] | None = ()) -> None:
        self._joint_holders = (
            None if joint_holders is None else [frozenset(holders) for holders in joint_holders]
        )
        self.chosen_bookies: set[str] = set()

    def last_holders(self, *bookies: str) -> tuple[str, ...]:
        """Return the only servers of an entry, if stopping ``bookies`` too would stop all of these servers.

        Returns an empty tuple if each entry would still have a running server.

        >>> stops = StopSet([("a:1", "b:1")])
        >>> stops.last_holders("a:1")
        ()
        >>> stops.add("a:1")
        >>> stops.last_holders("b:1"), stops.last_holders("c:1")
        (('a:1', 'b:1'), ())
        """
        stopping_bookies = self.chosen_bookies | {*bookies}
        if self._joint_holders is None:
            return tuple(sorted(stopping_bookies)) if len(stopping_bookies) > 1 else ()
        last_holder_sets = (
            holders
            for holders in self._joint_holders
            if holders <= stopping_bookies and not holders.isdisjoint(bookies)
        )
        return tuple(sorted({bookie_id for holders in last_holder_sets for bookie_id in holders}))

    def add(self, *bookies: str) -> None:
        """Add bookies to the bookies that stop."""
        self.chosen_bookies.update(bookies)
