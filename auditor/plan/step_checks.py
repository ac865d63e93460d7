"""Check of a plan using a newer run or a store. The result is the state of each step (`StepState`).

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
from auditor.plan.answers import ClusterState
from auditor.plan.permissions import (
    FUTURE_REASON,
    StepPermission,
    ask_gate,
    forbid_last_holder_stops,
    permission_without_run,
)
from auditor.reports.plan import condition_text

_MAX_IDS_SHOWN = 5
_AUDIT_TEXT_BY_FACT = {
    Fact.IN_ANY_LEDGER: "an audit of the metadata",
    Fact.FINDING: "an audit with the bookie's directories",
    Fact.UNOWNED: "an audit with owner stores that are proved complete",
}
"""Facts that a store does not show, each with the kind of audit that shows it."""


def planned_ledger_ids(plan: RepairPlan) -> frozenset[int]:
    """Return the ids of all ledgers of the plan's steps."""
    return frozenset(int(ledger.ledger_id) for step in plan.steps for ledger in step.ledgers)


def check_plan(plan: RepairPlan, cluster_state: ClusterState, time_ms: int | None = None) -> PlanCheck:
    """Check every condition of a plan using the present state of the cluster.

    Args:
        plan: The plan.
        cluster_state: The state of the cluster.
        time_ms: The current time, ms. None means the time of ``cluster_state``.

    Raises:
        UsageError: ``cluster_state`` is the state of another cluster.
    """
    if (
        None not in (plan.instance_id, cluster_state.instance_id)
        and plan.instance_id != cluster_state.instance_id
    ):
        raise UsageError(
            f"{cluster_state.source_text}: belongs to cluster instance {cluster_state.instance_id}, but "
            f"the plan is for {plan.instance_id}"
        )
    time = cluster_state.time if time_ms is None else max(time_ms, cluster_state.time)
    if cluster_state.run is not None:
        cluster_state.run.holds.now_ms = cluster_state.time if time_ms is None else time_ms
    is_from_future = (
        time_ms is not None and max(plan.scan_time, cluster_state.time) - time_ms > MAX_CLOCK_AHEAD_MS
    )
    steps = tuple(_check_step(step, cluster_state, time, is_from_future) for step in plan.steps)
    if cluster_state.list_joint_holders is not None:
        steps_and_checks = zip(plan.steps, steps, strict=True)
        steps = forbid_last_holder_stops(
            steps_and_checks, cluster_state.mode_by_bookie, cluster_state.list_joint_holders
        )
    return PlanCheck(cluster_state.source_text, cluster_state.time, plan.expires, time > plan.expires, steps)


def _check_step(step: PlanStep, cluster_state: ClusterState, time: int, is_from_future: bool) -> StepCheck:
    step_permission = (
        permission_without_run(step) if cluster_state.run is None else ask_gate(step, cluster_state.run)
    )
    if is_from_future:
        step_permission = replace(
            step_permission, unknown_reasons=(*step_permission.unknown_reasons, FUTURE_REASON)
        )
    ledger_states = {
        ledger.ledger_id: _ledger_state(step, ledger, cluster_state, step_permission)
        for ledger in step.ledgers
    }
    state_counts = Counter(ledger_states.values())
    required_conditions = [condition for condition in step.requires if condition.fact not in LEDGER_FACTS]
    done_conditions = [condition for condition in step.done_when if condition.fact not in LEDGER_FACTS]
    has_ledger_conditions = len(done_conditions) < len(step.done_when)
    is_done = _all_true(
        is_condition_met(condition, cluster_state, step.bookie_id) for condition in done_conditions
    )
    if has_ledger_conditions:
        is_done = is_done and (state_counts[StepState.DONE] == len(ledger_states))
    reasons: list[str] = []
    if is_done and len(ledger_states) < step.ledger_count and has_ledger_conditions:
        state = StepState.UNKNOWN
        reasons.append(
            f"the plan lists {len(ledger_states):,} of {step.ledger_count:,} ledgers, and these are done; "
            "plan again"
        )
    elif is_done:
        state = StepState.DONE
    else:
        state, reasons = _state_of_unfinished_step(
            step, required_conditions, ledger_states, cluster_state, step_permission, time
        )
    return StepCheck(
        step.number, step.kind, step.about, state, tuple(reasons),
        *(
            state_counts[kind]
            for kind in (StepState.DONE, StepState.STILL_VALID, StepState.CHANGED, StepState.UNKNOWN)
        ),
    )  # fmt: skip


def _state_of_unfinished_step(
    step: PlanStep,
    required_conditions: Iterable[Condition],
    ledger_states: dict[str, StepState],
    cluster_state: ClusterState,
    step_permission: StepPermission,
    time: int,
) -> tuple[StepState, list[str]]:
    """Return the state of a step that is not done, and the reasons why its conditions are not met.

    The list of reasons is empty if all conditions are met.
    """
    truth_by_condition = {
        condition: is_condition_met(condition, cluster_state, step.bookie_id)
        for condition in required_conditions
    }
    false_condition_texts = [
        f"not true: {condition_text(condition)}"
        for condition, is_true in truth_by_condition.items()
        if is_true is False
    ]
    unknown_condition_texts = [
        f"unknown: {condition_text(condition)}"
        for condition, is_true in truth_by_condition.items()
        if is_true is None
    ]
    false_condition_texts += [
        f"not allowed because of a hold: {reason_sentence}"
        for reason_sentence in step_permission.forbidden_reasons
    ]
    unknown_condition_texts += [
        f"not permitted: {reason_sentence}" for reason_sentence in step_permission.unknown_reasons
    ]
    for state, reasons, state_text in (
        (StepState.CHANGED, false_condition_texts, "changed"),
        (StepState.UNKNOWN, unknown_condition_texts, "not known"),
    ):  # fmt: skip
        if ledger_ids := [
            ledger_id for ledger_id, ledger_state in ledger_states.items() if ledger_state is state
        ]:
            reasons.append(f"{state_text}: ledgers {first_names(ledger_ids, _MAX_IDS_SHOWN)}")
    if unknown_condition_texts and cluster_state.finding_fingerprints is None:
        required_facts = {condition.fact for condition in step.requires}
        for required_fact, audit_text in _AUDIT_TEXT_BY_FACT.items():
            if required_fact in required_facts:
                unknown_condition_texts.append(
                    f"a store cannot show this, but {audit_text} can; use plan check --run"
                )
    if step.kind is ActionKind.WAIT and cluster_state.time > step.expires:
        false_condition_texts.append("AutoRecovery should have copied the ledgers by now")
    elif time > step.expires:
        unknown_condition_texts.append("the step has expired; plan again")
    if false_condition_texts:
        return StepState.CHANGED, false_condition_texts
    return (
        (StepState.UNKNOWN, unknown_condition_texts)
        if unknown_condition_texts
        else (StepState.STILL_VALID, [])
    )


def _ledger_state(
    step: PlanStep, ledger: PlannedLedger, cluster_state: ClusterState, step_permission: StepPermission
) -> StepState:
    done_conditions = [condition for condition in step.done_when if condition.fact in LEDGER_FACTS]
    if done_conditions and _all_true(
        is_met_for_ledger(condition, ledger, cluster_state) for condition in done_conditions
    ):
        return StepState.DONE
    if ledger.ledger_id in step_permission.held_ledgers:
        return StepState.CHANGED
    required_conditions = [condition for condition in step.requires if condition.fact in LEDGER_FACTS]
    is_true = _all_true(
        is_met_for_ledger(condition, ledger, cluster_state) for condition in required_conditions
    )
    return {True: StepState.STILL_VALID, False: StepState.CHANGED, None: StepState.UNKNOWN}[is_true]


def is_condition_met(
    condition: Condition, cluster_state: ClusterState, bookie: str | None = None
) -> bool | None:
    """Return whether a condition that does not concern single ledgers is met. None: this is unknown.

    ``bookie`` is the bookie of the step. If the condition names a finding, the finding is about this
    bookie.
    """
    condition_subject, expected_value = condition.of, condition.value
    if condition.fact in (Fact.REGISTERED, Fact.COOKIE):
        bookie_values = (
            cluster_state.mode_by_bookie
            if condition.fact is Fact.REGISTERED
            else cluster_state.cookie_digests
        )
        if condition_subject in bookie_values:
            return expected_value == "yes" or bookie_values[condition_subject] == expected_value
        is_known = cluster_state.are_bookies_listed and condition_subject not in cluster_state.unread_bookies
        return expected_value in ("no", "none") if is_known else None
    if condition.fact is Fact.IN_ANY_LEDGER:
        return (
            None
            if cluster_state.ensemble_bookies is None
            else (condition_subject in cluster_state.ensemble_bookies) == (expected_value == "yes")
        )
    if condition.fact is Fact.FINDING:
        return _is_finding_met(condition_subject, expected_value, cluster_state, bookie)
    is_true = (
        cluster_state.replication_state if condition.fact is Fact.REPLICATION else cluster_state.auditor_state
    )
    return None if is_true is None else is_true == expected_value


def _is_finding_met(
    condition_subject: str, expected_value: str, cluster_state: ClusterState, bookie: str | None
) -> bool | None:
    """Return whether a finding is in the state ``expected_value`` ("there" or "gone"); None if unknown.

    The state is unknown if the newer run, which shows the cluster's state, did not look for the finding.
    """
    check_id, fingerprint, *ensemble_bookies = condition_subject.split(" ", 2)
    bookie = ensemble_bookies[0] if ensemble_bookies else bookie
    if cluster_state.finding_fingerprints is None:
        return None
    if fingerprint in cluster_state.finding_fingerprints:
        return expected_value == "there"
    return (
        expected_value == "gone"
        if check_id not in cluster_state.checks_without_input and bookie in cluster_state.read_bookies
        else None
    )


def is_met_for_ledger(
    condition: Condition, ledger: PlannedLedger, cluster_state: ClusterState
) -> bool | None:
    """Return whether a condition is met for a ledger. None: this is unknown.

    If the ledger is deleted, conditions on its ensembles treat them as empty.
    """
    ledger_id, ledger_answers, is_fact_expected = (
        int(ledger.ledger_id),
        cluster_state.ledgers,
        condition.value == "yes",
    )
    row = ledger_answers.rows.get(ledger_id)
    if row is None and ledger_id in ledger_answers.unread_ids:
        return None
    match condition.fact:
        case Fact.LISTED:
            return (row is not None) == is_fact_expected
        case Fact.VERSION:
            return row is not None and (row.version, row.state) == (ledger.version, ledger.state)
        case Fact.IN_ENSEMBLE:
            if row is not None and row.state is None:
                return None
            return (row is not None and condition.of in row.members) == is_fact_expected
        case Fact.MARKED_OR_DONE:
            is_member = row is not None and condition.of in row.members
            is_marked = None if ledger_answers.marked_ids is None else ledger_id in ledger_answers.marked_ids
            return (
                is_fact_expected
                if not is_member
                else (None if is_marked is None else is_marked == is_fact_expected)
            )
    ledger_ids_by_fact = {
        Fact.MARKED: ledger_answers.marked_ids,
        Fact.LOCKED: ledger_answers.locked_ids,
        Fact.UNOWNED: ledger_answers.unowned_ids,
    }
    ledger_ids = ledger_ids_by_fact[condition.fact]
    return None if ledger_ids is None else (ledger_id in ledger_ids) == is_fact_expected


def _all_true(truth_values: Iterable[bool | None]) -> bool | None:
    distinct_truth_values = set(truth_values)
    if False in distinct_truth_values:
        return False
    return None if None in distinct_truth_values else True
