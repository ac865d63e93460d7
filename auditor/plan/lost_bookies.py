"""Steps for the copies on lost (unregistered) bookies: one step for all of them if that is safe."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from auditor.actions import procedures
from auditor.actions.gate import permit, permit_everywhere
from auditor.actions.objects import bookie as bookie_object
from auditor.decommission.rehearse import rehearse_by_ledger
from auditor.model.amounts import first_names, plural
from auditor.model.decommission import OF_LEDGERS, Blocker, Cause
from auditor.model.finding import Urgency
from auditor.model.holds import ActionKind
from auditor.model.permission import Refused
from auditor.model.plan import EXPIRY_MS, Condition, Fact, PlanFinding, PlanStep, RefusalReason, RefusedStep
from auditor.plan.parts import LedgerRow, ledgers_naming, ledgers_of, make_step, permit_each_ledger, refuse
from auditor.plan.replication_steps import (
    WAYS,
    WORKING,
    LackingCopies,
    copy_each,
    copy_steps,
    fault_of,
    sort_findings,
    wait_step,
)
from auditor.plan.situation import MOST_LEDGERS, FindingGroups, Situation
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
_START_IT = "start the bookie again, or find its disks; nothing else has these entries"
_WAYS_OUT = {
    Cause.ONLY_COPY: _START_IT,
    Cause.UNREADABLE: _START_IT,
    Cause.NO_SPARE: "add a bookie, or let a read-only one write again",
    Cause.NO_ADMISSIBLE: "add a bookie in another rack, or loosen the placement policy",
    Cause.NO_COVERAGE: "start the bookie again, and let the writer close them",
    Cause.NO_AUDITOR: "start AutoRecovery on a bookie",
    Cause.IDLE_WORKERS: "start replication workers, or find out why they stopped",
}
"""What to do about each cause that blocks the copying, while the bookies are down."""
_HAS_ALL_COPIED = (Cause.NO_AUDITOR, Cause.IDLE_WORKERS)
"""Causes with a remedy that makes AutoRecovery copy all marked ledgers of the cluster."""
_NEEDS_A_START = {
    Cause.ONLY_COPY: "keep the bookie's disks; nothing else has these entries",
    Cause.UNREADABLE: "keep the bookie's disks; nothing else has these entries",
    Cause.NO_COVERAGE: "repair the fault that prevents its start, and let the writer close them",
}
"""Causes that a start of the bookies ends, with what to do instead if a hold forbids the start."""


def replication_steps(situation: Situation) -> Steps:
    """Yield all steps that restore copies; all ledgers that lost bookies explain are in one step."""
    lacking = sort_findings(situation)
    yield from _lost_bookies(situation, lacking)
    yield from copy_steps(situation, lacking)


def _lost_bookies(situation: Situation, lacking: LackingCopies) -> Steps:
    """Yield steps for the ledgers of lost bookies, except bookies that another step starts."""
    groups = _not_starting(situation, situation.by_bookie("on-unregistered-bookie"))
    forgotten = _not_starting(situation, situation.by_bookie("mark-missing"))
    if not groups:
        return
    causes = {blocker.cause for blocker in situation.queue.blockers}
    lost = sorted({*groups, *forgotten})
    plan_findings = tuple(finding for bookie in lost for finding in _findings(bookie, groups, forgotten))
    about = f"copy the ledgers of {first_names(lost, _NAMES_SHOWN)}"
    if Cause.REPLICATION_OFF in causes:
        what = CAUSE_TEXTS[Cause.REPLICATION_OFF][0]
        way = "find out who switched it off and why"
        if (refusal := _refused_everywhere(situation)) is None:
            way += ", then switch it on again, and plan again"
        else:
            way += f"; leave it off, as it copies every marked ledger: {refusal.sentence}"
        yield refuse(ActionKind.RECOVER, RefusalReason.SWITCHED_OFF, about, what, way, plan_findings)
    elif causes:
        yield from _recover_all(situation, lost, plan_findings, causes, _urgency(groups, forgotten))
    elif situation.queue.doubts:
        what = "marks of under-replication were not read: the state of AutoRecovery is unknown"
        yield refuse(
            ActionKind.RECOVER, RefusalReason.UNKNOWN_INPUT, about, what, "audit again", plan_findings
        )
    else:
        if sure := {bookie: group for bookie, group in forgotten.items() if group.sure}:
            yield from _mark_again(situation, sure)
        for bookie, group in forgotten.items():
            if not group.sure:
                why, way = WAYS[RefusalReason.UNSURE]
                about = f"mark the ledgers of {bookie}"
                yield refuse(ActionKind.RECOVER, RefusalReason.UNSURE, about, why, way, group.named())
        marked = situation.marks_of([bookie for bookie in lost if bookie not in forgotten])
        for bookie, (count, ledgers) in marked.items():
            also = lacking.waiting.pop(bookie, FindingGroups())
            ledgers = list(dict.fromkeys([*also.ledgers, *ledgers]))[:MOST_LEDGERS]
            findings = (*_findings(bookie, groups, forgotten), *also.named())
            yield from wait_step(situation, bookie, findings, also, ledgers, max(count, len(ledgers)))


def _not_starting(situation: Situation, groups: Mapping[str, FindingGroups]) -> dict[str, FindingGroups]:
    return {bookie: group for bookie, group in groups.items() if bookie not in situation.starting}


def _findings(bookie: str, *groups: Mapping[str, FindingGroups]) -> tuple[PlanFinding, ...]:
    return tuple(finding for group in groups if bookie in group for finding in group[bookie].named())


def _urgency(*groups: Mapping[str, FindingGroups]) -> Urgency:
    urgencies = [group.urgency for by_bookie in groups for group in by_bookie.values()]
    return min(urgencies, key=lambda urgency: urgency.rank, default=Urgency.REST)


def _held_ledgers(situation: Situation, lost: Sequence[str]) -> list[int]:
    """Return the first ledgers of these bookies on which a hold forbids copying."""
    keys = (hold.key for hold in situation.run.holds.on_ledgers(ActionKind.RECOVER))
    held_ids: list[int] = []
    while part := list(islice((int(key[2:]) for key in keys if key.startswith("0/")), MOST_LEDGERS)):
        rows = ledgers_of(situation.run, set(part))
        held_ids += [id for id, row in rows.items() if row.members & {*lost}]
        if len(held_ids) >= MOST_LEDGERS:
            break
    return sorted(set(held_ids))[:MOST_LEDGERS]


def _copy_the_others(
    situation: Situation,
    lost: Sequence[str],
    findings: tuple[PlanFinding, ...],
    urgency: Urgency,
    held_ids: Sequence[int],
    without: Longs,
) -> Steps:
    """Yield refusals for ledgers on hold, and steps that copy the others one by one.

    One command for all ledgers of a bookie would copy the ledgers on hold too.
    """
    about = f"copy {{}} off {first_names(lost, _NAMES_SHOWN)}"
    _, refused = permit_each_ledger(situation.run, ActionKind.RECOVER, about, findings, lost, held_ids)
    yield from refused
    left_out = np.concatenate([without, np.array(held_ids, np.int64)])
    for bookie in lost:
        rows = list(ledgers_naming(situation.run, [bookie], MOST_LEDGERS, without=left_out))
        good = [row for row in rows if fault_of(situation, bookie, row) is None]
        yield from copy_each(situation, bookie, findings, good, urgency)
        left_out = np.concatenate([left_out, np.array([row.ledger_id for row in rows], np.int64)])


def _mark_again(situation: Situation, forgotten: Mapping[str, FindingGroups]) -> Steps:
    bookies = sorted(forgotten)
    findings = [finding for bookie in bookies for finding in forgotten[bookie].named()]
    urgency = _urgency(forgotten)
    held_ids = _held_ledgers(situation, bookies)
    # The auditor marks the ledgers of every bookie that is lost, of others than these too.
    if held_ids or _refused_everywhere(situation) is not None:
        yield from _copy_the_others(
            situation, bookies, tuple(findings), urgency, held_ids, situation.marks.ids
        )
        return
    rows = list(
        ledgers_naming(situation.run, bookies, MOST_LEDGERS, closed=False, without=situation.marks.ids)
    )
    ids = [row.ledger_id for row in rows]
    count = sum(forgotten[bookie]["mark-missing"].evidence["unmarked"] for bookie in bookies)
    names = first_names(bookies, _NAMES_SHOWN)
    about = f"mark {{}} of {names}, which the auditor forgot"
    allowed, refused = permit_each_ledger(situation.run, ActionKind.RECOVER, about, findings, bookies, ids)
    yield from refused
    if allowed is None or refused:
        return
    yield make_step(
        allowed, about.format(plural(count, "ledger")), findings, procedures.MARK_LEDGERS.filled(allowed, {}),
        urgency=urgency,
        effect="the auditor marks every ledger of every bookie that is not registered, and workers copy them",
        risk="writes; copying loads the bookies", undo=f"{procedures.REPLICATION_STOPS}; marks stay",
        needs=[f"{names} will not be back soon{_else_start(situation, bookies)}"],
        ledgers=[row.planned() for row in rows], ledger_count=_count(rows, count),
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[*WORKING, *(Condition(Fact.REGISTERED, bookie, "no") for bookie in bookies)],
        done_when=[Condition(Fact.QUEUED, bookie, "yes") for bookie in bookies],
    )  # fmt: skip


def _recover_all(
    situation: Situation,
    lost: Sequence[str],
    findings: tuple[PlanFinding, ...],
    causes: set[Cause],
    urgency: Urgency,
) -> Steps:
    """Yield the step that copies all ledgers of lost bookies without AutoRecovery.

    A rehearsal of their decommission finds the ledgers that cannot be copied.
    """
    rehearsal, sums = rehearse_by_ledger(situation.run, lost)
    stuck = sums.stuck()
    trial = rehearsal.together
    names = first_names(lost, _NAMES_SHOWN)
    for blocker in trial.blockers:
        if blocker.cause in OF_LEDGERS:
            yield _blocked(situation, lost, blocker, findings)
    if trial.work.open_ends:
        yield refuse(
            ActionKind.RECOVER, RefusalReason.LIVE_WRITER,
            f"copy {plural(trial.work.open_ends, 'ledger')} that are not closed off {names}",
            "recover closes them under their writers; -sk leaves open ones alone, not those in recovery",
            "let their applications close them, and plan again", findings, (), trial.work.open_ends,
        )  # fmt: skip
    if not trial.work.ledgers - trial.work.open_ends:
        return
    # One command copies all ledgers of a bookie, those too that must not be copied.
    if (held_ids := _held_ledgers(situation, lost)) or _has_no_digest(situation, lost, stuck):
        yield from _copy_the_others(situation, lost, findings, urgency, held_ids, stuck)
        return
    rows = list(ledgers_naming(situation.run, lost, MOST_LEDGERS, without=stuck))
    about = f"copy the ledgers of {names} to other bookies, without AutoRecovery"
    ids = [row.ledger_id for row in rows]
    allowed, refused = permit_each_ledger(situation.run, ActionKind.RECOVER, about, findings, lost, ids)
    yield from refused
    if allowed is None or refused:
        return
    why = "; ".join(CAUSE_TEXTS[cause][0] for cause in sorted(causes))
    yield make_step(
        allowed, about, findings, procedures.COPY_ALL_LEDGERS.filled(allowed, {"BOOKIE": ",".join(lost)}),
        urgency=urgency, bookie_id=lost[0] if len(lost) == 1 else None,
        effect=f"no closed ledger with copies elsewhere names {names} any more. AutoRecovery: {why}",
        bytes=trial.work.copied_bytes,
        risk="danger; without -rate it copies unthrottled; it takes no lock, and closes ledgers in recovery",
        undo="none is needed: only entries with another copy are deleted",
        needs=[
            f"{names} will not be back with its disks{_else_start(situation, lost)}",
            *(
                f"preferably: {_way_out(situation, lost, cause)}"
                for cause in sorted(causes)
                if cause in _WAYS_OUT
            ),
        ],
        ledgers=[row.planned() for row in rows], ledger_count=_count(rows, trial.work.ledgers),
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.REGISTERED, bookie, "no") for bookie in lost],
        done_when=[Condition(Fact.NAMES, bookie, "no") for bookie in lost],
    )  # fmt: skip


def _refused_start(situation: Situation, lost: Sequence[str]) -> Refused | None:
    """Return why one of these bookies must not be started; None if all may be started."""
    answers = (permit(situation.run, ActionKind.START, [bookie_object(bookie)]) for bookie in lost)
    return next((answer for answer in answers if isinstance(answer, Refused)), None)


def _refused_everywhere(situation: Situation) -> Refused | None:
    """Return why AutoRecovery must not copy all marked ledgers; None if it may."""
    answer = permit_everywhere(situation.run, ActionKind.RECOVER)
    return answer if isinstance(answer, Refused) else None


def _else_start(situation: Situation, lost: Sequence[str]) -> str:
    """Return the end of the condition that bookies will not be back: what to do otherwise."""
    if (refused := _refused_start(situation, lost)) is None:
        return ": otherwise start it, and copy nothing"
    return f"; do not start it as it is: {refused.sentence}"


def _way_out(situation: Situation, lost: Sequence[str], cause: Cause) -> str:
    """Return what to do about a cause; it suggests only what is permitted."""
    if cause in _NEEDS_A_START and (refused := _refused_start(situation, lost)) is not None:
        return f"{_NEEDS_A_START[cause]}; do not start it as it is: {refused.sentence}"
    if cause in _HAS_ALL_COPIED and (refused := _refused_everywhere(situation)) is not None:
        return f"do not turn AutoRecovery on: it would copy every marked ledger: {refused.sentence}"
    return _WAYS_OUT[cause]


def _has_no_digest(situation: Situation, lost: Sequence[str], stuck: Longs) -> bool:
    """Return whether one of the first ledgers on ``lost`` bookies has neither digest type nor password.

    Ledgers in ``stuck`` do not count.
    """
    rows = ledgers_naming(situation.run, lost, MOST_LEDGERS, without=stuck)
    return any(row.digest_type is None for row in rows)


def _count(listed: Sequence[LedgerRow], count: int) -> int:
    """Return the length of the list of ledgers if it is complete; else ``count``, if that is larger."""
    return len(listed) if len(listed) < MOST_LEDGERS else max(len(listed), count)


def _blocked(
    situation: Situation, lost: Sequence[str], blocker: Blocker, findings: tuple[PlanFinding, ...]
) -> RefusedStep:
    names = first_names(lost, _NAMES_SHOWN)
    return refuse(
        ActionKind.RECOVER, _REASONS[blocker.cause], f"copy {plural(blocker.ledgers, 'ledger')} off {names}",
        CAUSE_TEXTS[blocker.cause][0], _way_out(situation, lost, blocker.cause), findings,
        [int(sample.ledger_id) for sample in blocker.samples], blocker.ledgers,
    )  # fmt: skip
