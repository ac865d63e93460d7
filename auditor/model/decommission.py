"""Result of a decommissioning rehearsal: whether bookies may be removed, the obstacles, and the work."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.holds import ActionKind, HoldNotice
from auditor.model.json_shape import SchemaFacet, about
from auditor.model.permission import Allowed, Permission
from auditor.model.report import EXIT_CLEAN, EXIT_FOUND, EXIT_NOT_COVERED


class Answer(StrEnum):
    """Answer to the question whether some bookies may be removed from the cluster."""

    NOW = "now"
    AFTER = "after"
    """The bookies may be removed once the causes that prevent it are gone. No data has to be given up."""
    NEVER = "never"
    """The bookies must not be removed: ``decommissionbookie`` would wait for ever, or data would be lost."""
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Reason why a bookie must not be removed. These words do not change between versions."""

    PROVED_HOLD = "held"  # a hold that the run proved
    LAST_SERVED = "last-served-copy"  # only this bookie serves some entries, whose other bookies are down
    OPEN_LEDGERS = "open-ledgers"
    DOUBTFUL_HOLD = "held-by-doubt"  # no hold is certain
    RUN_LACKS_HOLDS = "no-holds"
    DATA_TOO_OLD = "data-too-old"
    DATA_OF_FUTURE = "data-of-future"
    NO_EARLIER_RUN = "no-earlier-run"
    CHECKS_NOT_RUN = "checks-not-run"
    ONLY_COPY = "only-copy"
    UNREADABLE_ENTRY = "unreadable-entry"
    NO_SPARE_BOOKIE = "no-spare"
    NO_ALLOWED_SPARE = "no-admissible-spare"
    NO_QUORUM_COVERAGE = "no-coverage"
    ABSENT = "absent-bookies"
    REPLICATION_OFF = "replication-off"
    NO_AUDITOR = "no-auditor"
    IDLE_WORKERS = "idle-workers"
    NO_MARKS = "no-marks"


LEDGER_CAUSES = (
    Cause.ONLY_COPY,
    Cause.UNREADABLE_ENTRY,
    Cause.NO_SPARE_BOOKIE,
    Cause.NO_ALLOWED_SPARE,
    Cause.NO_QUORUM_COVERAGE,
)
"""Causes that single ledgers have; a ledger with several causes counts under the first in this order."""

GATE_CAUSES = (
    Cause.PROVED_HOLD, Cause.LAST_SERVED, Cause.OPEN_LEDGERS, Cause.DOUBTFUL_HOLD, Cause.RUN_LACKS_HOLDS,
    Cause.DATA_TOO_OLD, Cause.DATA_OF_FUTURE, Cause.NO_EARLIER_RUN, Cause.CHECKS_NOT_RUN,
)  # fmt: skip
"""Causes that the gate reports (`auditor.actions.gate`); with any of them, no command is shown."""

UNPROVED_CAUSES = (
    Cause.DOUBTFUL_HOLD,
    Cause.RUN_LACKS_HOLDS,
    Cause.DATA_TOO_OLD,
    Cause.DATA_OF_FUTURE,
    Cause.NO_EARLIER_RUN,
    Cause.CHECKS_NOT_RUN,
)
"""Causes that come from missing knowledge; if there are no other causes, the answer is unknown."""

LASTING_CAUSES = (
    Cause.PROVED_HOLD,
    Cause.ONLY_COPY,
    Cause.UNREADABLE_ENTRY,
    Cause.NO_SPARE_BOOKIE,
    Cause.NO_ALLOWED_SPARE,
    Cause.NO_MARKS,
)
"""Causes that remain until somebody adds a copy or a bookie, or gives up data."""


DecimalText = Annotated[str, SchemaFacet("pattern", "^-?[0-9]+$"), about("decimal")]


@dataclass(frozen=True, slots=True)
class LedgerName:
    """The ids of a ledger, and the topic that owns it. ``topic`` is None if it is not known."""

    scope_id: DecimalText
    ledger_id: DecimalText
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class TopicCount:
    """A topic, and the number of its ledgers."""

    topic: str
    ledgers: int


@dataclass(frozen=True, slots=True)
class DoubtCount:
    """A kind of unknown fact (``what``), and the number of unknown facts of this kind.

    ``number`` is 0 if this number itself is not known.
    """

    what: str
    number: int


@dataclass(frozen=True, slots=True)
class RegisteredBookie:
    """A bookie and its registration.

    ``mode`` is writable, readonly or both. It is None if the bookie was not registered.
    """

    bookie_id: str
    mode: str | None


@dataclass(frozen=True, slots=True)
class Blocker:
    """A cause that prevents the removal of bookies, and the ledgers that it concerns.

    ``ledgers`` is the number of these ledgers. ``topics`` are their topics, and ``samples`` are the first
    of these ledgers. ``detail`` describes a cause that does not concern single ledgers. For other causes it
    is empty.
    """

    cause: Cause
    ledgers: int = 0
    topics: tuple[TopicCount, ...] = ()
    samples: tuple[LedgerName, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CopyWork:
    """The work of a decommissioning, summed over the ledgers that would move.

    ``needed`` counts the copies that striping requires. ``copied`` counts the copies that the server
    writes. ``read`` counts the entries that the server reads to write these copies. Numbers of bytes are
    the payload of entries, in ledgers whose length is known. ``unsized`` counts the copies in all other
    ledgers. ``open_ends`` counts ledgers that the worker fences and closes. The last entries of these
    ledgers are not included. ``renamed`` counts ledgers that name leaving bookies but have no entries on
    them. ``decommissionbookie`` does not wait for renamed ledgers. ``renamed_stuck`` counts the renamed
    ledgers for which there is no replacement bookie.
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
    """Entries and bytes that one bookie would read from its disks for copies, and that it would receive.

    If the server chooses the receiving bookies at random, these are expected values.
    """

    bookie_id: str
    entries_read: int
    bytes_read: int
    entries_written: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """Numbers of bookies that could replace the leaving bookies of a ledger.

    ``least`` and ``most`` are the smallest and largest number, over all ledgers that move. ``least`` is
    None if no ledger moves. ``ledgers_with_least`` is the number of ledgers with only ``least`` candidates.
    """

    least: int | None
    most: int
    ledgers_with_least: int


@dataclass(frozen=True, slots=True)
class RemovalTrial:
    """Rehearsal of removing one bookie, or several bookies at once.

    ``along`` counts ledgers that name no bookie of this trial, but move too. The reason: another bookie in
    their ensembles is already absent. ``doubts`` are the numbers of ledgers about which a fact is unknown.
    ``holds`` are the rules that forbid the removal, the most important first. ``commands`` remove the
    bookies. The field is empty while the gate (`auditor.actions.gate`) refuses the removal. ``permission`` is
    the gate's answer.

    Raises:
        ValueError: the answer is "now" or there are commands, but the gate did not permit the removal.
    """

    bookies: tuple[str, ...]
    answer: Answer
    blockers: tuple[Blocker, ...]
    work: CopyWork
    loads: tuple[CopyLoad, ...]
    candidates: CandidateCounts
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
                raise ValueError(
                    f"{', '.join(self.bookies)}: the gate did not permit the decommissioning "
                    "(auditor.actions.gate)"
                )


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Answer to the question whether some bookies may be removed, based on a finished run.

    ``absent`` are bookies that are not registered and that are not among ``bookies``. BookKeeper's
    auditor marks the ledgers of absent bookies as under-replicated too. If there are several bookies,
    ``together`` is the trial of removing all at once, and ``alone`` has a trial for each bookie. ``order``
    is the order in which the bookies may be removed one by one. It is empty if no such order is allowed.
    ``seconds`` is the estimated duration, or None if no rate was given.
    """

    run: str
    scan_time: int
    bookies: tuple[str, ...]
    registered: tuple[RegisteredBookie, ...]
    absent: tuple[str, ...]
    spares: int
    policy: str
    policy_origin: str
    mapping_origin: str | None
    workers: int
    together: RemovalTrial
    alone: tuple[RemovalTrial, ...]
    order: tuple[str, ...]
    seconds: float | None

    @property
    def answer(self) -> Answer:
        """Answer for all bookies together.

        It is "after" if the bookies may be removed one by one, but not all at once.
        """
        if self.together.answer is Answer.NEVER and self.order:
            return Answer.AFTER
        return self.together.answer

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that remove the bookies, in order. Empty if the removal of one or more is refused."""
        if not self.order:
            return self.together.commands
        commands_by_bookie = {trial.bookies[0]: trial.commands for trial in self.alone}
        ordered_commands = [commands_by_bookie[name] for name in self.order]
        return (
            tuple(command for commands in ordered_commands for command in commands)
            if all(ordered_commands)
            else ()
        )

    @property
    def exit_code(self) -> int:
        """Exit code: 0 for "now", 1 for "after" and "never", 3 for "unknown"."""
        return {Answer.NOW: EXIT_CLEAN, Answer.UNKNOWN: EXIT_NOT_COVERED}.get(self.answer, EXIT_FOUND)
