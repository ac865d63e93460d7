"""Steps that restore copies of single ledgers: leave the ledgers to AutoRecovery, or copy without it."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.actions import procedures
from auditor.model.amounts import first_names, plural
from auditor.model.finding import Confidence, Urgency
from auditor.model.holds import ActionKind
from auditor.model.plan import (
    EXPIRY_MS,
    Condition,
    Fact,
    PlanFinding,
    PlannedLedger,
    PlanStep,
    RefusalReason,
    RefusedStep,
)
from auditor.plan.copy_refusals import REFUSAL_TEXTS, find_copy_refusal
from auditor.plan.index_steps import bookies_with_recoverable_entries
from auditor.plan.ledger_steps import ledger_placeholder_values
from auditor.plan.parts import (
    HOUR_MS,
    LedgerRow,
    ledgers_of_permission,
    make_step,
    permit_each_ledger,
    read_ledgers,
    refuse,
)
from auditor.plan.plan_facts import PlanFacts, StepFindings

Steps = Iterator[PlanStep | RefusedStep]

_MAX_BATCH_LEDGERS = 100_000
_MAX_NAMES_SHOWN = 5
_WORKER_EFFECT_TEXT = (
    "workers copy the ledgers one by one and delete their marks. On a registered bookie, they check only "
    "the first and last entry of a segment, so audit again"
)
AUTORECOVERY_CONDITIONS = (Condition(Fact.REPLICATION, "", "on"), Condition(Fact.AUDITOR, "", "elected"))


@dataclass
class FindingsByAction:
    """Findings about ledgers that lack copies, sorted by the action that they require.

    Findings whose missing copies are all on lost bookies are left out.

    Args:
        wait_findings: Findings about ledgers that AutoRecovery will copy, by the bookie that lacks copies.
        copy_findings: Findings about ledgers that a command must copy, by the bookie that lacks copies.
        refused_findings: Findings about ledgers that must not be copied, by reason.
    """

    wait_findings: dict[str, StepFindings] = field(default_factory=lambda: defaultdict(StepFindings))
    copy_findings: dict[str, StepFindings] = field(default_factory=lambda: defaultdict(StepFindings))
    refused_findings: dict[RefusalReason, StepFindings] = field(
        default_factory=lambda: defaultdict(StepFindings)
    )


def copy_steps(plan_facts: PlanFacts, sorted_findings: FindingsByAction) -> Steps:
    """Yield steps that restore copies of ledgers with findings, or copy ledgers before a bookie stops."""
    for findings_batch in _batch_findings(sorted(sorted_findings.copy_findings.items())):
        rows = read_ledgers(
            plan_facts.run,
            {ledger for _, step_findings in findings_batch for ledger in step_findings.ledgers},
        )
        for bookie, groups in findings_batch:
            yield from _copy_bookie_ledgers(plan_facts, bookie, groups, rows)
    yield from _copy_before_stop(plan_facts, sorted_findings)
    for bookie, groups in sorted(sorted_findings.wait_findings.items()):
        yield from wait_step(plan_facts, bookie, groups.plan_findings(), groups, groups.ledgers, groups.count)
    for refusal_reason, groups in sorted_findings.refused_findings.items():
        outside_copies = (
            plan_facts.find_last_copies_outside(groups.ledgers)
            if refusal_reason is RefusalReason.NO_COPY
            else {}
        )
        if outside_copies:
            yield _refuse_copies_outside(groups, outside_copies)
        ledgers = [ledger for ledger in groups.ledgers if ledger not in outside_copies]
        if ledger_count := groups.count - len(outside_copies):
            reason_text, way_out = REFUSAL_TEXTS[refusal_reason]
            title = f"copy {plural(ledger_count, 'ledger')} with too few copies"
            yield refuse(
                ActionKind.RECOVER,
                refusal_reason,
                title,
                reason_text,
                way_out,
                groups.plan_findings(),
                ledgers,
                ledger_count,
            )


def _refuse_copies_outside(
    step_findings: StepFindings, outside_copies: Mapping[int, Sequence[str]]
) -> RefusedStep:
    """Return the refusal to copy ledgers whose last copy is on a bookie outside of their ensembles.

    ``outside_copies`` has the bookies outside of the ensembles, by ledger.
    """
    bookies_text = first_names(
        sorted({bookie for bookies in outside_copies.values() for bookie in bookies}), _MAX_NAMES_SHOWN
    )
    first_ledger = min(outside_copies)
    reason_text = (
        "every bookie in their ensembles lacks entries; the last copy is on a bookie outside these ensembles "
        f"({bookies_text})"
    )
    way_out = (
        f"keep {bookies_text} with disks and cookie, and prevent garbage collection there. Restore "
        f"metadata that names the bookie (bkaudit explain ledger {first_ledger}), audit, and plan again"
    )
    title = f"copy {plural(len(outside_copies), 'ledger')} with too few copies"
    return refuse(
        ActionKind.RECOVER,
        RefusalReason.LAST_COPY,
        title,
        reason_text,
        way_out,
        step_findings.plan_findings(),
        sorted(outside_copies),
    )


def _copy_before_stop(plan_facts: PlanFacts, sorted_findings: FindingsByAction) -> Steps:
    """Yield steps that copy the ledgers that must be copied before a bookie can stop.

    Ledgers that another step copies are left out.
    """
    planned_ledger_ids = {
        ledger for step_findings in sorted_findings.copy_findings.values() for ledger in step_findings.ledgers
    }
    planned_ledger_ids |= {
        ledger for groups in sorted_findings.wait_findings.values() for ledger in groups.ledgers
    }
    ledgers_by_replacement: dict[tuple[str, str], list[int]] = defaultdict(list)
    for dependent_ledger in plan_facts.dependent_ledgers.values():
        will_workers_copy = (
            plan_facts.is_autorecovery_usable
            and dependent_ledger.bookie_to_replace in plan_facts.lost_bookies
        )
        if dependent_ledger.ledger_id not in planned_ledger_ids and not will_workers_copy:
            ledgers_by_replacement[dependent_ledger.bookie_id, dependent_ledger.bookie_to_replace].append(
                dependent_ledger.ledger_id
            )
    rows = read_ledgers(
        plan_facts.run, {ledger for ledgers in ledgers_by_replacement.values() for ledger in ledgers}
    )
    for (bookie, bookie_to_replace), ledgers in sorted(ledgers_by_replacement.items()):
        findings = plan_facts.findings_to_copy[bookie].plan_findings()
        copyable_rows = [
            rows[ledger_id]
            for ledger_id in ledgers
            if ledger_id in rows and find_copy_refusal(plan_facts, bookie_to_replace, rows[ledger_id]) is None
        ]
        yield from copy_each_ledger(
            plan_facts,
            bookie_to_replace,
            findings,
            copyable_rows,
            Urgency.DESTROYS_DATA,
            stopping_bookie=bookie,
        )


def sort_findings(plan_facts: PlanFacts) -> FindingsByAction:
    """Sort the findings about ledgers that lack copies by the action that they require."""
    sorted_findings = FindingsByAction()
    for row in plan_facts.findings_of_checks(
        "entry-lost", "below-ack-quorum", "below-write-quorum", "mark-stuck"
    ):
        plan_facts.planned_counts[row["id"]] += 1
        if bookies_with_recoverable_entries(row):
            continue  # its entries are in entry logs: `rebuild_indexes` has the step
        lacking_bookie = _find_lacking_bookie(plan_facts, row)
        if row["scope_id"] or row["ledger_id"] < 0:
            sorted_findings.refused_findings[RefusalReason.NOT_BY_SHELL].add(row)
        elif _lacks_exchanged_disk(plan_facts, row):
            sorted_findings.refused_findings[RefusalReason.DISKS_EXCHANGED].add(row)
        elif row["id"] == "entry-lost" or lacking_bookie is None:
            sorted_findings.refused_findings[RefusalReason.NO_COPY].add(row)
        elif row["confidence"] != Confidence.CONFIRMED:
            sorted_findings.refused_findings[RefusalReason.UNPROVED].add(row)
        elif row["id"] != "mark-stuck" and _is_recently_marked(plan_facts, row["ledger_id"]):
            sorted_findings.wait_findings[lacking_bookie].add(row)
        elif plan_facts.mark_times.is_locked(row["ledger_id"]):
            sorted_findings.refused_findings[RefusalReason.WORKER_LOCK].add(row)
        elif lacking_bookie not in plan_facts.lost_bookies or (
            row["id"] == "mark-stuck" and plan_facts.is_autorecovery_usable
        ):
            sorted_findings.copy_findings[lacking_bookie].add(row)
    return sorted_findings


def _lacks_exchanged_disk(plan_facts: PlanFacts, row: Mapping[str, Any]) -> bool:
    """Return whether a bookie that lacks entries of the finding has exchanged disks or directories."""
    lacking_bookies = {replica_row["bookie_id"] for replica_row in row["missing"] or ()} | {
        *(row["unknown"] or ())
    }
    return bool(lacking_bookies & plan_facts.exchanged_disk_findings.keys())


def _find_lacking_bookie(plan_facts: PlanFacts, row: Mapping[str, Any]) -> str | None:
    """Return a bookie that lacks entries according to the finding, preferably a registered bookie.

    Return None if the finding names no such bookie, or shows that no copy is readable.
    """
    if row["id"] == "mark-stuck":
        finding_evidence = json.loads(row["evidence"])
        lacking_bookies = [] if finding_evidence["unrecoverable"] else finding_evidence["replicas"]
    else:
        lacking_bookies = [replica_row["bookie_id"] for replica_row in row["missing"]]
    registered_names = [
        bookie for bookie in lacking_bookies if plan_facts.bookies.get(bookie, {}).get("registered")
    ]
    return next(iter([*registered_names, *lacking_bookies]), None)


def _is_recently_marked(plan_facts: PlanFacts, ledger: int) -> bool:
    """Return whether AutoRecovery will soon copy a ledger that is marked under-replicated.

    AutoRecovery must work, and either the mark must be young or a worker must have locked the ledger.
    """
    mark_time = plan_facts.mark_times.mark_time(ledger)
    latest_time = plan_facts.facts.scan_time - EXPIRY_MS
    return (
        plan_facts.is_autorecovery_usable
        and mark_time is not None
        and (plan_facts.mark_times.is_locked(ledger) or mark_time >= latest_time)
    )


def wait_step(
    plan_facts: PlanFacts,
    bookie: str,
    findings: Sequence[PlanFinding],
    step_findings: StepFindings,
    ledgers: Sequence[int],
    ledger_count: int,
) -> Steps:
    """Yield a step that leaves ledgers to AutoRecovery, and refusals for ledgers that a hold (rule) excludes.

    Args:
        plan_facts: The run.
        bookie: The bookie for which the ledgers are marked under-replicated.
        findings: The findings that require the copies.
        step_findings: The findings about these ledgers, with their urgency and the numbers of known copies.
        ledgers: The first of the ledgers.
        ledger_count: Total number of ledgers.
    """
    title = f"let AutoRecovery repair {{}} with a mark for {bookie}"
    step_permission, refused_steps = permit_each_ledger(
        plan_facts.run, ActionKind.WAIT, title, findings, [bookie], ledgers
    )
    yield from refused_steps
    if step_permission is None:
        return
    permitted_ledger_ids = ledgers_of_permission(step_permission)
    marked_ledgers = [ledger for ledger in ledgers if ledger in permitted_ledger_ids]
    ledger_count -= sum(copy_step.ledger_count for copy_step in refused_steps)
    yield make_step(
        step_permission, title.format(plural(ledger_count, "ledger")), findings,
        procedures.LIST_MARKED.fill(step_permission, {}),
        urgency=_copy_urgency(plan_facts, step_findings.urgency, marked_ledgers),
        fewest_copies=step_findings.fewest_copies(marked_ledgers),
        bookie_id=bookie, effect_text=_WORKER_EFFECT_TEXT,
        risk_text="none; recover takes no lock, so a ledger that a worker also copies is copied twice",
        undo_text="no undo is needed: the step changes nothing",
        ledgers=[PlannedLedger(str(ledger), None, None) for ledger in marked_ledgers],
        ledger_count=ledger_count,
        expiry_time=plan_facts.facts.scan_time + HOUR_MS,
        required_conditions=[*AUTORECOVERY_CONDITIONS, Condition(Fact.MARKED, "", "yes")],
        done_conditions=[Condition(Fact.MARKED, "", "no")],
    )  # fmt: skip


def _copy_urgency(plan_facts: PlanFacts, urgency: Urgency, ledgers: Collection[int]) -> Urgency:
    """Return the highest urgency if a bookie can stop only after these copies are made, else ``urgency``."""
    if any(ledger in plan_facts.dependent_ledgers for ledger in ledgers):
        return Urgency.DESTROYS_DATA
    return urgency


def _batch_findings(
    all_findings: Sequence[tuple[str, StepFindings]],
) -> Iterator[list[tuple[str, StepFindings]]]:
    """Yield (bookie, findings) pairs in batches. The caller reads all ledgers of a batch in one pass."""
    findings_batch: list[tuple[str, StepFindings]] = []
    for bookie_and_findings in all_findings:
        findings_batch.append(bookie_and_findings)
        if (
            sum(len(findings_of_bookie.ledgers) for _, findings_of_bookie in findings_batch)
            >= _MAX_BATCH_LEDGERS
        ):
            yield findings_batch
            findings_batch = []
    if findings_batch:
        yield findings_batch


def _copy_bookie_ledgers(
    plan_facts: PlanFacts, bookie: str, step_findings: StepFindings, rows: Mapping[int, LedgerRow]
) -> Steps:
    """Yield steps that copy ledgers to other bookies because ``bookie`` lacks entries, or refusals."""
    copyable_rows: list[LedgerRow] = []
    ledgers_by_reason: dict[tuple[RefusalReason, str, str], list[int]] = defaultdict(list)
    for ledger in step_findings.ledgers:
        row = rows.get(ledger)
        if (refusal_reason := find_copy_refusal(plan_facts, bookie, row)) is None and row is not None:
            copyable_rows.append(row)
        elif refusal_reason is not None:
            ledgers_by_reason[refusal_reason].append(ledger)
    unlisted_count = step_findings.count - len(step_findings.ledgers)
    yield from copy_each_ledger(
        plan_facts,
        bookie,
        step_findings.plan_findings(),
        copyable_rows,
        step_findings.urgency,
        step_findings,
        unlisted_count,
    )
    for (reason, reason_text, way_out), ledgers in ledgers_by_reason.items():
        title = f"copy {plural(len(ledgers), 'ledger')} from {bookie} to other bookies"
        yield refuse(
            ActionKind.RECOVER, reason, title, reason_text, way_out, step_findings.plan_findings(), ledgers
        )


def copy_each_ledger(
    plan_facts: PlanFacts,
    bookie: str,
    findings: Sequence[PlanFinding],
    rows: Sequence[LedgerRow],
    urgency: Urgency,
    step_findings: StepFindings | None = None,
    unlisted_count: int = 0,
    stopping_bookie: str | None = None,
) -> Steps:
    """Yield a step that copies ledgers to replace a bookie, and refusals if holds (rules) forbid copies.

    Args:
        plan_facts: The run.
        bookie: The bookie that other bookies replace in the ledgers.
        findings: The findings that require the copies.
        rows: The ledgers. They are copied one by one, in this order.
        urgency: The urgency of the most urgent finding.
        step_findings: The findings about the ledgers, with the numbers of known copies. None if there are
            none.
        unlisted_count: Number of further ledgers, which the step does not list.
        stopping_bookie: The bookie that stops once these ledgers are copied. None if there is none.
    """
    title = f"copy {{}} from {bookie} to other bookies"
    if not rows:
        return
    row_ledger_ids = [row.ledger_id for row in rows]
    step_permission, refused_steps = permit_each_ledger(
        plan_facts.run, ActionKind.RECOVER, title, findings, [bookie], row_ledger_ids
    )
    yield from refused_steps
    if step_permission is None:
        return
    permitted_ledger_ids = ledgers_of_permission(step_permission)
    permitted_rows = [row for row in rows if row.ledger_id in permitted_ledger_ids]
    # Stable: of equally needed ledgers those with the fewest copies stay first.
    permitted_rows.sort(key=lambda row: row.ledger_id not in plan_facts.dependent_ledgers)
    ledgers = [row.as_planned_ledger() for row in permitted_rows]
    ledger_count = len(ledgers) + unlisted_count
    placeholder_values = {
        "BOOKIE": bookie,
        **ledger_placeholder_values([planned_ledger.ledger_id for planned_ledger in ledgers]),
    }
    unlocked_conditions = [Condition(Fact.LOCKED, "", "no")] if plan_facts.facts.keeps_marks else []
    purpose_text = f"before {stopping_bookie} stops" if stopping_bookie else f"because {bookie} lacks entries"
    yield make_step(
        step_permission, f"{title.format(plural(ledger_count, 'ledger'))}, {purpose_text}", findings,
        procedures.COPY_LEDGER.fill(step_permission, placeholder_values),
        urgency=_copy_urgency(plan_facts, urgency, permitted_ledger_ids),
        fewest_copies=step_findings.fewest_copies(permitted_ledger_ids) if step_findings else None,
        bookie_id=bookie, effect_text=f"other bookies have the copies and replace {bookie} in the metadata",
        bytes=sum(row.bytes for row in permitted_rows),
        risk_text=f"load; copies are made, the metadata is rewritten, and {bookie} deletes its own copies",
        undo_text="no undo is needed: an entry is deleted only if it has another copy",
        ledgers=ledgers, ledger_count=ledger_count, expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.VERSION, "", "as listed"), *unlocked_conditions],
        done_conditions=[Condition(Fact.IN_ENSEMBLE, bookie, "no")],
    )  # fmt: skip
