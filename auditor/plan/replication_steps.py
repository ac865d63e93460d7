"""Steps that restore copies of single ledgers: leave them to AutoRecovery, or copy without it."""

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
from auditor.plan.situation import FindingGroups, Situation

Steps = Iterator[PlanStep | RefusedStep]

_MAX_BATCH_LEDGERS = 100_000
_MAX_NAMES_SHOWN = 5
_WORKER_EFFECT_TEXT = (
    "workers copy the ledgers one by one and delete their marks. On a registered bookie they check only "
    "the first and last entry of a segment, so audit again"
)
AUTORECOVERY_CONDITIONS = (Condition(Fact.REPLICATION, "", "on"), Condition(Fact.AUDITOR, "", "elected"))


@dataclass
class FindingsByAction:
    """Findings about ledgers that lack copies, sorted by the action that they require.

    Findings whose missing copies are all on lost bookies are left out.

    Args:
        wait_groups: Findings about ledgers that AutoRecovery will copy, by the bookie that lacks copies.
        copy_groups: Findings about ledgers that a command must copy, by the bookie that lacks copies.
        refused_groups: Findings about ledgers that must not be copied, by reason.
    """

    wait_groups: dict[str, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))
    copy_groups: dict[str, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))
    refused_groups: dict[RefusalReason, FindingGroups] = field(
        default_factory=lambda: defaultdict(FindingGroups)
    )


def copy_steps(situation: Situation, sorted_findings: FindingsByAction) -> Steps:
    """Yield the steps that restore copies of ledgers with findings, and of ledgers of a stopping bookie."""
    for group_batch in _batch_groups(sorted(sorted_findings.copy_groups.items())):
        rows = read_ledgers(situation.run, {ledger for _, groups in group_batch for ledger in groups.ledgers})
        for bookie, groups in group_batch:
            yield from _copy_bookie_ledgers(situation, bookie, groups, rows)
    yield from _copy_before_stop(situation, sorted_findings)
    for bookie, groups in sorted(sorted_findings.wait_groups.items()):
        yield from wait_step(situation, bookie, groups.plan_findings(), groups, groups.ledgers, groups.count)
    for reason, groups in sorted_findings.refused_groups.items():
        outside_copies = (
            situation.find_last_copies_outside(groups.ledgers) if reason is RefusalReason.NO_COPY else {}
        )
        if outside_copies:
            yield _refuse_copies_outside(groups, outside_copies)
        ledgers = [ledger for ledger in groups.ledgers if ledger not in outside_copies]
        if ledger_count := groups.count - len(outside_copies):
            reason_text, way_out = REFUSAL_TEXTS[reason]
            title = f"copy {plural(ledger_count, 'ledger')} with too few copies"
            yield refuse(
                ActionKind.RECOVER,
                reason,
                title,
                reason_text,
                way_out,
                groups.plan_findings(),
                ledgers,
                ledger_count,
            )


def _refuse_copies_outside(groups: FindingGroups, outside_copies: Mapping[int, Sequence[str]]) -> RefusedStep:
    """Return the refusal to copy ledgers whose last copy is on a bookie that is in none of their ensembles.

    ``outside_copies`` has these bookies, by ledger.
    """
    names = first_names(
        sorted({name for bookies in outside_copies.values() for name in bookies}), _MAX_NAMES_SHOWN
    )
    first_ledger = min(outside_copies)
    reason_text = (
        f"every bookie of their ensembles lacks entries; the last copy is on {names}, which is in "
        "none of these ensembles"
    )
    way_out = (
        f"keep {names}, its disks and cookie, without garbage collection; put back metadata that names it "
        f"(bkaudit explain ledger {first_ledger}), audit, and plan again"
    )
    title = f"copy {plural(len(outside_copies), 'ledger')} with too few copies"
    return refuse(
        ActionKind.RECOVER,
        RefusalReason.LAST_COPY,
        title,
        reason_text,
        way_out,
        groups.plan_findings(),
        sorted(outside_copies),
    )


def _copy_before_stop(situation: Situation, sorted_findings: FindingsByAction) -> Steps:
    """Yield copies of the ledgers that must be copied before a bookie can stop.

    Ledgers that another step copies are left out.
    """
    planned_ledger_ids = {
        ledger for groups in sorted_findings.copy_groups.values() for ledger in groups.ledgers
    }
    planned_ledger_ids |= {
        ledger for groups in sorted_findings.wait_groups.values() for ledger in groups.ledgers
    }
    ledgers_by_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
    for dependent_ledger in situation.dependent_ledgers.values():
        is_left_to_workers = (
            situation.autorecovery_works and dependent_ledger.bookie_to_replace in situation.lost_bookies
        )
        if dependent_ledger.ledger_id not in planned_ledger_ids and not is_left_to_workers:
            ledgers_by_pair[dependent_ledger.bookie_id, dependent_ledger.bookie_to_replace].append(
                dependent_ledger.ledger_id
            )
    rows = read_ledgers(situation.run, {ledger for ledgers in ledgers_by_pair.values() for ledger in ledgers})
    for (bookie, bookie_to_replace), ledgers in sorted(ledgers_by_pair.items()):
        findings = situation.copy_before_stop[bookie].plan_findings()
        copyable_rows = [
            rows[ledger_id]
            for ledger_id in ledgers
            if ledger_id in rows and find_copy_refusal(situation, bookie_to_replace, rows[ledger_id]) is None
        ]
        yield from copy_each_ledger(
            situation,
            bookie_to_replace,
            findings,
            copyable_rows,
            Urgency.DESTROYS_DATA,
            stopping_bookie=bookie,
        )


def sort_findings(situation: Situation) -> FindingsByAction:
    """Sort the findings about ledgers that lack copies by the action that they require."""
    sorted_findings = FindingsByAction()
    for row in situation.findings_of_checks(
        "entry-lost", "below-ack-quorum", "below-write-quorum", "mark-stuck"
    ):
        situation.addressed_counts[row["id"]] += 1
        if bookies_with_recoverable_entries(row):
            continue  # its entries are in entry logs: `rebuild_indexes` has the step
        lacking_bookie = _find_lacking_bookie(situation, row)
        if row["scope_id"] or row["ledger_id"] < 0:
            sorted_findings.refused_groups[RefusalReason.NOT_BY_SHELL].add(row)
        elif _lacks_exchanged_disk(situation, row):
            sorted_findings.refused_groups[RefusalReason.DISKS_EXCHANGED].add(row)
        elif row["id"] == "entry-lost" or lacking_bookie is None:
            sorted_findings.refused_groups[RefusalReason.NO_COPY].add(row)
        elif row["confidence"] != Confidence.CONFIRMED:
            sorted_findings.refused_groups[RefusalReason.UNSURE].add(row)
        elif row["id"] != "mark-stuck" and _is_recently_marked(situation, row["ledger_id"]):
            sorted_findings.wait_groups[lacking_bookie].add(row)
        elif situation.marks.is_locked(row["ledger_id"]):
            sorted_findings.refused_groups[RefusalReason.LOCKED].add(row)
        elif lacking_bookie not in situation.lost_bookies or (
            row["id"] == "mark-stuck" and situation.autorecovery_works
        ):
            sorted_findings.copy_groups[lacking_bookie].add(row)
    return sorted_findings


def _lacks_exchanged_disk(situation: Situation, row: Mapping[str, Any]) -> bool:
    """Return whether a bookie that lacks entries of the finding has exchanged disks or directories."""
    lacking_bookies = {replica["bookie_id"] for replica in row["missing"] or ()} | {*(row["unknown"] or ())}
    return bool(lacking_bookies & situation.exchanged_disks.keys())


def _find_lacking_bookie(situation: Situation, row: Mapping[str, Any]) -> str | None:
    """Return a bookie that lacks entries, preferably a registered one; None if the finding names none.

    Also return None if the finding shows that no copy is readable.
    """
    if row["id"] == "mark-stuck":
        finding_evidence = json.loads(row["evidence"])
        names = [] if finding_evidence["unrecoverable"] else finding_evidence["replicas"]
    else:
        names = [replica["bookie_id"] for replica in row["missing"]]
    registered_names = [name for name in names if situation.bookies.get(name, {}).get("registered")]
    return next(iter([*registered_names, *names]), None)


def _is_recently_marked(situation: Situation, ledger: int) -> bool:
    """Return whether AutoRecovery will soon copy a marked ledger.

    AutoRecovery must work. The mark must be young, or a worker must have locked the ledger.
    """
    marked_time = situation.marks.mark_time(ledger)
    latest_time = situation.facts.scan_time - EXPIRY_MS
    return (
        situation.autorecovery_works
        and marked_time is not None
        and (situation.marks.is_locked(ledger) or marked_time >= latest_time)
    )


def wait_step(
    situation: Situation,
    bookie: str,
    findings: Sequence[PlanFinding],
    groups: FindingGroups,
    ledgers: Sequence[int],
    ledger_count: int,
) -> Steps:
    """Yield a step that leaves marked ledgers to AutoRecovery, and refusals for ledgers on hold.

    Args:
        situation: The run.
        bookie: The bookie for which the ledgers are marked.
        findings: The findings that require the copies.
        groups: The findings about these ledgers, with their urgency and the numbers of known copies.
        ledgers: The first of the ledgers.
        ledger_count: Total number of ledgers.
    """
    title = f"leave {{}} with a mark for {bookie} to AutoRecovery"
    permission, refused_steps = permit_each_ledger(
        situation.run, ActionKind.WAIT, title, findings, [bookie], ledgers
    )
    yield from refused_steps
    if permission is None:
        return
    permitted_ledger_ids = ledgers_of_permission(permission)
    queued_ledgers = [ledger for ledger in ledgers if ledger in permitted_ledger_ids]
    ledger_count -= sum(step.ledger_count for step in refused_steps)
    yield make_step(
        permission, title.format(plural(ledger_count, "ledger")), findings,
        procedures.LIST_MARKED.filled(permission, {}),
        urgency=_copy_urgency(situation, groups.urgency, queued_ledgers),
        fewest_copies=groups.fewest_copies(queued_ledgers),
        bookie_id=bookie, effect_text=_WORKER_EFFECT_TEXT,
        risk_text="none; recover takes no lock: if a worker also copies the ledger, it is copied twice",
        undo_text="none is needed: the step changes nothing",
        ledgers=[PlannedLedger(str(ledger), None, None) for ledger in queued_ledgers],
        ledger_count=ledger_count,
        expiry_time=situation.facts.scan_time + HOUR_MS,
        required_conditions=[*AUTORECOVERY_CONDITIONS, Condition(Fact.MARKED, "", "yes")],
        done_conditions=[Condition(Fact.MARKED, "", "no")],
    )  # fmt: skip


def _copy_urgency(situation: Situation, urgency: Urgency, ledgers: Collection[int]) -> Urgency:
    """Return the urgency of a step that copies ledgers: the highest one if a stop waits for the step."""
    if any(ledger in situation.dependent_ledgers for ledger in ledgers):
        return Urgency.DESTROYS_DATA
    return urgency


def _batch_groups(groups: Sequence[tuple[str, FindingGroups]]) -> Iterator[list[tuple[str, FindingGroups]]]:
    """Yield batches of (bookie, groups). The ledgers of one batch are looked up in one pass over the run."""
    group_batch: list[tuple[str, FindingGroups]] = []
    for bookie_and_groups in groups:
        group_batch.append(bookie_and_groups)
        if sum(len(groups_of_bookie.ledgers) for _, groups_of_bookie in group_batch) >= _MAX_BATCH_LEDGERS:
            yield group_batch
            group_batch = []
    if group_batch:
        yield group_batch


def _copy_bookie_ledgers(
    situation: Situation, bookie: str, groups: FindingGroups, rows: Mapping[int, LedgerRow]
) -> Steps:
    """Yield steps that copy single ledgers to replace a bookie that lacks entries, and refusals."""
    copyable_rows: list[LedgerRow] = []
    ledgers_by_fault: dict[tuple[RefusalReason, str, str], list[int]] = defaultdict(list)
    for ledger in groups.ledgers:
        row = rows.get(ledger)
        if (refusal_reason := find_copy_refusal(situation, bookie, row)) is None and row is not None:
            copyable_rows.append(row)
        elif refusal_reason is not None:
            ledgers_by_fault[refusal_reason].append(ledger)
    unlisted_count = groups.count - len(groups.ledgers)
    yield from copy_each_ledger(
        situation, bookie, groups.plan_findings(), copyable_rows, groups.urgency, groups, unlisted_count
    )
    for (reason, reason_text, way_out), ledgers in ledgers_by_fault.items():
        title = f"copy {plural(len(ledgers), 'ledger')} from {bookie} to other bookies"
        yield refuse(ActionKind.RECOVER, reason, title, reason_text, way_out, groups.plan_findings(), ledgers)


def copy_each_ledger(
    situation: Situation,
    bookie: str,
    findings: Sequence[PlanFinding],
    rows: Sequence[LedgerRow],
    urgency: Urgency,
    groups: FindingGroups | None = None,
    unlisted_count: int = 0,
    stopping_bookie: str | None = None,
) -> Steps:
    """Yield a step that copies ledgers one by one to replace a bookie, and refusals for ledgers on hold.

    Args:
        situation: The run.
        bookie: The bookie that other bookies replace in the ledgers.
        findings: The findings that require the copies.
        rows: The ledgers, in the order in which they are copied.
        urgency: The urgency of the most urgent finding.
        groups: The findings about the ledgers, with the numbers of known copies. None if there are none.
        unlisted_count: Number of further ledgers, which the step does not list.
        stopping_bookie: The bookie that stops once these ledgers are copied. None if there is none.
    """
    title = f"copy {{}} from {bookie} to other bookies"
    if not rows:
        return
    row_ledger_ids = [row.ledger_id for row in rows]
    permission, refused_steps = permit_each_ledger(
        situation.run, ActionKind.RECOVER, title, findings, [bookie], row_ledger_ids
    )
    yield from refused_steps
    if permission is None:
        return
    permitted_ledger_ids = ledgers_of_permission(permission)
    permitted_rows = [row for row in rows if row.ledger_id in permitted_ledger_ids]
    # Stable: of equally needed ledgers those with the fewest copies stay first.
    permitted_rows.sort(key=lambda row: row.ledger_id not in situation.dependent_ledgers)
    ledgers = [row.as_planned_ledger() for row in permitted_rows]
    ledger_count = len(ledgers) + unlisted_count
    placeholder_values = {
        "BOOKIE": bookie,
        **ledger_placeholder_values([planned_ledger.ledger_id for planned_ledger in ledgers]),
    }
    unlocked_conditions = [Condition(Fact.LOCKED, "", "no")] if situation.facts.keeps_marks else []
    purpose_text = f"before {stopping_bookie} stops" if stopping_bookie else "which lacks entries"
    yield make_step(
        permission, f"{title.format(plural(ledger_count, 'ledger'))}, {purpose_text}", findings,
        procedures.COPY_LEDGER.filled(permission, placeholder_values),
        urgency=_copy_urgency(situation, urgency, permitted_ledger_ids),
        fewest_copies=groups.fewest_copies(permitted_ledger_ids) if groups else None,
        bookie_id=bookie, effect_text=f"another bookie has the copies of {bookie}, and the metadata names it",
        bytes=sum(row.bytes for row in permitted_rows),
        risk_text=f"load; copies are made, the metadata is rewritten, and {bookie} deletes its own copies",
        undo_text="none is needed: only entries with another copy are deleted",
        ledgers=ledgers, ledger_count=ledger_count, expiry_time=situation.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.VERSION, "", "as listed"), *unlocked_conditions],
        done_conditions=[Condition(Fact.NAMES, bookie, "no")],
    )  # fmt: skip
