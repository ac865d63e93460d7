"""Result of ``bkaudit simulate``: which data would be lost in which failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from auditor.model.json_shape import about
from auditor.model.run_facts import InDoubt

YES, NO, UNKNOWN_ANSWER = "yes", "no", "unknown"
"""Answers to the question whether clients can still write."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Number of ledgers, number of their affected entries, and bytes of these entries (one copy each).

    For a closed ledger, the bytes are the entries' share of the length in its metadata. The bytes of other
    ledgers are not known and count as 0.
    """

    ledgers: int = 0
    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a failure.

    Each entry counts only in its worst state, and each ledger only in the state of its worst entry.
    ``lost`` entries have no copy left. ``below_ack`` entries have fewer copies than the ack quorum.
    ``below_write`` entries have fewer copies than the write quorum. ``unrecoverable`` counts ledgers that
    are not closed and that recovery could not close. The reason: in a write quorum of the last ensemble, at
    least an ack quorum of bookies does not answer. Such a ledger cannot be opened, not even to read its
    earlier segments.
    """

    lost: Amount = Amount()
    below_ack: Amount = Amount()
    below_write: Amount = Amount()
    unrecoverable: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower and upper bound of an outcome. The true outcome is between them.

    ``sure`` counts entries that certainly get into a state. ``possible`` counts entries that may get into
    it. If an entry may be either lost or only below its ack quorum, it counts as possible in both states.
    """

    sure: Outcome
    possible: Outcome

    @property
    def is_exact(self) -> bool:
        """Whether both bounds are equal. In that case nothing is unknown."""
        return self.sure == self.possible


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure: the domains (such as racks) that fail, and the outcome.

    ``promise`` is the outcome if all copies are where the metadata places them. ``today`` is the outcome
    with only the copies that the indexes of bookies show.
    """

    level: str
    names: tuple[str, ...]
    bookies: int
    promise: Bounds
    today: Bounds


@dataclass(frozen=True, slots=True)
class DomainSet:
    """Domains (such as racks) that fail together, and the entries and bytes that are lost.

    The ``promise_`` fields are the loss if all copies are where the metadata places them. ``entries`` and
    ``bytes`` are the loss with only the copies that the indexes of bookies show.
    """

    names: tuple[str, ...]
    promise_entries: int
    promise_bytes: int
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FailureMatrix:
    """Matrix of the bytes that are lost if two domains of a level (such as racks) fail together.

    Only known copies count. Each row and each column is a domain. The diagonal is the loss if one domain
    fails alone. ``names`` are the domains that lose most. ``others`` is the number of domains that are left
    out.
    """

    level: str
    names: tuple[str, ...]
    bytes: tuple[tuple[int, ...], ...]
    others: int


@dataclass(frozen=True, slots=True)
class NearLoss:
    """Ledgers and entries that would be lost if a single domain (such as a rack) of a level fails.

    ``domains`` is the number of domains whose failure would lose an entry. ``names`` are the first of them,
    ordered by lost bytes. ``perhaps`` counts further ledgers that could lose an entry, because some copies
    are unknown.
    """

    level: str
    found: Amount
    domains: int
    names: tuple[str, ...]
    perhaps: int


@dataclass(frozen=True, slots=True)
class LevelLoss:
    """All failures at one level, such as rack. A domain is one rack, for example.

    ``singles`` are the failures of a single domain, the worst first. ``distance`` counts ledgers by the
    smallest number of domains that must fail to lose an entry. Only copies that indexes show count. Ledgers
    with distance 0 have already lost an entry. ``unplaced`` are bookies whose domain is unknown. ``together``
    is the number of domains in a set, and ``sets`` are the worst known sets. If ``proved`` is True, no set is
    worse. ``of`` is the number of all sets of this size. ``losing`` is the number of sets that lose an entry,
    or None if they were not counted.
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
    """Copysets of a cluster, counted by their size.

    A copyset is a set of bookies that have all copies of an entry according to the metadata. The scatter
    width of a bookie is the number of other bookies that are in a copyset with it. ``chance`` maps a number
    of bookies to the probability that an entry is lost if so many random bookies fail. Use the mean time to
    data loss (``mttdl_years``) only to compare clusters.
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
    """Whether ledgers of one shape can still be written (`YES`, `NO` or `UNKNOWN_ANSWER`), and the reason.

    A shape consists of ensemble size, write quorum and ack quorum. ``groups`` has the isolation groups in
    the metadata of these ledgers, in words. It is None if their metadata names no groups.
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
    """Data on a bookie or in a domain according to the metadata. An entry counts on each of its bookies.

    ``open_ensembles`` is the write load: the number of ledgers that are not closed and have the bookie in
    their last ensemble. ``disk`` is the number of bytes of the bookie's entry logs, or None if they were
    not read. ``idle`` is the reason why the bookie gets no new data, or None if it does get new data.
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
    """Live and dead data in one ledger directory of a bookie, according to its entry logs.

    ``entries`` is the number of entries, or None if the ledgers map of an entry log only counts bytes.
    ``used`` is the used share of the file system, or None if it is not known.
    """

    bookie: str
    directory: str
    ledgers: int
    entries: int | None
    bytes: int
    used: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """Loads of all bookies, the largest first, and loads of the domains at each known level.

    ``disks`` has the loads of the ledger directories. It is None if entry logs were not read.
    """

    bookies: tuple[BookieLoad, ...]
    domains: dict[str, tuple[BookieLoad, ...]]
    disks: tuple[DiskLoad, ...] | None


@dataclass(frozen=True, slots=True)
class ConcernedLedger:
    """A ledger that loses an entry in a failure, or that recovery cannot close after the failure."""

    scope_id: Annotated[str, about("decimal")]
    ledger_id: Annotated[str, about("decimal")]
    fate: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OwnerLoss:
    """Ledgers of one namespace or topic that lose entries in a failure, or that recovery cannot close.

    ``bytes`` is the size of the lost entries. ``offloaded`` counts the ledgers that have a complete copy in
    an object store.
    """

    name: str
    ledgers: int
    entries: int
    bytes: int
    unrecoverable: int
    offloaded: int


@dataclass(frozen=True, slots=True)
class Doubts:
    """Facts that are unknown in a simulation.

    ``ledgers`` is the number of all ledgers. ``undecided`` is the number of ledgers whose metadata does not
    show which bookies should have each entry. ``gaps`` counts the parts of the metadata that were not read.
    ``in_doubt`` describes the ids of ledgers that may exist in these parts. ``unread`` are bookies of which
    nothing was read. ``unplaced`` are bookies without a location. ``not_closed`` counts ledgers that are not
    closed. ``registered`` is False if the registrations of bookies are not known.
    """

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
    """Result of a simulation.

    If no failure was requested, ``failure`` is None and ``levels`` has all levels. ``ledgers``,
    ``namespaces`` and ``topics`` have the first objects that a failure affects. The ``_concerned`` fields
    count all objects that it affects. ``policy`` is the placement policy, and ``policy_origin`` says where it
    was read. ``mapping`` says where the bookies' locations were read. It is None if no location is known.
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
    ledgers: tuple[ConcernedLedger, ...] = ()
    ledgers_concerned: int = 0
    namespaces: tuple[OwnerLoss, ...] | None = None
    topics: tuple[OwnerLoss, ...] | None = None
    topics_concerned: int = 0
    namespaces_concerned: int = 0
