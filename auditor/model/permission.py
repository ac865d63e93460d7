"""Answers of the gate. For each action, the gate either permits it or refuses it with a reason.

The gate itself is `auditor.actions.gate`. Its answers are in this separate module because other models use
them, for example the steps that free space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from auditor.model.amounts import first_names
from auditor.model.holds import ActionKind, Hold, HoldObject, LiftCondition

GATE_SEAL = object()
"""Value with which the gate makes an `Allowed`; a test proves that only the gate uses it."""
MAX_REASONS_SHOWN = 3
"""Largest number of holds that the sentence of a refusal names."""


@dataclass(frozen=True, slots=True)
class ActionObject:
    """An object that an action operates on: a bookie, a ledger, an entry log or a source.

    ``key`` is the object's key in the table holds. This table has the rules that forbid actions.
    """

    kind: HoldObject
    key: str


class UnfitRunReason(StrEnum):
    """Reason why a run permits no action of some kind, whatever its holds (rules against actions) are."""

    NO_HOLDS = "no-holds"
    DATA_TOO_OLD = "data-too-old"
    DATA_OF_FUTURE = "data-of-future"
    NO_EARLIER_RUN = "no-earlier-run"
    LOGS_NOT_READ = "logs-not-read"
    CHECKS_NOT_RUN = "checks-not-run"

    @property
    def sentence(self) -> str:
        """The reason as a sentence, without a full stop."""
        return _UNFIT_RUN_SENTENCES[self]


_UNFIT_RUN_SENTENCES = {
    UnfitRunReason.NO_HOLDS: "an earlier version of the program, which had no holds, made this run; audit "
    "again",
    UnfitRunReason.DATA_TOO_OLD: "the data of this run is more than 24 hours old; audit again",
    UnfitRunReason.DATA_OF_FUTURE: "the time of this run's data is in the future: a clock was wrong, so the "
    "age of the data is unknown. Set the clocks and audit again",
    UnfitRunReason.NO_EARLIER_RUN: "no earlier run of this cluster with all checks was found, so the holds "
    "of earlier runs are unknown. Run a second audit in the parent directory "
    "of this run",
    UnfitRunReason.LOGS_NOT_READ: "the entry logs were not read, and a new index would lack the "
    "entries that these logs have lost; audit again with --entry-logs",
    UnfitRunReason.CHECKS_NOT_RUN: "checks that could forbid the action were left out, or have less careful "
    "settings than by default. Audit again with all checks",
}


@dataclass(frozen=True)
class Allowed:
    """Proof that no rule (hold) forbids an action.

    Every instruction needs this proof. Only `auditor.actions.gate` creates it.
    """

    kind: ActionKind
    objects: tuple[ActionObject, ...]
    gate_seal: object

    def __post_init__(self) -> None:
        if self.gate_seal is not GATE_SEAL:
            raise TypeError("only auditor.actions.gate.permit allows an action")


@dataclass(frozen=True, slots=True)
class Refused:
    """An action that must not be taken.

    ``holds`` are the rules that forbid the action, the most important first. ``reason`` is the reason if
    there is no such rule. ``unfit_reason`` is the reason why the run permits no action of this kind, whatever
    its holds are. It is None if there is no such reason.
    """

    kind: ActionKind
    objects: tuple[ActionObject, ...]
    holds: tuple[Hold, ...] = ()
    reason: str = ""
    unfit_reason: UnfitRunReason | None = None

    @property
    def is_certain(self) -> bool:
        """Whether a proved fact forbids the action. False if only unproved facts forbid it."""
        return any(hold.certain for hold in self.holds)

    @property
    def sentence(self) -> str:
        """The reason for the refusal in one sentence, without a full stop."""
        keys = [object.key for object in self.objects]
        return first_names(hold_sentences(self.holds, keys), MAX_REASONS_SHOWN) or self.reason

    @property
    def way_out(self) -> str:
        """Condition for permitting the action. A later run must find that it is met."""
        reasons_by_condition: dict[LiftCondition, dict[str, None]] = {}
        for hold in self.holds:
            reasons_by_condition.setdefault(hold.lift, {})[hold.reason] = None
        return (
            "; ".join(
                lift_condition.describe([*hold_reasons])
                for lift_condition, hold_reasons in reasons_by_condition.items()
            )
            or "audit again"
        )


def hold_sentences(holds: Sequence[Hold], object_names: Sequence[str] = ()) -> list[str]:
    """Return the distinct messages of holds (rules that forbid actions), each with its reason in brackets.

    A name in ``object_names`` is removed from the beginning of a message, because the caller prints it there.
    """
    return list(dict.fromkeys(f"{_strip_object_name(hold, object_names)} ({hold.reason})" for hold in holds))


def _strip_object_name(hold: Hold, object_names: Sequence[str]) -> str:
    for name in object_names:
        if hold.message.startswith(f"{name}: "):
            return hold.message.removeprefix(f"{name}: ")
    return hold.message


Permission = Allowed | Refused
