"""Repair plan: ordered steps with their conditions, refused steps, and the result of checking it later."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.holds import ActionKind
from auditor.model.json_shape import Count, TimeMs, about
from auditor.model.report import EXIT_CLEAN, EXIT_FOUND, EXIT_NOT_COVERED

PLAN_SCHEMA = "bookkeeper-auditor/plan/2"
PLAN_SCHEMAS = ("bookkeeper-auditor/plan/1", PLAN_SCHEMA)
"""Schemas that ``bkaudit plan show`` and ``plan check`` read."""

EXPIRY_MS = 24 * 3_600_000
"""Longest time from the scan of a run to the execution of a plan that was made from it, in ms."""


RENAMED_KINDS = {
    "stop-collection": ActionKind.STOP,
    "queue-again": ActionKind.RECOVER,
    "delete-ledgers": ActionKind.DELETE_LEDGER,
}
"""Kinds of steps in plan files of earlier versions, with their present kind; other kinds have not changed."""


class CommandRole(StrEnum):
    """Purpose of a command. A step lists commands in the order of these members. `UNDO` reverses the step."""

    DRY_RUN = "look"  # changes nothing: a dry run
    BACK_UP = "save"  # keeps what the step overwrites or deletes
    MANUAL = "by hand"  # manual work, described in words
    EXECUTE = "do"
    UNDO = "undo"


class Fact(StrEnum):
    """Fact that a condition of a step is about.

    The comments say which object each fact is about, and which values it can have.
    """

    REGISTERED = "registered"  # a bookie: no, yes, or writable, readonly, both
    COOKIE = "cookie"  # a bookie: none, yes, or 16 hex digits of what it says
    REPLICATION = "replication"  # on, off
    AUDITOR = "auditor"  # elected, none
    IN_ANY_LEDGER = "named"  # a bookie, by any ledger: yes, no; only a newer run says it
    FINDING = "finding"  # an id and a fingerprint: there, gone; only a newer run says it
    # Of every ledger of the step:
    VERSION = "version"  # as listed
    LISTED = "listed"  # yes, no
    IN_ENSEMBLE = "names"  # a bookie that an ensemble of the ledger names: yes, no
    MARKED_OR_DONE = "queued"  # yes: it is marked, or no longer names the bookie
    MARKED = "marked"  # yes, no
    LOCKED = "locked"  # yes, no
    UNOWNED = "unowned"  # yes: its owner is gone; only a newer run says it


LEDGER_FACTS = (
    Fact.VERSION,
    Fact.LISTED,
    Fact.IN_ENSEMBLE,
    Fact.MARKED_OR_DONE,
    Fact.MARKED,
    Fact.LOCKED,
    Fact.UNOWNED,
)
"""Facts that a condition asks for about each ledger of a step."""


class RefusalReason(StrEnum):
    """Reason why a plan refuses a step. These words do not change between versions."""

    LAST_COPY = "last-copy"
    LIVE_WRITER = "live-writer"
    NAMED = "named-by-metadata"
    NO_COPY = "no-copy"
    NO_SPARE = "no-spare"
    UNPROVED = "not-confirmed"
    UNKNOWN_INPUT = "input-not-known"
    NOT_BY_SHELL = "shell-refuses"
    WORKER_LOCK = "held-by-worker"
    REPLICATION_OFF = "replication-off"
    HAS_HOLDS = "held"  # by holds of the run, which the refusal names
    AUDIT_AGAIN = "audit-again"  # the run is too old for it, or has no earlier run
    OTHER_CLUSTER = "other-cluster"
    DISKS_EXCHANGED = "disks-exchanged"


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of a step: ``fact`` must have the value ``value``.

    ``of`` is the bookie or the fingerprint that the fact is about. It is empty if the fact is about
    neither.
    """

    fact: Fact
    of: str
    value: str


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """A command to type, or manual work that is described in words.

    ``risk`` is a word in `RISK_WORDS` (checks.manual).
    """

    role: CommandRole
    text: str
    does: str
    risk: str


@dataclass(frozen=True, slots=True)
class PlannedLedger:
    """A ledger as the run saw it, with a 64-bit id. Version and state are None if the store lacks it."""

    ledger_id: Annotated[str, about("decimal")]
    version: int | None
    state: str | None


@dataclass(frozen=True, slots=True)
class PlanFinding:
    """The findings of one check behind a step or a refusal: their number, and the first fingerprints."""

    id: str
    count: Count
    fingerprints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan.

    To carry out the step, type its commands in order for each ledger in turn. Replace ID with the ledger's
    id.

    ``ledger_count`` is the number of the step's ledgers. ``ledgers`` has the first of them, or all if they
    are few. ``bytes`` is an upper bound for the bytes that the step copies or frees. It is None if no bound
    is known. ``requires`` are the conditions that must hold before the step. ``done_when`` are the conditions
    that hold after the step. ``needs`` are conditions that only a person can check. ``expires`` is the time
    after which a new plan is needed. For a step that waits, ``expires`` is the time to look again.
    ``urgency`` is the `Urgency` of the most urgent finding. ``fewest_copies`` is the smallest number of known
    copies of an entry. Steps are ordered by ``urgency`` and ``fewest_copies``. Both are None if they are not
    known, as in plans of earlier versions.
    """

    number: Count
    kind: ActionKind
    urgency: str | None
    fewest_copies: int | None
    about: str
    findings: tuple[PlanFinding, ...]
    bookie_id: str | None
    ledger_count: Count
    ledgers: tuple[PlannedLedger, ...]
    commands: tuple[PlanCommand, ...]
    needs: tuple[str, ...]
    effect: str
    bytes: int | None
    risk: str
    undo: str
    expires: TimeMs
    requires: tuple[Condition, ...]
    done_when: tuple[Condition, ...]

    @property
    def was_permitted(self) -> bool:
        """Whether `auditor.actions.gate` permitted the step. False in plans of versions without a gate."""
        return self.urgency is not None


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """A refused step, which findings ask for. It has the reason, and what to do instead.

    ``holds`` has the reasons of the rules that forbid the step: ids of checks, or words of `FactReason`.
    """

    kind: ActionKind
    reason: RefusalReason
    about: str
    why: str
    way_out: str
    findings: tuple[PlanFinding, ...]
    ledger_count: Count
    ledgers: tuple[str, ...]
    holds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnplannedCount:
    """Number of findings of one check for which a plan has no step."""

    id: str
    count: Count


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Plan for repairing the problems that a run found. The steps are in the order in which to take them.

    ``without_step`` counts the findings for which there is no step. ``accepted`` counts the findings
    without a step because suppressions or baselines accept them. ``complete`` is False if the
    run did not read everything. The unread part may need more steps.
    """

    schema: str
    run: str
    version: str
    metadata_uri: str
    instance_id: str | None
    scan_time: TimeMs
    complete: bool
    steps: tuple[PlanStep, ...]
    refused: tuple[RefusedStep, ...]
    without_step: tuple[UnplannedCount, ...]
    accepted: tuple[UnplannedCount, ...]

    @property
    def expires(self) -> int:
        """Time after which no step may be carried out any more, in ms since 1970."""
        return self.scan_time + EXPIRY_MS


class StepState(StrEnum):
    """State of a step at the time of a check."""

    STILL_VALID = "still true"
    DONE = "done"
    CHANGED = "no longer true"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class StepCheck:
    """State of one step when the plan was checked, and the number of its ledgers in each state.

    ``why`` names the conditions of the step that are not met or not known.
    """

    number: Count
    kind: ActionKind
    about: str
    state: StepState
    why: tuple[str, ...]
    ledgers_done: Count
    ledgers_true: Count
    ledgers_changed: Count
    ledgers_unknown: Count


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """States of all steps of a plan, which was checked against a newer run or a store."""

    asked: str
    time: TimeMs
    expires: TimeMs
    expired: bool
    steps: tuple[StepCheck, ...]

    @property
    def exit_code(self) -> int:
        """0: all steps are `STILL_VALID` or `DONE`. 1: a step is `CHANGED`. 3: else, if one is `UNKNOWN`."""
        states = {step.state for step in self.steps}
        if StepState.CHANGED in states:
            return EXIT_FOUND
        return EXIT_NOT_COVERED if StepState.UNKNOWN in states else EXIT_CLEAN
