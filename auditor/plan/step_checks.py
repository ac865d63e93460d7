"""Check of a plan against a newer run or a store: the state of each step (`StepState`).

The facts come from `auditor.plan.answers`. The check changes nothing in the cluster.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from auditor.errors import UsageError
from auditor.model.amounts import first_names
from auditor.model.holds import ActionKind
from auditor.model.plan import (
    LEDGER_FACTS,
    Condition,
    Fact,
    PlanCheck,
    PlannedLedger,
    PlanStep,
    RepairPlan,
    StepCheck,
    StepState,
)
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.plan.answers import Answers
from auditor.plan.permissions import (
    FUTURE_REASON,
    StepPermission,
    ask_gate,
    forbid_last_stops,
    permission_without_run,
)
from auditor.reports.plan import condition_text

_MAX_IDS_SHOWN = 5
_AUDIT_TEXT_BY_FACT = {
    Fact.NAMED: "an audit of the metadata",
    Fact.FINDING: "an audit with the bookie's directories",
    Fact.UNOWNED: "an audit whose stores of owners are proved complete",
}
"""Facts that a store does not show, each with the kind of audit that shows it."""


def planned_ledger_ids(plan: RepairPlan) -> frozenset[int]:
    """Return the ids of all ledgers of the plan's steps."""
    return frozenset(int(ledger.ledger_id) for step in plan.steps for ledger in step.ledgers)


def check_plan(plan: RepairPlan, cluster: Answers, time_ms: int | None = None) -> PlanCheck:
    """Check every condition of a plan against the present state of the cluster.

    Args:
        plan: The plan.
        cluster: The state of the cluster.
        time_ms: The current time, ms. None means the time of ``cluster``.

    Raises:
        UsageError: ``cluster`` is the state of another cluster.
    """
    if None not in (plan.instance_id, cluster.instance_id) and plan.instance_id != cluster.instance_id:
        raise UsageError(
            f"{cluster.source_text}: cluster instance {cluster.instance_id}; "
            f"the plan is for {plan.instance_id}"
        )
    time = cluster.time if time_ms is None else max(time_ms, cluster.time)
    if cluster.run is not None:
        cluster.run.holds.now = cluster.time if time_ms is None else time_ms
    is_from_future = time_ms is not None and max(plan.scan_time, cluster.time) - time_ms > MAX_CLOCK_AHEAD_MS
    steps = tuple(_check_step(step, cluster, time, is_from_future) for step in plan.steps)
    if cluster.joint_holders is not None:
        steps_and_checks = zip(plan.steps, steps, strict=True)
        steps = forbid_last_stops(steps_and_checks, cluster.mode_by_bookie, cluster.joint_holders)
    return PlanCheck(cluster.source_text, cluster.time, plan.expires, time > plan.expires, steps)


def _check_step(step: PlanStep, cluster: Answers, time: int, is_from_future: bool) -> StepCheck:
    permission = permission_without_run(step) if cluster.run is None else ask_gate(step, cluster.run)
    if is_from_future:
        permission = replace(permission, unknown_reasons=(*permission.unknown_reasons, FUTURE_REASON))
    states = {ledger.ledger_id: _ledger_state(step, ledger, cluster, permission) for ledger in step.ledgers}
    state_counts = Counter(states.values())
    premises = [condition for condition in step.requires if condition.fact not in LEDGER_FACTS]
    goals = [condition for condition in step.done_when if condition.fact not in LEDGER_FACTS]
    has_ledger_goals = len(goals) < len(step.done_when)
    is_done = _all_true(is_condition_met(condition, cluster, step.bookie_id) for condition in goals)
    if has_ledger_goals:
        is_done = is_done and (state_counts[StepState.DONE] == len(states))
    reasons: list[str] = []
    if is_done and len(states) < step.ledger_count and has_ledger_goals:
        state = StepState.UNKNOWN
        reasons.append(
            f"{len(states):,} of {step.ledger_count:,} ledgers are listed, and these are done: plan again"
        )
    elif is_done:
        state = StepState.DONE
    else:
        state, reasons = _state_of_unfinished_step(step, premises, states, cluster, permission, time)
    return StepCheck(
        step.number, step.kind, step.about, state, tuple(reasons),
        *(
            state_counts[kind]
            for kind in (StepState.DONE, StepState.TRUE, StepState.CHANGED, StepState.UNKNOWN)
        ),
    )  # fmt: skip


def _state_of_unfinished_step(
    step: PlanStep,
    premises: Iterable[Condition],
    states: dict[str, StepState],
    cluster: Answers,
    permission: StepPermission,
    time: int,
) -> tuple[StepState, list[str]]:
    """Return the state of a step that is not done, and the reasons if its conditions are not met.

    The list of reasons is empty if all conditions are met.
    """
    answers = {condition: is_condition_met(condition, cluster, step.bookie_id) for condition in premises}
    faults = [
        f"not true: {condition_text(condition)}" for condition, answer in answers.items() if answer is False
    ]
    doubts = [
        f"not known: {condition_text(condition)}" for condition, answer in answers.items() if answer is None
    ]
    faults += [f"not allowed because of a hold: {sentence}" for sentence in permission.forbidden_reasons]
    doubts += [f"not permitted: {sentence}" for sentence in permission.unknown_reasons]
    for state, reasons, label in (
        (StepState.CHANGED, faults, "changed"), (StepState.UNKNOWN, doubts, "not known"),
    ):  # fmt: skip
        if ids := [id for id, ledger_state in states.items() if ledger_state is state]:
            reasons.append(f"{label}: ledgers {first_names(ids, _MAX_IDS_SHOWN)}")
    if doubts and cluster.fingerprints is None:
        facts = {condition.fact for condition in step.requires}
        for required_fact, audit_text in _AUDIT_TEXT_BY_FACT.items():
            if required_fact in facts:
                doubts.append(f"a store cannot show this, but {audit_text} can: use plan check --run")
    if step.kind is ActionKind.WAIT and cluster.time > step.expires:
        faults.append("AutoRecovery should have copied the ledgers by now")
    elif time > step.expires:
        doubts.append("the step has expired: plan again")
    if faults:
        return StepState.CHANGED, faults
    return (StepState.UNKNOWN, doubts) if doubts else (StepState.TRUE, [])


def _ledger_state(
    step: PlanStep, ledger: PlannedLedger, cluster: Answers, permission: StepPermission
) -> StepState:
    goals = [condition for condition in step.done_when if condition.fact in LEDGER_FACTS]
    if goals and _all_true(is_met_for_ledger(condition, ledger, cluster) for condition in goals):
        return StepState.DONE
    if ledger.ledger_id in permission.held_ledgers:
        return StepState.CHANGED
    premises = [condition for condition in step.requires if condition.fact in LEDGER_FACTS]
    answer = _all_true(is_met_for_ledger(condition, ledger, cluster) for condition in premises)
    return {True: StepState.TRUE, False: StepState.CHANGED, None: StepState.UNKNOWN}[answer]


def is_condition_met(condition: Condition, cluster: Answers, bookie: str | None = None) -> bool | None:
    """Return whether a condition that is not about single ledgers is met; None if unknown.

    ``bookie`` is the bookie of the step; a finding in the condition is about it.
    """
    condition_subject, value = condition.of, condition.value
    if condition.fact in (Fact.REGISTERED, Fact.COOKIE):
        values = cluster.mode_by_bookie if condition.fact is Fact.REGISTERED else cluster.digest_by_bookie
        if condition_subject in values:
            return value == "yes" or values[condition_subject] == value
        is_known = cluster.are_bookies_listed and condition_subject not in cluster.unclear_bookies
        return value in ("no", "none") if is_known else None
    if condition.fact is Fact.NAMED:
        return (
            None
            if cluster.named_bookies is None
            else (condition_subject in cluster.named_bookies) == (value == "yes")
        )
    if condition.fact is Fact.FINDING:
        return _is_finding_met(condition_subject, value, cluster, bookie)
    answer = cluster.replication_state if condition.fact is Fact.REPLICATION else cluster.auditor_state
    return None if answer is None else answer == value


def _is_finding_met(condition_subject: str, value: str, cluster: Answers, bookie: str | None) -> bool | None:
    """Return whether a finding is in the state ``value`` ("there" or "gone"); None if unknown.

    It is unknown if the newer run did not look for the finding again.
    """
    id, fingerprint, *named_bookies = condition_subject.split(" ", 2)
    bookie = named_bookies[0] if named_bookies else bookie
    if cluster.fingerprints is None:
        return None
    if fingerprint in cluster.fingerprints:
        return value == "there"
    return value == "gone" if id not in cluster.blind_checks and bookie in cluster.read_bookies else None


def is_met_for_ledger(condition: Condition, ledger: PlannedLedger, cluster: Answers) -> bool | None:
    """Return whether a condition is met for a ledger; None if unknown.

    The ensembles of a deleted ledger count as empty.
    """
    id, ledger_answers, is_expected = int(ledger.ledger_id), cluster.ledgers, condition.value == "yes"
    row = ledger_answers.rows.get(id)
    if row is None and id in ledger_answers.unseen_ids:
        return None
    match condition.fact:
        case Fact.LISTED:
            return (row is not None) == is_expected
        case Fact.VERSION:
            return row is not None and (row.version, row.state) == (ledger.version, ledger.state)
        case Fact.NAMES:
            if row is not None and row.state is None:
                return None
            return (row is not None and condition.of in row.members) == is_expected
        case Fact.QUEUED:
            is_member = row is not None and condition.of in row.members
            is_marked = None if ledger_answers.marked_ids is None else id in ledger_answers.marked_ids
            return is_expected if not is_member else (None if is_marked is None else is_marked == is_expected)
    ids_by_fact = {
        Fact.MARKED: ledger_answers.marked_ids,
        Fact.LOCKED: ledger_answers.locked_ids,
        Fact.UNOWNED: ledger_answers.unowned_ids,
    }
    ids = ids_by_fact[condition.fact]
    return None if ids is None else (id in ids) == is_expected


def _all_true(truth_values: Iterable[bool | None]) -> bool | None:
    distinct_truth_values = set(truth_values)
    if False in distinct_truth_values:
        return False
    return None if None in distinct_truth_values else True
