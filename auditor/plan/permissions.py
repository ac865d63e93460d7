"""Permission of a plan's steps by the gate of a newer run. The run's holds may be newer than the plan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from auditor.actions.action_list import JointHolders
from auditor.actions.commands import is_cluster_wide
from auditor.actions.gate import HeldRun, permit, permit_everywhere, permit_ledgers
from auditor.actions.objects import bookie, ledger
from auditor.actions.procedures import kind_by_hand
from auditor.actions.stop_set import StopSet, why_last_of_set
from auditor.model.holds import ActionKind, HoldObject
from auditor.model.permission import Refused
from auditor.model.plan import CommandRole, Fact, PlanStep, StepCheck, StepState

_BOOKIE_FACTS = (Fact.REGISTERED, Fact.COOKIE, Fact.NAMED, Fact.NAMES, Fact.QUEUED)
"""Facts in conditions that are about a bookie of the step."""


@dataclass(frozen=True, slots=True)
class StepPermission:
    """Whether a newer run still permits a step of a plan.

    ``forbidden`` has a sentence for each hold that forbids the whole step. ``unknown`` has the reasons why
    the run permits no step of this kind. ``held_ledgers`` are the decimal ids of the step's ledgers on which
    a hold forbids the step.
    """

    forbidden: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    held_ledgers: frozenset[str] = frozenset()


_NO_RUN_REASON = (
    "an earlier version made this plan without checking holds, and a store does not show them: plan "
    "check --run, or plan again"
)
FUTURE_REASON = (
    "the plan, or its new run or store, is newer than the current time: set the clocks, audit and plan again"
)
"""Message if a clock was wrong. No step is permitted then, because the plan would expire too late."""


def without_run(step: PlanStep) -> StepPermission:
    """Return the permission of a step if only a store was read; a store has no holds.

    The step is permitted if the gate permitted it when the plan was made.
    """
    was_permitted = step.was_permitted or step.kind is ActionKind.WAIT
    return StepPermission() if was_permitted else StepPermission(unknown=(_NO_RUN_REASON,))


def ask_gate(step: PlanStep, run: HeldRun) -> StepPermission:
    """Ask the gate of a newer run whether a step of a plan is permitted.

    Raises:
        RunError: a table of the run is broken.
    """
    bookies = [bookie(name) for name in _step_bookies(step)]
    step_answer = permit(run, step.kind, bookies)
    cluster_answer = permit_everywhere(run, step.kind) if _is_cluster_wide(step) else None
    answers = [answer for answer in (step_answer, cluster_answer) if isinstance(answer, Refused)]
    answers += _refuse_hand_actions(step, run)
    by_ledger: tuple[Refused, ...] = ()
    if not isinstance(step_answer, Refused):
        ledgers = [ledger(int(planned_ledger.ledger_id)) for planned_ledger in step.ledgers]
        _, refusals = permit_ledgers(run, step.kind, (), ledgers)
        # That nobody owns a ledger was proved for the plan, and is a condition of the step (`Fact.UNOWNED`).
        # The proof of earlier versions was less: it did not need every owner, and two runs a rollover apart.
        by_ledger = tuple(answer for answer in refusals if answer.holds)
        answers += [answer for answer in refusals if not answer.holds and not step.was_permitted]
        if _copies_all_ledgers(step):
            answers += by_ledger  # one command copies the held ledgers too
            is_listed = len(step.ledgers) == step.ledger_count
            if not is_listed and not by_ledger and (hold := run.holds.first_of_ledgers(step.kind)):
                answers.append(Refused(step.kind, tuple(bookies), hold))
    return StepPermission(
        tuple(dict.fromkeys(answer.sentence for answer in answers if answer.holds)),
        tuple(dict.fromkeys(answer.sentence for answer in answers if not answer.holds)),
        _refused_keys(by_ledger),
    )


def _refused_keys(refusals: Iterable[Refused]) -> frozenset[str]:
    objects = (object for answer in refusals for object in answer.objects)
    return frozenset(object.key.removeprefix("0/") for object in objects if object.kind is HoldObject.LEDGER)


def _step_bookies(step: PlanStep) -> list[str]:
    """Return the bookies of a step; if the step has several, its conditions name them."""
    names = {
        condition.of for condition in (*step.requires, *step.done_when) if condition.fact in _BOOKIE_FACTS
    }
    return sorted(names | ({step.bookie_id} if step.bookie_id is not None else set()))


def _refuse_hand_actions(step: PlanStep, run: HeldRun) -> Iterator[Refused]:
    """Yield the gate's refusals of the stops and starts of bookies among the step's commands."""
    for kind, name in _hand_actions(step):
        answer = permit(run, kind, [bookie(name)])
        if isinstance(answer, Refused):
            yield answer


def _hand_actions(step: PlanStep) -> Iterator[tuple[ActionKind, str]]:
    """Yield (kind, bookie) for each command of the step that stops or starts a bookie by hand, in order."""
    for command in step.commands:
        if command.role is CommandRole.HAND and (hand_action := kind_by_hand(command.text)) is not None:
            yield hand_action


def _is_cluster_wide(step: PlanStep) -> bool:
    """Return whether a command of the step makes AutoRecovery copy ledgers of any bookie."""
    return any(command.role is CommandRole.DO and is_cluster_wide(command.text) for command in step.commands)


def _copies_all_ledgers(step: PlanStep) -> bool:
    """Return whether a command of the step copies all ledgers of a bookie, ledgers on hold included."""
    command_words = [command.text.split() for command in step.commands if command.role is CommandRole.DO]
    return step.kind is ActionKind.RECOVER and any("-l" not in words for words in command_words)


def forbid_last_stops(
    steps: Iterable[tuple[PlanStep, StepCheck]],
    registered_bookies: Iterable[str],
    joint_holders: JointHolders,
) -> tuple[StepCheck, ...]:
    """Forbid each stop of a bookie that, after the stops of earlier steps, would leave an entry unserved.

    A hold considers one bookie alone. The entries that only two bookies serve can have changed since the plan
    was made. Steps that restart their bookie are checked last, because the other bookies stay stopped
    meanwhile.

    Args:
        steps: The steps of one plan, each with its check result.
        registered_bookies: The bookies that run now.
        joint_holders: Returns the sets of stopping bookies that alone serve an entry together.
    """
    steps_and_checks, running_bookies = list(steps), frozenset(registered_bookies)
    stops_by_step = {step.number: _stopped_bookies(step, running_bookies) for step, _ in steps_and_checks}
    stopping_bookies = sorted(
        {name for step, check in steps_and_checks if _is_open(check) for name in stops_by_step[step.number]}
    )
    stop_set = StopSet(joint_holders(stopping_bookies) if len(stopping_bookies) > 1 else ())
    answers = {step.number: check for step, check in steps_and_checks}
    for step, check in sorted(
        steps_and_checks,
        key=lambda step_and_check: (_restarts_bookie(step_and_check[0]), step_and_check[0].number),
    ):
        names = stops_by_step[step.number]
        if not names or not _is_open(check):
            continue
        if holders := stop_set.last_holders(*names):
            reasons = (*check.why, f"not permitted: {why_last_of_set(holders)}")
            answers[step.number] = replace(check, state=StepState.CHANGED, why=reasons)
        elif check.state is StepState.TRUE and not _restarts_bookie(step):
            stop_set.add(*names)
    return tuple(answers[step.number] for step, _ in steps_and_checks)


def _is_open(check: StepCheck) -> bool:
    return check.state in (StepState.TRUE, StepState.UNKNOWN)


def _stopped_bookies(step: PlanStep, running_bookies: frozenset[str]) -> Sequence[str]:
    return [name for kind, name in _hand_actions(step) if kind is ActionKind.STOP and name in running_bookies]


def _restarts_bookie(step: PlanStep) -> bool:
    """Return whether the step restarts each bookie that it stops, as soon as its index is rebuilt.

    A step that changes settings starts its bookie too, but only after a person has set them.
    """
    return step.kind is ActionKind.REBUILD_INDEX and any(
        kind is ActionKind.START for kind, _ in _hand_actions(step)
    )
