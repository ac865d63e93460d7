"""Steps that restore the copies on lost (unregistered) bookies: one step for all bookies if that is safe."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from auditor.actions import procedures
from auditor.actions.gate import permit, permit_everywhere
from auditor.actions.objects import bookie as bookie_object
from auditor.decommission.rehearse import rehearse_by_ledger
from auditor.model.amounts import first_names, plural
from auditor.model.decommission import LEDGER_CAUSES, Blocker, Cause
from auditor.model.finding import Urgency
from auditor.model.holds import ActionKind
from auditor.model.permission import Refused
from auditor.model.plan import EXPIRY_MS, Condition, Fact, PlanFinding, PlanStep, RefusalReason, RefusedStep
from auditor.plan.copy_refusals import REFUSAL_TEXTS, find_copy_refusal
from auditor.plan.parts import (
    LedgerRow,
    make_step,
    permit_each_ledger,
    read_ledgers,
    read_ledgers_of_bookies,
    refuse,
)
from auditor.plan.plan_facts import MAX_LEDGERS, PlanFacts, StepFindings
from auditor.plan.replication_steps import (
    AUTORECOVERY_CONDITIONS,
    FindingsByAction,
    copy_each_ledger,
    copy_steps,
    sort_findings,
    wait_step,
)
from auditor.reports.decommission import CAUSE_TEXTS
from auditor.simulate.windows import Longs

Steps = Iterator[PlanStep | RefusedStep]

_MAX_NAMES_SHOWN = 5
_REASON_BY_CAUSE = {
    Cause.ONLY_COPY: RefusalReason.NO_COPY,
    Cause.UNREADABLE_ENTRY: RefusalReason.NO_COPY,
    Cause.NO_SPARE_BOOKIE: RefusalReason.NO_SPARE,
    Cause.NO_ALLOWED_SPARE: RefusalReason.NO_SPARE,
    Cause.NO_QUORUM_COVERAGE: RefusalReason.LIVE_WRITER,
}
_START_REMEDY_TEXT = "start the bookie, or find its disks; some entries exist nowhere else"
_WAY_OUT_BY_CAUSE = {
    Cause.ONLY_COPY: _START_REMEDY_TEXT,
    Cause.UNREADABLE_ENTRY: _START_REMEDY_TEXT,
    Cause.NO_SPARE_BOOKIE: "add a bookie, or make a read-only bookie writable again",
    Cause.NO_ALLOWED_SPARE: "add a bookie in another rack, or relax the placement policy",
    Cause.NO_QUORUM_COVERAGE: "start the bookie, and let the writers close the ledgers",
    Cause.NO_AUDITOR: "start AutoRecovery on a bookie",
    Cause.IDLE_WORKERS: "start replication workers, or find out why they stopped",
}
"""Advice for each cause for which ledgers of lost bookies cannot be copied."""
_CAUSES_WITH_CLUSTER_WIDE_REMEDY = (Cause.NO_AUDITOR, Cause.IDLE_WORKERS)
"""Causes with a remedy that makes AutoRecovery copy all marked ledgers of the cluster."""
_REMEDY_BY_CAUSE_WITHOUT_START = {
    Cause.ONLY_COPY: "keep the bookie's disks; some entries exist nowhere else",
    Cause.UNREADABLE_ENTRY: "keep the bookie's disks; some entries exist nowhere else",
    Cause.NO_QUORUM_COVERAGE: (
        "fix the fault that prevents the bookie's start, and let the writers close the ledgers"
    ),
}
"""Advice if a hold forbids the start of the bookies, for each cause that a start would end."""


def replication_steps(plan_facts: PlanFacts) -> Steps:
    """Yield all steps that restore copies: first for the ledgers of lost bookies, then for other ledgers."""
    sorted_findings = sort_findings(plan_facts)
    yield from _lost_bookie_steps(plan_facts, sorted_findings)
    yield from copy_steps(plan_facts, sorted_findings)


def _lost_bookie_steps(plan_facts: PlanFacts, sorted_findings: FindingsByAction) -> Steps:
    """Yield steps for the ledgers of lost bookies. Bookies that another step starts are left out."""
    groups = _drop_starting_bookies(plan_facts, plan_facts.group_by_bookie("on-unregistered-bookie"))
    unmarked_groups = _drop_starting_bookies(plan_facts, plan_facts.group_by_bookie("mark-missing"))
    if not groups:
        return
    blocking_causes = {blocker.cause for blocker in plan_facts.autorecovery_state.blockers}
    lost_bookies = sorted({*groups, *unmarked_groups})
    plan_findings = tuple(
        finding for bookie in lost_bookies for finding in _bookie_findings(bookie, groups, unmarked_groups)
    )
    title = f"copy the ledgers of {first_names(lost_bookies, _MAX_NAMES_SHOWN)}"
    if Cause.REPLICATION_OFF in blocking_causes:
        problem_text = CAUSE_TEXTS[Cause.REPLICATION_OFF][0]
        way_out = "find out who disabled AutoRecovery, and why"
        if (refusal := _find_cluster_refusal(plan_facts)) is None:
            way_out += ", then enable it and plan again"
        else:
            way_out += f"; leave it disabled, because it would copy every marked ledger: {refusal.sentence}"
        yield refuse(
            ActionKind.RECOVER, RefusalReason.REPLICATION_OFF, title, problem_text, way_out, plan_findings
        )
    elif blocking_causes:
        yield from _recover_all_ledgers(
            plan_facts,
            lost_bookies,
            plan_findings,
            blocking_causes,
            _highest_urgency(groups, unmarked_groups),
        )
    elif plan_facts.autorecovery_state.doubts:
        problem_text = "under-replication marks were not read, so the state of AutoRecovery is unknown"
        yield refuse(
            ActionKind.RECOVER, RefusalReason.UNKNOWN_INPUT, title, problem_text, "audit again", plan_findings
        )
    else:
        yield from _mark_unmarked_ledgers(plan_facts, unmarked_groups)
        marks_by_bookie = plan_facts.count_marks_by_bookie(
            [bookie for bookie in lost_bookies if bookie not in unmarked_groups]
        )
        for bookie, (ledger_count, ledgers) in marks_by_bookie.items():
            waiting_groups = sorted_findings.wait_findings.pop(bookie, StepFindings())
            ledgers = list(dict.fromkeys([*waiting_groups.ledgers, *ledgers]))[:MAX_LEDGERS]
            findings = (
                *_bookie_findings(bookie, groups, unmarked_groups),
                *waiting_groups.plan_findings(),
            )
            yield from wait_step(
                plan_facts,
                bookie,
                findings,
                waiting_groups,
                ledgers,
                max(ledger_count, len(ledgers)),
            )


def _mark_unmarked_ledgers(plan_facts: PlanFacts, groups: Mapping[str, StepFindings]) -> Steps:
    """Yield the step that marks the ledgers of confirmed findings as under-replicated.

    Unconfirmed findings lead to refusals.
    """
    if confirmed_groups := {bookie: group for bookie, group in groups.items() if group.are_confirmed}:
        yield from _mark_ledgers_again(plan_facts, confirmed_groups)
    reason_text, way_out = REFUSAL_TEXTS[RefusalReason.UNPROVED]
    for bookie, group in groups.items():
        if not group.are_confirmed:
            title, findings = f"mark the ledgers of {bookie}", group.plan_findings()
            yield refuse(ActionKind.RECOVER, RefusalReason.UNPROVED, title, reason_text, way_out, findings)


def _drop_starting_bookies(
    plan_facts: PlanFacts, groups: Mapping[str, StepFindings]
) -> dict[str, StepFindings]:
    return {bookie: group for bookie, group in groups.items() if bookie not in plan_facts.starting_bookies}


def _bookie_findings(bookie: str, *groups: Mapping[str, StepFindings]) -> tuple[PlanFinding, ...]:
    return tuple(finding for group in groups if bookie in group for finding in group[bookie].plan_findings())


def _highest_urgency(*groups: Mapping[str, StepFindings]) -> Urgency:
    urgencies = [group.urgency for groups_by_bookie in groups for group in groups_by_bookie.values()]
    return min(urgencies, key=lambda urgency: urgency.rank, default=Urgency.NOT_URGENT)


def _find_held_ledgers(plan_facts: PlanFacts, lost_bookies: Sequence[str]) -> list[int]:
    """Return up to `MAX_LEDGERS` ledgers of ``lost_bookies`` that a hold (a rule) forbids to copy."""
    ledger_keys = (
        action_hold.key for action_hold in plan_facts.run.holds.iterate_ledger_holds(ActionKind.RECOVER)
    )
    held_ledger_ids: list[int] = []
    while ledger_id_batch := list(
        islice(
            (int(ledger_key[2:]) for ledger_key in ledger_keys if ledger_key.startswith("0/")), MAX_LEDGERS
        )
    ):
        rows = read_ledgers(plan_facts.run, set(ledger_id_batch))
        held_ledger_ids += [ledger_id for ledger_id, row in rows.items() if row.members & {*lost_bookies}]
        if len(held_ledger_ids) >= MAX_LEDGERS:
            break
    return sorted(set(held_ledger_ids))[:MAX_LEDGERS]


def _copy_each_ledger(
    plan_facts: PlanFacts,
    lost_bookies: Sequence[str],
    findings: tuple[PlanFinding, ...],
    urgency: Urgency,
    held_ledger_ids: Sequence[int],
    excluded_ledger_ids: Longs,
) -> Steps:
    """Yield steps that copy ledgers one by one, and refusals for ledgers that must not be copied.

    Holds (rules) forbid copying them. One command for all ledgers of a bookie would copy them too.
    """
    title = f"copy {{}} from {first_names(lost_bookies, _MAX_NAMES_SHOWN)} to other bookies"
    _, refused_steps = permit_each_ledger(
        plan_facts.run, ActionKind.RECOVER, title, findings, lost_bookies, held_ledger_ids
    )
    yield from refused_steps
    skipped_ledger_ids = np.concatenate([excluded_ledger_ids, np.array(held_ledger_ids, np.int64)])
    for bookie in lost_bookies:
        rows = list(
            read_ledgers_of_bookies(plan_facts.run, [bookie], MAX_LEDGERS, excluded_ids=skipped_ledger_ids)
        )
        copyable_rows = [row for row in rows if find_copy_refusal(plan_facts, bookie, row) is None]
        yield from copy_each_ledger(plan_facts, bookie, findings, copyable_rows, urgency)
        skipped_ledger_ids = np.concatenate(
            [skipped_ledger_ids, np.array([row.ledger_id for row in rows], np.int64)]
        )


def _mark_ledgers_again(plan_facts: PlanFacts, unmarked_groups: Mapping[str, StepFindings]) -> Steps:
    bookies = sorted(unmarked_groups)
    findings = [finding for bookie in bookies for finding in unmarked_groups[bookie].plan_findings()]
    urgency = _highest_urgency(unmarked_groups)
    held_ledger_ids = _find_held_ledgers(plan_facts, bookies)
    # The auditor marks the ledgers of every bookie that is lost, of others than these too.
    if held_ledger_ids or _find_cluster_refusal(plan_facts) is not None:
        yield from _copy_each_ledger(
            plan_facts, bookies, tuple(findings), urgency, held_ledger_ids, plan_facts.mark_times.ids
        )
        return
    rows = list(
        read_ledgers_of_bookies(
            plan_facts.run, bookies, MAX_LEDGERS, must_be_closed=False, excluded_ids=plan_facts.mark_times.ids
        )
    )
    ledger_ids = [row.ledger_id for row in rows]
    ledger_count = sum(unmarked_groups[bookie]["mark-missing"].evidence["unmarked"] for bookie in bookies)
    bookies_text = first_names(bookies, _MAX_NAMES_SHOWN)
    title = f"mark {{}} that the auditor left unmarked on {bookies_text}"
    step_permission, refused_steps = permit_each_ledger(
        plan_facts.run, ActionKind.RECOVER, title, findings, bookies, ledger_ids
    )
    yield from refused_steps
    if step_permission is None or refused_steps:
        return
    yield make_step(
        step_permission, title.format(plural(ledger_count, "ledger")), findings,
        procedures.MARK_LEDGERS.fill(step_permission, {}),
        urgency=urgency,
        effect_text="the auditor marks every ledger of every bookie that is not registered, "
        "and workers copy the ledgers",
        risk_text="writes; copying loads the bookies",
        undo_text=f"{procedures.REPLICATION_STOPS}; the marks stay",
        preconditions=[f"{bookies_text} will not be back soon{_start_alternative_text(plan_facts, bookies)}"],
        ledgers=[row.as_planned_ledger() for row in rows], ledger_count=_count_ledgers(rows, ledger_count),
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[
            *AUTORECOVERY_CONDITIONS,
            *(Condition(Fact.REGISTERED, bookie, "no") for bookie in bookies),
        ],
        done_conditions=[Condition(Fact.MARKED_OR_DONE, bookie, "yes") for bookie in bookies],
    )  # fmt: skip


def _recover_all_ledgers(
    plan_facts: PlanFacts,
    lost_bookies: Sequence[str],
    findings: tuple[PlanFinding, ...],
    blocking_causes: set[Cause],
    urgency: Urgency,
) -> Steps:
    """Yield the step that copies all ledgers of lost bookies without AutoRecovery.

    A rehearsal of the decommission of these bookies finds the ledgers that cannot be copied. Refusals name
    these ledgers.
    """
    rehearsal, trial_sums = rehearse_by_ledger(plan_facts.run, lost_bookies)
    blocked_ledger_ids = trial_sums.blocked_ids_of_store()
    work = rehearsal.together.work
    bookies_text = first_names(lost_bookies, _MAX_NAMES_SHOWN)
    for blocker in rehearsal.together.blockers:
        if blocker.cause in LEDGER_CAUSES:
            yield _refuse_blocked(plan_facts, lost_bookies, blocker, findings)
    if work.open_ends:
        yield refuse(
            ActionKind.RECOVER, RefusalReason.LIVE_WRITER,
            f"copy {plural(work.open_ends, 'unclosed ledger')} from {bookies_text}",
            "recover closes these ledgers even while writers use them; -sk skips open ledgers, but not "
            "ledgers in recovery",
            "let the applications close the ledgers, and plan again", findings, (), work.open_ends,
        )  # fmt: skip
    if not work.ledgers - work.open_ends:
        return
    # One command copies all ledgers of a bookie, those too that must not be copied.
    if (held_ledger_ids := _find_held_ledgers(plan_facts, lost_bookies)) or _has_no_digest(
        plan_facts, lost_bookies, blocked_ledger_ids
    ):
        yield from _copy_each_ledger(
            plan_facts, lost_bookies, findings, urgency, held_ledger_ids, blocked_ledger_ids
        )
        return
    rows = list(
        read_ledgers_of_bookies(plan_facts.run, lost_bookies, MAX_LEDGERS, excluded_ids=blocked_ledger_ids)
    )
    title = f"copy the ledgers of {bookies_text} to other bookies, without AutoRecovery"
    step_permission, refused_steps = permit_each_ledger(
        plan_facts.run, ActionKind.RECOVER, title, findings, lost_bookies, [row.ledger_id for row in rows]
    )
    yield from refused_steps
    if step_permission is None or refused_steps:
        return
    causes_text = "; ".join(CAUSE_TEXTS[blocking_cause][0] for blocking_cause in sorted(blocking_causes))
    yield make_step(
        step_permission, title, findings,
        procedures.COPY_ALL_LEDGERS.fill(step_permission, {"BOOKIE": ",".join(lost_bookies)}),
        urgency=urgency, bookie_id=lost_bookies[0] if len(lost_bookies) == 1 else None,
        effect_text=f"no ensemble of a closed ledger names {bookies_text} any more, if other bookies "
        f"have copies. AutoRecovery does not do this: {causes_text}",
        bytes=work.copied_bytes,
        risk_text="danger; the command takes no lock, closes ledgers in recovery, and copies "
        "at full speed without -rate",
        undo_text="no undo is needed: an entry is deleted only if it has another copy",
        preconditions=[
            f"{bookies_text} will not be back with its disks"
            f"{_start_alternative_text(plan_facts, lost_bookies)}",
            *(
                f"preferably: {_find_way_out(plan_facts, lost_bookies, blocking_cause)}"
                for blocking_cause in sorted(blocking_causes)
                if blocking_cause in _WAY_OUT_BY_CAUSE
            ),
        ],
        ledgers=[row.as_planned_ledger() for row in rows],
        ledger_count=_count_ledgers(rows, work.ledgers),
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.REGISTERED, bookie, "no") for bookie in lost_bookies],
        done_conditions=[Condition(Fact.IN_ENSEMBLE, bookie, "no") for bookie in lost_bookies],
    )  # fmt: skip


def _find_start_refusal(plan_facts: PlanFacts, lost_bookies: Sequence[str]) -> Refused | None:
    """Return why one of ``lost_bookies`` must not start, or None if all of them may start.

    If several must not start, the reason is about the first of them.
    """
    gate_answers = (
        permit(plan_facts.run, ActionKind.START, [bookie_object(bookie)]) for bookie in lost_bookies
    )
    return next((gate_answer for gate_answer in gate_answers if isinstance(gate_answer, Refused)), None)


def _find_cluster_refusal(plan_facts: PlanFacts) -> Refused | None:
    """Return why AutoRecovery must not copy all ledgers marked under-replicated, or None if it may."""
    gate_answer = permit_everywhere(plan_facts.run, ActionKind.RECOVER)
    return gate_answer if isinstance(gate_answer, Refused) else None


def _start_alternative_text(plan_facts: PlanFacts, lost_bookies: Sequence[str]) -> str:
    """Return advice for the case that a lost bookie comes back.

    The caller appends this text to the precondition that the bookies will not be back.
    """
    if (refusal := _find_start_refusal(plan_facts, lost_bookies)) is None:
        return "; otherwise, start it and copy nothing"
    return f"; do not start it in its present state: {refusal.sentence}"


def _find_way_out(plan_facts: PlanFacts, lost_bookies: Sequence[str], blocking_cause: Cause) -> str:
    """Return the advice about ``blocking_cause``. It never names an action that a hold (a rule) forbids."""
    if (
        blocking_cause in _REMEDY_BY_CAUSE_WITHOUT_START
        and (refusal := _find_start_refusal(plan_facts, lost_bookies)) is not None
    ):
        return (
            f"{_REMEDY_BY_CAUSE_WITHOUT_START[blocking_cause]}; do not start it in its present state: "
            f"{refusal.sentence}"
        )
    if (
        blocking_cause in _CAUSES_WITH_CLUSTER_WIDE_REMEDY
        and (refusal := _find_cluster_refusal(plan_facts)) is not None
    ):
        return f"do not enable AutoRecovery, because it would copy every marked ledger: {refusal.sentence}"
    return _WAY_OUT_BY_CAUSE[blocking_cause]


def _has_no_digest(plan_facts: PlanFacts, lost_bookies: Sequence[str], blocked_ledger_ids: Longs) -> bool:
    """Return whether a ledger of ``lost_bookies`` has neither a digest type nor a password.

    The function looks at the first `MAX_LEDGERS` ledgers that are not in ``blocked_ledger_ids``.
    """
    rows = read_ledgers_of_bookies(plan_facts.run, lost_bookies, MAX_LEDGERS, excluded_ids=blocked_ledger_ids)
    return any(row.digest_type is None for row in rows)


def _count_ledgers(listed_rows: Sequence[LedgerRow], ledger_count: int) -> int:
    """Return the number of ``listed_rows``. If `MAX_LEDGERS` limits it, return at least ``ledger_count``."""
    return len(listed_rows) if len(listed_rows) < MAX_LEDGERS else max(len(listed_rows), ledger_count)


def _refuse_blocked(
    plan_facts: PlanFacts, lost_bookies: Sequence[str], blocker: Blocker, findings: tuple[PlanFinding, ...]
) -> RefusedStep:
    bookies_text = first_names(lost_bookies, _MAX_NAMES_SHOWN)
    return refuse(
        ActionKind.RECOVER, _REASON_BY_CAUSE[blocker.cause],
        f"copy {plural(blocker.ledgers, 'ledger')} off {bookies_text}",
        CAUSE_TEXTS[blocker.cause][0], _find_way_out(plan_facts, lost_bookies, blocker.cause), findings,
        [int(sample_ledger.ledger_id) for sample_ledger in blocker.samples], blocker.ledgers,
    )  # fmt: skip
