"""Permissions for the steps of a plan, from `auditor.actions.gate` and the holds of a newer run.

A hold is a rule that forbids actions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from auditor.actions.action_list import HolderFinder
from auditor.actions.commands import is_cluster_wide
from auditor.actions.gate import GateRun, permit, permit_everywhere, permit_ledgers
from auditor.actions.objects import bookie, ledger
from auditor.actions.procedures import parse_manual_action
from auditor.actions.stop_set import StopSet, last_holders_text
from auditor.model.holds import ActionKind, HoldObject
from auditor.model.permission import Refused
from auditor.model.plan import CommandRole, Fact, PlanStep, StepCheck, StepState

_BOOKIE_FACTS = (Fact.REGISTERED, Fact.COOKIE, Fact.IN_ANY_LEDGER, Fact.IN_ENSEMBLE, Fact.MARKED_OR_DONE)
"""Facts about a bookie. A condition about such a fact names a bookie of the step."""


@dataclass(frozen=True, slots=True)
class StepPermission:
    """Whether a newer run still permits a step of a plan.

    ``forbidden_reasons`` has a sentence for each hold (a rule that forbids actions) against the whole step.
    ``unknown_reasons`` has the reasons why the run can permit no step of this kind. ``held_ledgers`` are the
    ledgers of the step that have a hold against the step, as decimal ids.
    """

    forbidden_reasons: tuple[str, ...] = ()
    unknown_reasons: tuple[str, ...] = ()
    held_ledgers: frozenset[str] = frozenset()


_NO_RUN_REASON = (
    "an earlier bkaudit version made this plan without checking holds, and a store does not show holds. "
    "Run bkaudit plan check with --run, or plan again"
)
FUTURE_REASON = (
    "the plan, its new run or its store is newer than the current time. Correct the clocks, then audit "
    "and plan again"
)
"""Reason if a clock was wrong. No step is permitted then, because its time of expiry would be too late."""


def permission_without_run(step: PlanStep) -> StepPermission:
    """Return the permission of a step if the plan is checked against a store instead of a run.

    A store has no holds (rules that forbid actions). The step is permitted if it was permitted when the plan
    was made.
    """
    gate_permitted_step = step.was_permitted or step.kind is ActionKind.WAIT
    return StepPermission() if gate_permitted_step else StepPermission(unknown_reasons=(_NO_RUN_REASON,))


def ask_gate(step: PlanStep, run: GateRun) -> StepPermission:
    """Return how far `auditor.actions.gate` permits a step of a plan, according to a newer run.

    Raises:
        RunError: a table of the run is broken.
    """
    bookies = [bookie(bookie_id) for bookie_id in _step_bookies(step)]
    step_answer = permit(run, step.kind, bookies)
    cluster_answer = permit_everywhere(run, step.kind) if _is_cluster_wide(step) else None
    gate_refusals = [
        gate_answer for gate_answer in (step_answer, cluster_answer) if isinstance(gate_answer, Refused)
    ]
    gate_refusals += _refuse_manual_actions(step, run)
    ledger_refusals: tuple[Refused, ...] = ()
    if not isinstance(step_answer, Refused):
        ledgers = [ledger(int(planned_ledger.ledger_id)) for planned_ledger in step.ledgers]
        _, refusals = permit_ledgers(run, step.kind, (), ledgers)
        # That nobody owns a ledger was proved for the plan, and is a condition of the step (`Fact.UNOWNED`).
        # The proof of earlier versions was less: it did not need every owner, and two runs a rollover apart.
        ledger_refusals = tuple(gate_answer for gate_answer in refusals if gate_answer.holds)
        gate_refusals += [
            gate_answer for gate_answer in refusals if not gate_answer.holds and not step.was_permitted
        ]
        if _copies_all_ledgers(step):
            gate_refusals += ledger_refusals  # one command copies the held ledgers too
            are_all_ledgers_listed = len(step.ledgers) == step.ledger_count
            if (
                not are_all_ledgers_listed
                and not ledger_refusals
                and (action_hold := run.holds.first_ledger_hold(step.kind))
            ):
                gate_refusals.append(Refused(step.kind, tuple(bookies), action_hold))
    return StepPermission(
        tuple(dict.fromkeys(gate_answer.sentence for gate_answer in gate_refusals if gate_answer.holds)),
        tuple(dict.fromkeys(gate_answer.sentence for gate_answer in gate_refusals if not gate_answer.holds)),
        _refused_ledger_ids(ledger_refusals),
    )


def _refused_ledger_ids(refusals: Iterable[Refused]) -> frozenset[str]:
    action_objects = (action_object for gate_answer in refusals for action_object in gate_answer.objects)
    return frozenset(
        action_object.key.removeprefix("0/")
        for action_object in action_objects
        if action_object.kind is HoldObject.LEDGER
    )


def _step_bookies(step: PlanStep) -> list[str]:
    """Return the bookies of a step: its own bookie, and the bookies in its conditions."""
    bookie_ids = {
        condition.of for condition in (*step.requires, *step.done_when) if condition.fact in _BOOKIE_FACTS
    }
    return sorted(bookie_ids | ({step.bookie_id} if step.bookie_id is not None else set()))


def _refuse_manual_actions(step: PlanStep, run: GateRun) -> Iterator[Refused]:
    """Yield a refusal for each start or stop of a bookie in the step that `auditor.actions.gate` refuses."""
    for action_kind, bookie_name in _manual_actions(step):
        gate_answer = permit(run, action_kind, [bookie(bookie_name)])
        if isinstance(gate_answer, Refused):
            yield gate_answer


def _manual_actions(step: PlanStep) -> Iterator[tuple[ActionKind, str]]:
    """Yield (kind, bookie id) for each command of the step that stops or starts a bookie, in order."""
    for command in step.commands:
        if (
            command.role is CommandRole.MANUAL
            and (manual_action := parse_manual_action(command.text)) is not None
        ):
            yield manual_action


def _is_cluster_wide(step: PlanStep) -> bool:
    """Return whether a command of the step makes AutoRecovery copy ledgers of any bookie."""
    return any(
        command.role is CommandRole.EXECUTE and is_cluster_wide(command.text) for command in step.commands
    )


def _copies_all_ledgers(step: PlanStep) -> bool:
    """Return whether a command of the step copies all ledgers of a bookie, even forbidden ones."""
    words_by_command = [
        command.text.split() for command in step.commands if command.role is CommandRole.EXECUTE
    ]
    return step.kind is ActionKind.RECOVER and any(
        "-l" not in command_words for command_words in words_by_command
    )


def forbid_last_holder_stops(
    steps_with_checks: Iterable[tuple[PlanStep, StepCheck]],
    registered_bookies: Iterable[str],
    list_joint_holders: HolderFinder,
) -> tuple[StepCheck, ...]:
    """Return the check results. A step that would stop an entry's last server becomes not permitted.

    Holds (rules that forbid actions) do not prevent this, because a hold considers one bookie alone. If two
    bookies are the only servers of an entry, the first may stop, but the second must not. Steps that restart
    their bookie are checked last, because all other bookies stay stopped during the restart.

    Args:
        steps_with_checks: The steps of one plan, each with its check result.
        registered_bookies: The bookies that run now.
        list_joint_holders: A function that takes the bookies that would stop. It returns each set of these
            bookies
            that together are the only servers of some entry.
    """
    ordered_steps_with_checks, running_bookies = list(steps_with_checks), frozenset(registered_bookies)
    stops_by_step = {
        step.number: _stopped_bookies(step, running_bookies) for step, _ in ordered_steps_with_checks
    }
    stopping_bookies = sorted(
        {
            bookie_id
            for step, check in ordered_steps_with_checks
            if _may_be_executed(check)
            for bookie_id in stops_by_step[step.number]
        }
    )
    planned_stops = StopSet(list_joint_holders(stopping_bookies) if len(stopping_bookies) > 1 else ())
    check_result_by_step = {step.number: check for step, check in ordered_steps_with_checks}
    for step, step_check in sorted(
        ordered_steps_with_checks,
        key=lambda step_and_check: (_restarts_bookie(step_and_check[0]), step_and_check[0].number),
    ):
        bookies_to_stop = stops_by_step[step.number]
        if not bookies_to_stop or not _may_be_executed(step_check):
            continue
        if last_holders := planned_stops.last_holders(*bookies_to_stop):
            reasons = (*step_check.why, f"not permitted: {last_holders_text(last_holders)}")
            check_result_by_step[step.number] = replace(step_check, state=StepState.CHANGED, why=reasons)
        elif step_check.state is StepState.STILL_VALID and not _restarts_bookie(step):
            planned_stops.add(*bookies_to_stop)
    return tuple(check_result_by_step[step.number] for step, _ in ordered_steps_with_checks)


def _may_be_executed(step_check: StepCheck) -> bool:
    return step_check.state in (StepState.STILL_VALID, StepState.UNKNOWN)


def _stopped_bookies(step: PlanStep, running_bookies: frozenset[str]) -> Sequence[str]:
    return [
        bookie_id
        for action_kind, bookie_id in _manual_actions(step)
        if action_kind is ActionKind.STOP and bookie_id in running_bookies
    ]


def _restarts_bookie(step: PlanStep) -> bool:
    """Return whether the step rebuilds an index, and then starts the bookie that it stopped.

    The result is False for a step that changes settings. Such a step also starts its bookie, but a person
    must change the settings first.
    """
    return step.kind is ActionKind.REBUILD_INDEX and any(
        action_kind is ActionKind.START for action_kind, _ in _manual_actions(step)
    )
