"""A plan of repair: steps in order with what each rests on, steps that are refused, and how a check ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from auditor.model.holds import ActionKind
from auditor.model.json_shape import Count, Time, about
from auditor.model.report import CLEAN, FOUND, NOT_COVERED

PLAN_SCHEMA = "bookkeeper-auditor/plan/2"
PLAN_SCHEMAS = ("bookkeeper-auditor/plan/1", PLAN_SCHEMA)
"""What `bkaudit plan show` and `plan check` read."""

EXPIRY_MS = 24 * 3_600_000
"""A plan is carried out within this time after the scan that it rests on."""


RENAMED_KINDS = {
    "stop-collection": ActionKind.STOP,
    "queue-again": ActionKind.RECOVER,
    "delete-ledgers": ActionKind.DELETE_LEDGER,
}
"""Kinds of steps as plan files of earlier versions have them; all others kept their word."""


class CommandRole(StrEnum):
    """What a command is for, in the order in which a step has them; undo takes the step back."""

    LOOK = "look"  # changes nothing: a dry run
    SAVE = "save"  # keeps what the step overwrites or deletes
    HAND = "by hand"  # no command of the shell: words
    DO = "do"
    UNDO = "undo"


class Fact(StrEnum):
    """What a condition asks; of whom and with which answers stands beside each."""

    REGISTERED = "registered"  # a bookie: no, yes, or writable, readonly, both
    COOKIE = "cookie"  # a bookie: none, yes, or 16 hex digits of what it says
    REPLICATION = "replication"  # on, off
    AUDITOR = "auditor"  # elected, none
    NAMED = "named"  # a bookie, by any ledger: yes, no; only a newer run says it
    FINDING = "finding"  # an id and a fingerprint: there, gone; only a newer run says it
    # Of every ledger of the step:
    VERSION = "version"  # as listed
    LISTED = "listed"  # yes, no
    NAMES = "names"  # a bookie that an ensemble of the ledger names: yes, no
    QUEUED = "queued"  # yes: it is marked, or names the bookie no more
    MARKED = "marked"  # yes, no
    LOCKED = "locked"  # yes, no
    UNOWNED = "unowned"  # yes: its owner is gone; only a newer run says it


OF_EACH_LEDGER = (Fact.VERSION, Fact.LISTED, Fact.NAMES, Fact.QUEUED, Fact.MARKED, Fact.LOCKED, Fact.UNOWNED)
"""Facts of each ledger of a step, in turn."""


class RefusalReason(StrEnum):
    """Why a step is refused; stable words."""

    LAST_COPY = "last-copy"
    LIVE_WRITER = "live-writer"
    NAMED = "named-by-metadata"
    NO_COPY = "no-copy"
    NO_SPARE = "no-spare"
    UNSURE = "not-confirmed"
    UNKNOWN_INPUT = "input-not-known"
    NOT_BY_SHELL = "shell-refuses"
    LOCKED = "held-by-worker"
    SWITCHED_OFF = "replication-off"
    HELD = "held"  # by holds of the run, which the refusal names
    AUDIT_AGAIN = "audit-again"  # the run is too old for it, or has no earlier run
    OTHER_CLUSTER = "other-cluster"
    DISKS_EXCHANGED = "disks-exchanged"


@dataclass(frozen=True, slots=True)
class Condition:
    """What must be so: ``fact`` of the bookie, fingerprint or nothing in ``of`` is ``value``."""

    fact: Fact
    of: str
    value: str


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """A line to type, or words for what no command does; ``risk`` is a word of `RISKS` (checks.manual)."""

    role: CommandRole
    text: str
    does: str
    risk: str


@dataclass(frozen=True, slots=True)
class PlannedLedger:
    """A ledger of scope 0 as the run saw it; version and state are None where the store does not list it."""

    ledger_id: Annotated[str, about("decimal")]
    version: int | None
    state: str | None


@dataclass(frozen=True, slots=True)
class PlanFinding:
    """Findings of one id that a step or a refusal is about: how many, and the first of their fingerprints."""

    id: str
    count: Count
    fingerprints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step: type its commands in order, with ID standing for each of its ledgers in turn.

    ``ledgers`` are the first of ``ledger_count``, all of them up to a bound. ``bytes`` is the most that is
    copied or freed, None where nobody knows. ``requires`` must hold before, ``done_when`` holds after.
    ``needs`` are things that only people can see to. After ``expires`` a plan is made anew; of a step that
    waits it is when to look again. ``urgency`` is that of the most urgent finding (`Urgency`), and
    ``fewest_copies`` the number of known copies of the entry that has the fewest: both order the steps, and
    are None where they are not known, as in plans of earlier versions.
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
    expires: Time
    requires: tuple[Condition, ...]
    done_when: tuple[Condition, ...]

    @property
    def was_permitted(self) -> bool:
        """Whether holds were asked for when the plan was made: earlier versions had none, and no urgency."""
        return self.urgency is not None


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """What is not in the plan though a finding asks for it, why, and what to do in its place.

    ``holds`` are the reasons of the holds that forbid it: ids of checks, or words of `FactReason`.
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
    """So many findings of an id."""

    id: str
    count: Count


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a run's findings ask for, in order; ``without_step`` are findings that no step is about.

    ``accepted`` are findings that suppressions or baselines accept: no step is planned for them.
    ``complete`` is False where the run did not see everything: what it did not see may ask for more.
    """

    schema: str
    run: str
    version: str
    metadata_uri: str
    instance_id: str | None
    scan_time: Time
    complete: bool
    steps: tuple[PlanStep, ...]
    refused: tuple[RefusedStep, ...]
    without_step: tuple[UnplannedCount, ...]
    accepted: tuple[UnplannedCount, ...]

    @property
    def expires(self) -> int:
        """When nothing of it may be carried out any more, ms."""
        return self.scan_time + EXPIRY_MS


class StepState(StrEnum):
    """How a step of a plan stands now."""

    TRUE = "still true"
    DONE = "done"
    CHANGED = "no longer true"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class StepCheck:
    """A step now: ``why`` names conditions that do not hold or are not known; numbers are of its ledgers."""

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
    """All steps of a plan, asked again of a newer run or of a store."""

    asked: str
    time: Time
    expires: Time
    expired: bool
    steps: tuple[StepCheck, ...]

    @property
    def exit_code(self) -> int:
        """0 all still true or done; 1 something no longer true; 3 something not known."""
        states = {step.state for step in self.steps}
        if StepState.CHANGED in states:
            return FOUND
        return NOT_COVERED if StepState.UNKNOWN in states else CLEAN
