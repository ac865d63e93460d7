"""What a rehearsal of a decommissioning says: whether bookies may go, what keeps them, what it would take."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.holds import ActionKind, HoldNotice
from auditor.model.json_shape import Facet, about
from auditor.model.permission import Allowed, Permission
from auditor.model.report import CLEAN, FOUND, NOT_COVERED


class Answer(StrEnum):
    """May these bookies go?"""

    NOW = "now"
    AFTER = "after"
    """Once what the causes name was done; no data must be copied or given up for it."""
    NEVER = "never"
    """Not as things are: the command would wait for ever, or data would be lost."""
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why a bookie may not go; stable words."""

    HELD = "held"  # a hold that the run proved
    LAST_SERVED = "last-served-copy"  # only it serves entries that bookies which are down have too
    OPEN_LEDGERS = "open-ledgers"
    DOUBT = "held-by-doubt"  # every hold rests on doubt alone
    NO_HOLDS = "no-holds"
    DATA_TOO_OLD = "data-too-old"
    DATA_OF_FUTURE = "data-of-future"
    NO_EARLIER_RUN = "no-earlier-run"
    CHECKS_NOT_RUN = "checks-not-run"
    ONLY_COPY = "only-copy"
    UNREADABLE = "unreadable-entry"
    NO_SPARE = "no-spare"
    NO_ADMISSIBLE = "no-admissible-spare"
    NO_COVERAGE = "no-coverage"
    ABSENT = "absent-bookies"
    REPLICATION_OFF = "replication-off"
    NO_AUDITOR = "no-auditor"
    IDLE_WORKERS = "idle-workers"
    NO_MARKS = "no-marks"


OF_LEDGERS = (Cause.ONLY_COPY, Cause.UNREADABLE, Cause.NO_SPARE, Cause.NO_ADMISSIBLE, Cause.NO_COVERAGE)
"""Causes that ledgers have; a ledger counts under the first of them that it has."""

OF_THE_GATE = (
    Cause.HELD, Cause.LAST_SERVED, Cause.OPEN_LEDGERS, Cause.DOUBT, Cause.NO_HOLDS, Cause.DATA_TOO_OLD,
    Cause.DATA_OF_FUTURE, Cause.NO_EARLIER_RUN, Cause.CHECKS_NOT_RUN,
)  # fmt: skip
"""Causes that the gate names (`auditor.actions.gate`): while there is one, no command is shown."""

UNSURE = (
    Cause.DOUBT,
    Cause.NO_HOLDS,
    Cause.DATA_TOO_OLD,
    Cause.DATA_OF_FUTURE,
    Cause.NO_EARLIER_RUN,
    Cause.CHECKS_NOT_RUN,
)
"""Causes that say what is not known: with no others the answer is unknown."""

LASTING = (Cause.HELD, Cause.ONLY_COPY, Cause.UNREADABLE, Cause.NO_SPARE, Cause.NO_ADMISSIBLE, Cause.NO_MARKS)
"""Causes that nothing ends but another copy, another bookie, or to give data up."""


Id = Annotated[str, Facet("pattern", "^-?[0-9]+$"), about("decimal")]


@dataclass(frozen=True, slots=True)
class LedgerName:
    """A ledger, by its ids in decimal digits, and whose it is; None where that is not known."""

    scope_id: Id
    ledger_id: Id
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class TopicCount:
    """So many ledgers of a topic."""

    topic: str
    ledgers: int


@dataclass(frozen=True, slots=True)
class DoubtCount:
    """What is not known, in words, and of how much; 0: that is not known either."""

    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A bookie, and how it was registered: writable, readonly or both; None: it was not."""

    bookie_id: str
    mode: str | None


@dataclass(frozen=True, slots=True)
class Blocker:
    """A cause with the ledgers that have it: how many, of which topics, the first of them.

    ``detail`` says more of a cause that no ledger has.
    """

    cause: Cause
    ledgers: int = 0
    topics: tuple[TopicCount, ...] = ()
    samples: tuple[LedgerName, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a decommissioning would take, of ledgers that would move.

    ``needed`` copies are what striping needs, ``copied`` what the server writes; ``read`` entries are read
    for that. Bytes are payload, of the entries whose ledger says its length; ``unsized`` copies are others.
    ``open_ends`` are ledgers that the worker fences and closes: their last entries come besides.
    ``renamed`` ledgers have no entry on these bookies: the command does not wait for them.
    """

    ledgers: int = 0
    fragments: int = 0
    batches: int = 0
    needed: int = 0
    needed_bytes: int = 0
    read: int = 0
    copied: int = 0
    copied_bytes: int = 0
    unsized: int = 0
    open_ends: int = 0
    renamed: int = 0
    renamed_stuck: int = 0


@dataclass(frozen=True, slots=True)
class CopyLoad:
    """What one bookie would serve and take in; of targets that are chosen at random the expected share."""

    bookie_id: str
    entries_read: int
    bytes_read: int
    entries_written: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many bookies could replace those that go, over the ledgers that move; ``least`` is None of none.

    ``ledgers_with_least`` have no more than that.
    """

    least: int | None
    most: int
    ledgers_with_least: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to take bookies out: all at once, or one alone.

    ``along`` are ledgers that only bookies that are absent already name: they move too. ``doubts`` say what
    is not known, of how many ledgers. ``holds`` forbid it, the most important first, and ``commands`` are
    those that take the bookies out, empty while the gate refuses. ``permission`` is the gate's answer.

    Raises:
        ValueError: the answer is now or there are commands, and the gate did not permit that.
    """

    bookies: tuple[str, ...]
    answer: Answer
    blockers: tuple[Blocker, ...]
    work: Work
    loads: tuple[CopyLoad, ...]
    candidates: Candidates
    along: int
    doubts: tuple[DoubtCount, ...]
    holds: tuple[HoldNotice, ...]
    commands: tuple[str, ...]
    permission: InitVar[Permission]

    def __post_init__(self, permission: Permission) -> None:
        if self.answer is Answer.NOW or self.commands:
            object_keys = {object.key for object in permission.objects}
            is_decommission = permission.kind is ActionKind.DECOMMISSION
            if (
                not isinstance(permission, Allowed)
                or not is_decommission
                or not object_keys.issuperset(self.bookies)
            ):
                raise ValueError(f"{', '.join(self.bookies)}: the gate did not permit to decommission")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """May bookies go, by a finished run.

    ``absent`` bookies are not registered and were not asked for: the Auditor marks their ledgers too.
    ``alone`` has a trial for each bookie where several were asked for; ``order`` is how they may go one by
    one, empty where they may not. ``seconds`` is None where no rate was stated.
    """

    run: str
    scan_time: int
    bookies: tuple[str, ...]
    registered: tuple[Registered, ...]
    absent: tuple[str, ...]
    spares: int
    policy: str
    policy_origin: str
    mapping_origin: str | None
    workers: int
    together: Trial
    alone: tuple[Trial, ...]
    order: tuple[str, ...]
    seconds: float | None

    @property
    def answer(self) -> Answer:
        """Of all at once; one by one where only that is possible is after."""
        if self.together.answer is Answer.NEVER and self.order:
            return Answer.AFTER
        return self.together.answer

    @property
    def commands(self) -> tuple[str, ...]:
        """Those that take the bookies out, in order; empty while the gate refuses one of them."""
        if not self.order:
            return self.together.commands
        of_bookie = {trial.bookies[0]: trial.commands for trial in self.alone}
        in_order = [of_bookie[name] for name in self.order]
        return tuple(command for commands in in_order for command in commands) if all(in_order) else ()

    @property
    def exit_code(self) -> int:
        """0 now; 1 after something, or never; 3 where not all that counts is known."""
        return {Answer.NOW: CLEAN, Answer.UNKNOWN: NOT_COVERED}.get(self.answer, FOUND)
