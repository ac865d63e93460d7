"""What the ledgers say of two ids: whether the disks of one hold what the other should hold.

This is the strongest evidence there is, and it speaks for and against. A bookie that got a new id kept its
disks: they hold, entry for entry, the ledgers that still name the old one. A machine that was set up anew at
an old address holds none of them, and to write its id into those ledgers would make them name a bookie that
never had them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from auditor.model.alias_facts import Found, Rule

LEAST_LEDGERS = 5
"""Fewer ledgers than this may be copies that someone is just making."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The judged ledgers of an id that is neither registered nor found on any disk, against a live bookie.

    ``due``: ledgers of which the id should hold entries. Of these ``shared`` name the live bookie as well,
    ``together`` of them in one ensemble; of the others its disks hold something of ``held``, and of ``exact``
    just what the id should hold. ``whole``: the live bookie's index was read whole.
    """

    due: int
    shared: int = 0
    together: int = 0
    held: int = 0
    exact: int = 0
    whole: bool = False

    @property
    def agree(self) -> bool:
        """Whether the live bookie has the id's ledgers: most of all that it should hold.

        The successor of a dead bookie, itself gone now, should hold more than the bookie that came back has.

        >>> Contents(due=40, held=39, exact=38).agree, Contents(due=40, held=12, exact=12).agree
        (True, False)
        """
        return self.exact >= LEAST_LEDGERS and 2 * self.exact > self.due

    @property
    def objection(self) -> str | None:
        """Why the two are rather two bookies; None where nothing says so.

        >>> Contents(due=40, whole=True).objection
        'none of the 40 ledgers that are not of both is on its disks'
        >>> Contents(due=40, shared=30, together=30).objection
        '30 of 40 ledgers name both in one ensemble'
        """
        alone = self.due - self.shared
        if self.whole and alone and not self.held:
            return f"none of the {alone} ledgers that are not of both is on its disks"
        # A client writes to bookies that are there: both were, at one time.
        if 2 * self.together > self.due:
            return f"{self.together} of {self.due} ledgers name both in one ensemble"
        return None


@dataclass(frozen=True, slots=True)
class ContentComparison:
    """All that ledgers say of ids that are gone and bookies that are live.

    ``due``: how many judged ledgers name each id that is gone. ``pairs``: what a live bookie has of them, by
    (id that is gone, live bookie); where there is none, nothing. ``whole``: live bookies whose index was read
    whole.
    """

    due: Mapping[str, int] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], Contents] = field(default_factory=dict)
    whole: Set[str] = frozenset()

    def agreeing(self) -> Found:
        """Every pair that its ledgers hold for one bookie."""
        for (gone, live), said in self.pairs.items():
            if said.agree:
                ledgers = f"{said.exact} of the {said.due} ledgers that {gone} should hold, entry for entry"
                yield gone, live, Rule.SAME_LEDGERS, f"the disks of {live} hold {ledgers}"

    def objection(self, one: str, other: str) -> str | None:
        """Why two ids, in any order, are rather two bookies; None where nothing says so.

        >>> ContentComparison({"old": 40}, whole={"new"}).objection("new", "old")
        'none of the 40 ledgers that are not of both is on its disks'
        """
        for gone, live in ((one, other), (other, one)):
            if gone in self.due:
                nothing = Contents(self.due[gone], whole=live in self.whole)
                return self.pairs.get((gone, live), nothing).objection
        return None
