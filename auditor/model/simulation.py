"""What a failure would cost, as values: what ``bkaudit simulate`` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from auditor.model.json_shape import about
from auditor.model.run_facts import InDoubt

YES, NO, UNSURE = "yes", "no", "unknown"
"""Answers to whether something goes on."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Ledgers, and those of their entries that are meant, with their bytes: of one copy.

    Bytes are the length that metadata gives a closed ledger, shared out by entries; of others they are
    not known, and count 0.
    """

    ledgers: int = 0
    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a failure does: each entry counts at the worst that it comes to, a ledger at its worst entry's.

    ``lost``: no copy is left; ``below_ack``: fewer than ack quorum, ``below_write``: fewer than write quorum.
    ``unrecoverable`` are ledgers that are not closed and that recovery could not close: a window of the last
    ensemble has ack quorum bookies that do not answer, so that neither it nor earlier segments can be opened.
    """

    lost: Amount = Amount()
    below_ack: Amount = Amount()
    below_write: Amount = Amount()
    unrecoverable: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Each amount of an outcome from below and from above: what is true lies between, whatever is unknown.

    ``sure`` counts what comes to that in any case. ``possible`` counts what may come to that: an entry that
    is either lost or below its ack quorum counts in both.
    """

    sure: Outcome
    possible: Outcome

    @property
    def known(self) -> bool:
        """Whether both are the same, so that nothing of it is unknown."""
        return self.sure == self.possible


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: what fails, and what that costs by the metadata's promise and by what indexes hold."""

    level: str
    names: tuple[str, ...]
    bookies: int
    promise: Bounds
    today: Bounds


@dataclass(frozen=True, slots=True)
class DomainSet:
    """Domains that fail together, and what is lost then: entries and bytes, by promise and today."""

    names: tuple[str, ...]
    promise_entries: int
    promise_bytes: int
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FailureMatrix:
    """Bytes lost today if two domains of a level go at once, by row and column; where both are one, if it
    goes alone. ``names`` are those that lose most, ``others`` how many more there are."""

    level: str
    names: tuple[str, ...]
    bytes: tuple[tuple[int, ...], ...]
    others: int


@dataclass(frozen=True, slots=True)
class NearLoss:
    """Ledgers with an entry that the loss of one domain would lose, and these entries; ``domains`` is which
    domains those are in number, ``names`` the first of them, the most bytes first.

    ``perhaps``: ledgers that there would be besides, if all that is unknown were as bad as it can be.
    """

    level: str
    found: Amount
    domains: int
    names: tuple[str, ...]
    perhaps: int


@dataclass(frozen=True, slots=True)
class LevelLoss:
    """All failures of one level. ``singles`` are those of single domains, the worst first.

    ``distance`` counts ledgers by the smallest number of domains whose loss loses an entry, today: at 0 are
    those that have lost one. ``unplaced`` are bookies whose domain is unknown.
    ``sets`` are the worst sets of ``together`` domains, the worst that were found where it is not ``proved``
    that there is no worse one; ``losing`` how many of all ``of`` sets lose an entry, None: not counted.
    """

    level: str
    domains: int
    unplaced: tuple[str, ...]
    singles: tuple[Failure, ...]
    distance: dict[int, int]
    near: NearLoss
    together: int
    sets: tuple[DomainSet, ...]
    proved: bool
    losing: int | None
    of: int


@dataclass(frozen=True, slots=True)
class Copysets:
    """Sets of bookies that hold all copies of an entry, by their size, as the metadata promises them.

    The scatter width is how many partners a bookie has. ``chance`` is the probability that so many
    bookies, taken at random, lose an entry. The mean time to data loss is for ranking clusters only.
    """

    sizes: dict[int, int]
    bookies: int
    scatter_least: int
    scatter_mean: float
    scatter_most: int
    chance: dict[int, float]
    mttdl_years: float | None
    mttf_days: float
    mttr_hours: float


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """Whether ledgers of one shape can still be written, `YES`, `NO` or `UNSURE`, and why.

    ``groups`` are isolation groups that they have of their own, in words; None: they have none.
    """

    ensemble: int
    write_quorum: int
    ack_quorum: int
    groups: str | None
    open_ledgers: int
    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class BookieLoad:
    """What lies on a bookie, or a domain, as the metadata promises it: an entry counts on each bookie.

    ``open_ensembles`` are ledgers that are not closed and whose last ensemble has it: its load of writes.
    ``disk`` are bytes of its entry logs, None where they were not read; ``idle`` is why it gets nothing new.
    """

    name: str
    ledgers: int
    entries: int
    bytes: int
    open_ensembles: int
    disk: int | None = None
    idle: str | None = None


@dataclass(frozen=True, slots=True)
class DiskLoad:
    """What lies in a ledger directory of a bookie, by its entry logs: all that is in them, live or not.

    ``entries`` is None where a ledgers map says bytes alone; ``used`` is the share of its file system that
    is in use, None where that was not seen.
    """

    bookie: str
    directory: str
    ledgers: int
    entries: int | None
    bytes: int
    used: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """Loads of all bookies, the largest first, and of all domains of each level that is known.

    ``disks`` are None where entry logs were not read.
    """

    bookies: tuple[BookieLoad, ...]
    domains: dict[str, tuple[BookieLoad, ...]]
    disks: tuple[DiskLoad, ...] | None


@dataclass(frozen=True, slots=True)
class Concerned:
    """A ledger that a failure loses an entry of, or leaves unrecoverable."""

    scope_id: Annotated[str, about("decimal")]
    ledger_id: Annotated[str, about("decimal")]
    fate: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OwnerLoss:
    """What a namespace or a topic loses: ledgers with lost entries, their bytes, ledgers that recovery
    could not close; ``offloaded`` of them have a whole copy in an object store."""

    name: str
    ledgers: int
    entries: int
    bytes: int
    unrecoverable: int
    offloaded: int


@dataclass(frozen=True, slots=True)
class Doubts:
    """What was not known: ledgers whose metadata cannot be judged, places of the metadata that were not
    read, ids of ledgers that may be there unseen, bookies of which nothing was read, and bookies without a
    location."""

    ledgers: int
    undecided: int
    gaps: int
    in_doubt: InDoubt | None
    unread: tuple[str, ...]
    unplaced: tuple[str, ...]
    not_closed: int
    registered: bool


@dataclass(frozen=True)
class Simulation:
    """The answer. Without a failure asked for, ``failure`` is None and ``levels`` are all of them.

    ``ledgers``, ``namespaces`` and ``topics`` are the first that a failure concerns; tables have all of them.

    ``policy`` and ``mapping`` are by which the answer was found, with what said so; ``mapping`` is None where
    no location is known.
    """

    run: str
    policy: str
    policy_origin: str
    mapping: str | None
    doubts: Doubts
    failure: Failure | None = None
    levels: tuple[LevelLoss, ...] = ()
    copysets: Copysets | None = None
    balance: Balance | None = None
    writes: tuple[WriteAnswer, ...] = ()
    ledgers: tuple[Concerned, ...] = ()
    ledgers_concerned: int = 0
    namespaces: tuple[OwnerLoss, ...] | None = None
    topics: tuple[OwnerLoss, ...] | None = None
    topics_concerned: int = 0
    namespaces_concerned: int = 0
