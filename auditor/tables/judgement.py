"""The judgement of one ledger whose expected and held entries differ on some bookie; see `Judgement`.

`auditor.tables.ledger_class.judge` returns it.
"""

from dataclasses import dataclass, field

import numpy as np

from auditor.codecs.availability.groups import GROUP, Groups
from auditor.tables.doubts import Doubt


@dataclass(frozen=True, slots=True)
class ForeignCopy:
    """The entries that a bookie holds of a ledger whose ensembles do not name the bookie.

    ``behind_end`` is the number of these entries that are after the ledger's end and that no takeover
    explains. In a takeover, another client recovers a ledger that is still being written
    (`auditor.tables.past_end`).
    """

    bookie_id: str
    held_groups: Groups
    behind_end: int = 0


@dataclass(slots=True)
class Judgement:
    """The judgement of one ledger. Its entry sets are canonical BP-34 groups, in ascending order of bookies.

    ``m`` is the largest number of missing copies of any entry. ``mu`` is the largest number of missing or
    unknown copies of any entry.
    """

    m: int = 0
    mu: int = 0
    class_entries: Groups | None = field(default_factory=lambda: np.empty(0, GROUP))  # see `entries_of_class`
    missing: list[tuple[str, Groups]] = field(default_factory=list)
    unknown: list[tuple[str, Groups, str]] = field(default_factory=list)  # why: see `why_unknown`
    lagging: list[tuple[str, Groups]] = field(default_factory=list)
    stale: list[tuple[str, Groups]] = field(default_factory=list)
    surplus: list[tuple[str, Groups]] = field(default_factory=list)
    past_end: list[tuple[str, Groups]] = field(default_factory=list)  # see `auditor.tables.past_end`
    past_end_last: int | None = None
    past_end_by_takeover: bool | None = None
    foreign_copies: list[ForeignCopy] = field(default_factory=list)
    unindexed: list[tuple[str, Groups]] = field(default_factory=list)  # served, but not in a complete index
    listed: list[tuple[str, Groups]] = field(default_factory=list)  # only listed, and not in that index
    doubts: set[Doubt] = field(default_factory=set)
