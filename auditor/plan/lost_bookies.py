"""Steps for the copies on lost (unregistered) bookies: one step for all of them if that is safe."""

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
from auditor.plan.parts import LedgerRow, ledgers_naming, ledgers_of, make_step, permit_each_ledger, refuse
from auditor.plan.replication_steps import (
    AUTORECOVERY_RUNS,
    REFUSAL_TEXTS,
    LackingCopies,
    copy_each_ledger,
    copy_steps,
    refusal_of_copy,
    sort_findings,
    wait_step,
)
from auditor.plan.situation import MAX_LEDGERS, FindingGroups, Situation
from auditor.reports.decommission import CAUSE_TEXTS
from auditor.simulate.windows import Longs

Steps = Iterator[PlanStep | RefusedStep]

_NAMES_SHOWN = 5
_REASONS = {
    Cause.ONLY_COPY: RefusalReason.NO_COPY,
    Cause.UNREADABLE: RefusalReason.NO_COPY,
    Cause.NO_SPARE: RefusalReason.NO_SPARE,
    Cause.NO_ADMISSIBLE: RefusalReason.NO_SPARE,
    Cause.NO_COVERAGE: RefusalReason.LIVE_WRITER,
}
_START_REMEDY = "start the bookie again, or find its disks; nothing else has these entries"
_WAYS_OUT = {
    Cause.ONLY_COPY: _START_REMEDY,
    Cause.UNREADABLE: _START_REMEDY,
    Cause.NO_SPARE: "add a bookie, or let a read-only one write again",
    Cause.NO_ADMISSIBLE: "add a bookie in another rack, or loosen the placement policy",
    Cause.NO_COVERAGE: "start the bookie again, and let the writer close them",
    Cause.NO_AUDITOR: "start AutoRecovery on a bookie",
    Cause.IDLE_WORKERS: "start replication workers, or find out why they stopped",
}
"""What to do about each cause that blocks the copying, while the bookies are down."""
_CLUSTER_WIDE_REMEDIES = (Cause.NO_AUDITOR, Cause.IDLE_WORKERS)
"""Causes with a remedy that makes AutoRecovery copy all marked ledgers of the cluster."""
_REMEDY_WITHOUT_START = {
    Cause.ONLY_COPY: "keep the bookie's disks; nothing else has these entries",
    Cause.UNREADABLE: "keep the bookie's disks; nothing else has these entries",
    Cause.NO_COVERAGE: "repair the fault that prevents its start, and let the writer close them",
}
"""Causes that end when the bookies start, each with the action to take if a hold forbids the start."""


def replication_steps(situation: Situation) -> Steps:
    """Yield all steps that restore copies; one step has all ledgers explained by lost bookies."""
    lacking_copies = sort_findings(situation)
    yield from _lost_bookie_steps(situation, lacking_copies)
    yield from copy_steps(situation, lacking_copies)


def _lost_bookie_steps(situation: Situation, lacking_copies: LackingCopies) -> Steps:
    """Yield steps for the ledgers of lost bookies, except bookies that another step starts."""
    groups = _without_starting_bookies(situation, situation.by_bookie("on-unregistered-bookie"))
    unmarked_groups = _without_starting_bookies(situation, situation.by_bookie("mark-missing"))
    if not groups:
        return
    causes = {blocker.cause for blocker in situation.auto_recovery.blockers}
    lost_ids = sorted({*groups, *unmarked_groups})
    plan_findings = tuple(
        finding for bookie in lost_ids for finding in _bookie_findings(bookie, groups, unmarked_groups)
    )
    title = f"copy the ledgers of {first_names(lost_ids, _NAMES_SHOWN)}"
    if Cause.REPLICATION_OFF in causes:
        problem_text = CAUSE_TEXTS[Cause.REPLICATION_OFF][0]
        way_out = "find out who switched AutoRecovery off, and why"
        if (refusal := _find_cluster_refusal(situation)) is None:
            way_out += ", then switch it on again, and plan again"
        else:
            way_out += f"; leave it off, because it would copy every marked ledger: {refusal.sentence}"
        yield refuse(
            ActionKind.RECOVER, RefusalReason.SWITCHED_OFF, title, problem_text, way_out, plan_findings
        )
    elif causes:
        yield from _recover_all(
            situation, lost_ids, plan_findings, causes, _highest_urgency(groups, unmarked_groups)
        )
    elif situation.auto_recovery.doubts:
        problem_text = "marks of under-replication were not read: the state of AutoRecovery is unknown"
        yield refuse(
            ActionKind.RECOVER, RefusalReason.UNKNOWN_INPUT, title, problem_text, "audit again", plan_findings
        )
    else:
        if sure_groups := {bookie: group for bookie, group in unmarked_groups.items() if group.sure}:
            yield from _mark_ledgers_again(situation, sure_groups)
        for bookie, group in unmarked_groups.items():
            if not group.sure:
                why, way_out = REFUSAL_TEXTS[RefusalReason.UNSURE]
                title = f"mark the ledgers of {bookie}"
                yield refuse(ActionKind.RECOVER, RefusalReason.UNSURE, title, why, way_out, group.named())
        marks_by_bookie = situation.marks_of([bookie for bookie in lost_ids if bookie not in unmarked_groups])
        for bookie, (count, ledgers) in marks_by_bookie.items():
            waiting_groups = lacking_copies.waiting.pop(bookie, FindingGroups())
            ledgers = list(dict.fromkeys([*waiting_groups.ledgers, *ledgers]))[:MAX_LEDGERS]
            findings = (*_bookie_findings(bookie, groups, unmarked_groups), *waiting_groups.named())
            yield from wait_step(
                situation, bookie, findings, waiting_groups, ledgers, max(count, len(ledgers))
            )


def _without_starting_bookies(
    situation: Situation, groups: Mapping[str, FindingGroups]
) -> dict[str, FindingGroups]:
    return {bookie: group for bookie, group in groups.items() if bookie not in situation.starting}


def _bookie_findings(bookie: str, *groups: Mapping[str, FindingGroups]) -> tuple[PlanFinding, ...]:
    return tuple(finding for group in groups if bookie in group for finding in group[bookie].named())


def _highest_urgency(*groups: Mapping[str, FindingGroups]) -> Urgency:
    urgencies = [group.urgency for by_bookie in groups for group in by_bookie.values()]
    return min(urgencies, key=lambda urgency: urgency.rank, default=Urgency.REST)


def _held_ledgers(situation: Situation, lost_ids: Sequence[str]) -> list[int]:
    """Return the first ledgers of these bookies on which a hold forbids copying."""
    hold_keys = (hold.key for hold in situation.run.holds.on_ledgers(ActionKind.RECOVER))
    held_ids: list[int] = []
    while batch_ids := list(
        islice((int(hold_key[2:]) for hold_key in hold_keys if hold_key.startswith("0/")), MAX_LEDGERS)
    ):
        rows = ledgers_of(situation.run, set(batch_ids))
        held_ids += [id for id, row in rows.items() if row.members & {*lost_ids}]
        if len(held_ids) >= MAX_LEDGERS:
            break
    return sorted(set(held_ids))[:MAX_LEDGERS]


def _copy_each_ledger(
    situation: Situation,
    lost_ids: Sequence[str],
    findings: tuple[PlanFinding, ...],
    urgency: Urgency,
    held_ids: Sequence[int],
    excluded_ids: Longs,
) -> Steps:
    """Yield refusals for ledgers on hold, and steps that copy the others one by one.

    One command for all ledgers of a bookie would copy the ledgers on hold too.
    """
    title = f"copy {{}} off {first_names(lost_ids, _NAMES_SHOWN)}"
    _, refused_steps = permit_each_ledger(
        situation.run, ActionKind.RECOVER, title, findings, lost_ids, held_ids
    )
    yield from refused_steps
    skipped_ids = np.concatenate([excluded_ids, np.array(held_ids, np.int64)])
    for bookie in lost_ids:
        rows = list(ledgers_naming(situation.run, [bookie], MAX_LEDGERS, excluded_ids=skipped_ids))
        copyable_rows = [row for row in rows if refusal_of_copy(situation, bookie, row) is None]
        yield from copy_each_ledger(situation, bookie, findings, copyable_rows, urgency)
        skipped_ids = np.concatenate([skipped_ids, np.array([row.ledger_id for row in rows], np.int64)])


def _mark_ledgers_again(situation: Situation, unmarked_groups: Mapping[str, FindingGroups]) -> Steps:
    bookies = sorted(unmarked_groups)
    findings = [finding for bookie in bookies for finding in unmarked_groups[bookie].named()]
    urgency = _highest_urgency(unmarked_groups)
    held_ids = _held_ledgers(situation, bookies)
    # The auditor marks the ledgers of every bookie that is lost, of others than these too.
    if held_ids or _find_cluster_refusal(situation) is not None:
        yield from _copy_each_ledger(
            situation, bookies, tuple(findings), urgency, held_ids, situation.marks.ids
        )
        return
    rows = list(
        ledgers_naming(
            situation.run, bookies, MAX_LEDGERS, only_closed=False, excluded_ids=situation.marks.ids
        )
    )
    ids = [row.ledger_id for row in rows]
    count = sum(unmarked_groups[bookie]["mark-missing"].evidence["unmarked"] for bookie in bookies)
    names = first_names(bookies, _NAMES_SHOWN)
    title = f"mark {{}} of {names} that the auditor did not mark"
    allowed, refused_steps = permit_each_ledger(
        situation.run, ActionKind.RECOVER, title, findings, bookies, ids
    )
    yield from refused_steps
    if allowed is None or refused_steps:
        return
    yield make_step(
        allowed, title.format(plural(count, "ledger")), findings, procedures.MARK_LEDGERS.filled(allowed, {}),
        urgency=urgency,
        effect="the auditor marks every ledger of every bookie that is not registered, and workers copy them",
        risk="writes; copying loads the bookies", undo=f"{procedures.REPLICATION_STOPS}; marks stay",
        needs=[f"{names} will not be back soon{_start_alternative(situation, bookies)}"],
        ledgers=[row.planned() for row in rows], ledger_count=_count_ledgers(rows, count),
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[*AUTORECOVERY_RUNS, *(Condition(Fact.REGISTERED, bookie, "no") for bookie in bookies)],
        done_when=[Condition(Fact.QUEUED, bookie, "yes") for bookie in bookies],
    )  # fmt: skip


def _recover_all(
    situation: Situation,
    lost_ids: Sequence[str],
    findings: tuple[PlanFinding, ...],
    causes: set[Cause],
    urgency: Urgency,
) -> Steps:
    """Yield the step that copies all ledgers of lost bookies without AutoRecovery.

    A rehearsal of their decommission finds the ledgers that cannot be copied.
    """
    rehearsal, trial_sums = rehearse_by_ledger(situation.run, lost_ids)
    blocked_ids = trial_sums.blocked_ids_of_store()
    trial = rehearsal.together
    names = first_names(lost_ids, _NAMES_SHOWN)
    for blocker in trial.blockers:
        if blocker.cause in LEDGER_CAUSES:
            yield _refuse_blocked(situation, lost_ids, blocker, findings)
    if trial.work.open_ends:
        yield refuse(
            ActionKind.RECOVER, RefusalReason.LIVE_WRITER,
            f"copy {plural(trial.work.open_ends, 'ledger')} from {names} that are not closed",
            "recover closes these ledgers while their writers use them; -sk skips open ledgers, but not "
            "those in recovery",
            "let their applications close them, and plan again", findings, (), trial.work.open_ends,
        )  # fmt: skip
    if not trial.work.ledgers - trial.work.open_ends:
        return
    # One command copies all ledgers of a bookie, those too that must not be copied.
    if (held_ids := _held_ledgers(situation, lost_ids)) or _has_no_digest(situation, lost_ids, blocked_ids):
        yield from _copy_each_ledger(situation, lost_ids, findings, urgency, held_ids, blocked_ids)
        return
    rows = list(ledgers_naming(situation.run, lost_ids, MAX_LEDGERS, excluded_ids=blocked_ids))
    title = f"copy the ledgers of {names} to other bookies, without AutoRecovery"
    ids = [row.ledger_id for row in rows]
    allowed, refused_steps = permit_each_ledger(
        situation.run, ActionKind.RECOVER, title, findings, lost_ids, ids
    )
    yield from refused_steps
    if allowed is None or refused_steps:
        return
    why = "; ".join(CAUSE_TEXTS[cause][0] for cause in sorted(causes))
    yield make_step(
        allowed, title, findings, procedures.COPY_ALL_LEDGERS.filled(allowed, {"BOOKIE": ",".join(lost_ids)}),
        urgency=urgency, bookie_id=lost_ids[0] if len(lost_ids) == 1 else None,
        effect=f"no closed ledger with copies elsewhere names {names} any more. AutoRecovery: {why}",
        bytes=trial.work.copied_bytes,
        risk="danger; the command takes no lock, closes ledgers in recovery, and copies "
        "at full speed without -rate",
        undo="none is needed: only entries with another copy are deleted",
        needs=[
            f"{names} will not be back with its disks{_start_alternative(situation, lost_ids)}",
            *(
                f"preferably: {_find_way_out(situation, lost_ids, cause)}"
                for cause in sorted(causes)
                if cause in _WAYS_OUT
            ),
        ],
        ledgers=[row.planned() for row in rows], ledger_count=_count_ledgers(rows, trial.work.ledgers),
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.REGISTERED, bookie, "no") for bookie in lost_ids],
        done_when=[Condition(Fact.NAMES, bookie, "no") for bookie in lost_ids],
    )  # fmt: skip


def _find_start_refusal(situation: Situation, lost_ids: Sequence[str]) -> Refused | None:
    """Return why one of these bookies must not be started; None if all may be started."""
    answers = (permit(situation.run, ActionKind.START, [bookie_object(bookie)]) for bookie in lost_ids)
    return next((answer for answer in answers if isinstance(answer, Refused)), None)


def _find_cluster_refusal(situation: Situation) -> Refused | None:
    """Return why AutoRecovery must not copy all marked ledgers; None if it may."""
    answer = permit_everywhere(situation.run, ActionKind.RECOVER)
    return answer if isinstance(answer, Refused) else None


def _start_alternative(situation: Situation, lost_ids: Sequence[str]) -> str:
    """Return the end of the condition that bookies will not come back: what to do if they will."""
    if (refusal := _find_start_refusal(situation, lost_ids)) is None:
        return ": otherwise start it, and copy nothing"
    return f"; do not start it as it is: {refusal.sentence}"


def _find_way_out(situation: Situation, lost_ids: Sequence[str], cause: Cause) -> str:
    """Return what to do about a cause; the text suggests only permitted actions."""
    if cause in _REMEDY_WITHOUT_START and (refusal := _find_start_refusal(situation, lost_ids)) is not None:
        return f"{_REMEDY_WITHOUT_START[cause]}; do not start it as it is: {refusal.sentence}"
    if cause in _CLUSTER_WIDE_REMEDIES and (refusal := _find_cluster_refusal(situation)) is not None:
        return f"do not turn AutoRecovery on: it would copy every marked ledger: {refusal.sentence}"
    return _WAYS_OUT[cause]


def _has_no_digest(situation: Situation, lost_ids: Sequence[str], blocked_ids: Longs) -> bool:
    """Return whether one of the first ledgers on ``lost_ids`` bookies has neither digest type nor password.

    Ledgers in ``blocked_ids`` do not count.
    """
    rows = ledgers_naming(situation.run, lost_ids, MAX_LEDGERS, excluded_ids=blocked_ids)
    return any(row.digest_type is None for row in rows)


def _count_ledgers(listed_rows: Sequence[LedgerRow], count: int) -> int:
    """Return the number of ``listed_rows`` if they are complete; else at least ``count``."""
    return len(listed_rows) if len(listed_rows) < MAX_LEDGERS else max(len(listed_rows), count)


def _refuse_blocked(
    situation: Situation, lost_ids: Sequence[str], blocker: Blocker, findings: tuple[PlanFinding, ...]
) -> RefusedStep:
    names = first_names(lost_ids, _NAMES_SHOWN)
    return refuse(
        ActionKind.RECOVER, _REASONS[blocker.cause], f"copy {plural(blocker.ledgers, 'ledger')} off {names}",
        CAUSE_TEXTS[blocker.cause][0], _find_way_out(situation, lost_ids, blocker.cause), findings,
        [int(sample.ledger_id) for sample in blocker.samples], blocker.ledgers,
    )  # fmt: skip
