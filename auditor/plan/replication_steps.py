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
from auditor.model.ledger_metadata import LedgerState
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
from auditor.plan.index_steps import recoverable_copies
from auditor.plan.ledger_steps import ledger_blanks
from auditor.plan.parts import (
    HOUR_MS,
    LedgerRow,
    ledgers_of,
    ledgers_of_permission,
    make_step,
    permit_each_ledger,
    refuse,
)
from auditor.plan.situation import FindingGroups, Situation

Steps = Iterator[PlanStep | RefusedStep]

_BATCH_LEDGERS = 100_000
_NAMES_SHOWN = 5
_WORKER_EFFECT = (
    "workers copy them one by one and delete the marks. On a registered bookie they check only the "
    "first and last entry of a segment: audit again"
)
AUTORECOVERY_RUNS = (Condition(Fact.REPLICATION, "", "on"), Condition(Fact.AUDITOR, "", "elected"))


@dataclass
class LackingCopies:
    """Findings about ledgers that lack copies, sorted by the action that they require.

    ``waiting`` (left to AutoRecovery) and ``copied`` are by bookie, ``refused`` by reason. Findings are left
    out if lost bookies explain all their lacking copies.
    """

    waiting: dict[str, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))
    copied: dict[str, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))
    refused: dict[RefusalReason, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))


def copy_steps(situation: Situation, lacking_copies: LackingCopies) -> Steps:
    """Yield the steps that restore copies: for findings, and for ledgers of a bookie that should stop."""
    for group_batch in _batch_groups(sorted(lacking_copies.copied.items())):
        rows = ledgers_of(situation.run, {ledger for _, groups in group_batch for ledger in groups.ledgers})
        for bookie, groups in group_batch:
            yield from _copy_bookie_ledgers(situation, bookie, groups, rows)
    yield from _copy_before_stop(situation, lacking_copies)
    for bookie, groups in sorted(lacking_copies.waiting.items()):
        yield from wait_step(situation, bookie, groups.named(), groups, groups.ledgers, groups.count)
    for reason, groups in lacking_copies.refused.items():
        outside_copies = (
            situation.stored_copies_outside(groups.ledgers) if reason is RefusalReason.NO_COPY else {}
        )
        if outside_copies:
            yield _refuse_copies_outside(groups, outside_copies)
        ledgers = [ledger for ledger in groups.ledgers if ledger not in outside_copies]
        if count := groups.count - len(outside_copies):
            why, way_out = REFUSAL_TEXTS[reason]
            title = f"copy {plural(count, 'ledger')} with too few copies"
            yield refuse(ActionKind.RECOVER, reason, title, why, way_out, groups.named(), ledgers, count)


def _refuse_copies_outside(groups: FindingGroups, outside_copies: Mapping[int, Sequence[str]]) -> RefusedStep:
    """Return the refusal for ledgers whose last copies are on bookies outside all their segments.

    ``outside_copies`` has these bookies by ledger.
    """
    names = first_names(
        sorted({name for bookies in outside_copies.values() for name in bookies}), _NAMES_SHOWN
    )
    first_ledger = min(outside_copies)
    why = (
        f"every bookie of their ensembles lacks entries, and the last copy is on {names}, in "
        "none of these ensembles"
    )
    way_out = (
        f"keep {names}, its disks and cookie, without garbage collection; put back metadata that names it "
        f"(bkaudit explain ledger {first_ledger}), audit, and plan then"
    )
    title = f"copy {plural(len(outside_copies), 'ledger')} with too few copies"
    return refuse(
        ActionKind.RECOVER,
        RefusalReason.LAST_COPY,
        title,
        why,
        way_out,
        groups.named(),
        sorted(outside_copies),
    )


def _copy_before_stop(situation: Situation, lacking_copies: LackingCopies) -> Steps:
    """Yield copies of ledgers that depend on a bookie that should stop, unless another step copies them."""
    planned_ids = {ledger for groups in lacking_copies.copied.values() for ledger in groups.ledgers}
    planned_ids |= {ledger for groups in lacking_copies.waiting.values() for ledger in groups.ledgers}
    ledgers_by_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
    for dependent_ledger in situation.dependent_ledgers.values():
        is_left_to_workers = situation.works and dependent_ledger.copy_off in situation.lost
        if dependent_ledger.ledger_id not in planned_ids and not is_left_to_workers:
            ledgers_by_pair[dependent_ledger.bookie_id, dependent_ledger.copy_off].append(
                dependent_ledger.ledger_id
            )
    rows = ledgers_of(situation.run, {ledger for ledgers in ledgers_by_pair.values() for ledger in ledgers})
    for (bookie, copy_off), ledgers in sorted(ledgers_by_pair.items()):
        findings = situation.copy_before_stop[bookie].named()
        copyable_rows = [
            rows[id]
            for id in ledgers
            if id in rows and refusal_of_copy(situation, copy_off, rows[id]) is None
        ]
        yield from copy_each_ledger(
            situation, copy_off, findings, copyable_rows, Urgency.DESTROYS_DATA, stopping_bookie=bookie
        )


REFUSAL_TEXTS = {
    RefusalReason.NO_COPY: (
        "no copy of some entry could be read",
        "read or start the bookies that should have the entry, or find others that have it (bkaudit "
        "explain ledger ID)",
    ),
    RefusalReason.LOCKED: (
        "a replication worker has locked the ledger, and recover takes no lock",
        "wait for the worker, and audit again",
    ),
    RefusalReason.UNSURE: ("the finding is only suspected", "audit again with --since last"),
    RefusalReason.DISKS_EXCHANGED: (
        "a bookie that should have the entries has another bookie's disks, or its own disks in exchanged "
        "places",
        "put the disks back by the step in this plan, and audit again: perhaps no copy is needed",
    ),
    RefusalReason.NOT_BY_SHELL: (
        "no released shell accepts a ledger with a scope other than 0 or an id below 0",
        "wait for a shell that accepts it",
    ),
}


def sort_findings(situation: Situation) -> LackingCopies:
    """Sort the findings about ledgers that lack copies by the action that they require."""
    lacking_copies = LackingCopies()
    for row in situation.findings_of_checks(
        "entry-lost", "below-ack-quorum", "below-write-quorum", "mark-stuck"
    ):
        situation.addressed[row["id"]] += 1
        if recoverable_copies(row):
            continue  # its entries are in entry logs: `rebuild_indexes` has the step
        lacking_bookie = _find_lacking_bookie(situation, row)
        if row["scope_id"] or row["ledger_id"] < 0:
            lacking_copies.refused[RefusalReason.NOT_BY_SHELL].add(row)
        elif _lacks_exchanged_disk(situation, row):
            lacking_copies.refused[RefusalReason.DISKS_EXCHANGED].add(row)
        elif row["id"] == "entry-lost" or lacking_bookie is None:
            lacking_copies.refused[RefusalReason.NO_COPY].add(row)
        elif row["confidence"] != Confidence.CONFIRMED:
            lacking_copies.refused[RefusalReason.UNSURE].add(row)
        elif row["id"] != "mark-stuck" and _is_recently_marked(situation, row["ledger_id"]):
            lacking_copies.waiting[lacking_bookie].add(row)
        elif situation.marks.locked(row["ledger_id"]):
            lacking_copies.refused[RefusalReason.LOCKED].add(row)
        elif lacking_bookie not in situation.lost or (row["id"] == "mark-stuck" and situation.works):
            lacking_copies.copied[lacking_bookie].add(row)
    return lacking_copies


def _lacks_exchanged_disk(situation: Situation, row: Mapping[str, Any]) -> bool:
    """Return whether disks or directories were exchanged at a bookie that lacks entries of the finding."""
    lacking_bookies = {replica["bookie_id"] for replica in row["missing"] or ()} | {*(row["unknown"] or ())}
    return bool(lacking_bookies & situation.exchanged_disks.keys())


def _find_lacking_bookie(situation: Situation, row: Mapping[str, Any]) -> str | None:
    """Return a bookie that lacks entries, preferably a registered one; None if no copy is readable."""
    if row["id"] == "mark-stuck":
        evidence = json.loads(row["evidence"])
        names = [] if evidence["unrecoverable"] else evidence["replicas"]
    else:
        names = [replica["bookie_id"] for replica in row["missing"]]
    registered_names = [name for name in names if situation.bookies.get(name, {}).get("registered")]
    return next(iter([*registered_names, *names]), None)


def _is_recently_marked(situation: Situation, ledger: int) -> bool:
    """Return whether AutoRecovery will soon copy the ledger: its mark is young, or a worker has locked it."""
    marked_time = situation.marks.mark_time(ledger)
    latest_time = situation.facts.scan_time - EXPIRY_MS
    return (
        situation.works
        and marked_time is not None
        and (situation.marks.locked(ledger) or marked_time >= latest_time)
    )


def wait_step(
    situation: Situation,
    bookie: str,
    findings: Sequence[PlanFinding],
    groups: FindingGroups,
    ledgers: Sequence[int],
    count: int,
) -> Steps:
    """Yield a step that leaves marked ledgers to AutoRecovery, and refusals for ledgers on hold.

    Args:
        situation: The run.
        bookie: The bookie for which the ledgers are marked.
        findings: The findings that require the copies.
        groups: The findings about these ledgers, for urgency and copies left.
        ledgers: The first of the ledgers.
        count: Total number of ledgers.
    """
    title = f"leave {{}} marked for {bookie} to AutoRecovery"
    allowed, refused_steps = permit_each_ledger(
        situation.run, ActionKind.WAIT, title, findings, [bookie], ledgers
    )
    yield from refused_steps
    if allowed is None:
        return
    permitted_rows = ledgers_of_permission(allowed)
    queued = [ledger for ledger in ledgers if ledger in permitted_rows]
    count -= sum(step.ledger_count for step in refused_steps)
    yield make_step(
        allowed, title.format(plural(count, "ledger")), findings, procedures.LIST_MARKED.filled(allowed, {}),
        urgency=_copy_urgency(situation, groups.urgency, queued), fewest_copies=groups.fewest_copies(queued),
        bookie_id=bookie, effect=_WORKER_EFFECT,
        risk="none; recover takes no lock: if a worker also copies the ledger, the ledger is " "copied twice",
        undo="nothing is done",
        ledgers=[PlannedLedger(str(ledger), None, None) for ledger in queued], ledger_count=count,
        expires=situation.facts.scan_time + HOUR_MS,
        requires=[*AUTORECOVERY_RUNS, Condition(Fact.MARKED, "", "yes")],
        done_when=[Condition(Fact.MARKED, "", "no")],
    )  # fmt: skip


def _copy_urgency(situation: Situation, urgency: Urgency, ledgers: Collection[int]) -> Urgency:
    """Return the urgency of copying ledgers: the highest if a bookie must stop once they are copied."""
    if any(ledger in situation.dependent_ledgers for ledger in ledgers):
        return Urgency.DESTROYS_DATA
    return urgency


def _batch_groups(groups: Sequence[tuple[str, FindingGroups]]) -> Iterator[list[tuple[str, FindingGroups]]]:
    """Yield batches of (bookie, groups), each small enough for one look-up pass over the run's ledgers."""
    group_batch: list[tuple[str, FindingGroups]] = []
    for bookie_groups in groups:
        group_batch.append(bookie_groups)
        if sum(len(groups_of_bookie.ledgers) for _, groups_of_bookie in group_batch) >= _BATCH_LEDGERS:
            yield group_batch
            group_batch = []
    if group_batch:
        yield group_batch


def _copy_bookie_ledgers(
    situation: Situation, bookie: str, groups: FindingGroups, rows: Mapping[int, LedgerRow]
) -> Steps:
    """Yield steps that copy single ledgers off a bookie that lacks entries of them, and refusals."""
    copyable_rows: list[LedgerRow] = []
    ledgers_by_fault: dict[tuple[RefusalReason, str, str], list[int]] = defaultdict(list)
    for ledger in groups.ledgers:
        row = rows.get(ledger)
        if (refusal_reason := refusal_of_copy(situation, bookie, row)) is None and row is not None:
            copyable_rows.append(row)
        elif refusal_reason is not None:
            ledgers_by_fault[refusal_reason].append(ledger)
    unlisted_count = groups.count - len(groups.ledgers)
    yield from copy_each_ledger(
        situation, bookie, groups.named(), copyable_rows, groups.urgency, groups, unlisted_count
    )
    for (reason, why, way_out), ledgers in ledgers_by_fault.items():
        title = f"copy {plural(len(ledgers), 'ledger')} off {bookie}"
        yield refuse(ActionKind.RECOVER, reason, title, why, way_out, groups.named(), ledgers)


def refusal_of_copy(
    situation: Situation, bookie: str, row: LedgerRow | None
) -> tuple[RefusalReason, str, str] | None:
    """Return why a ledger cannot be copied off a bookie (reason, words), and what to do; None if it can."""
    if row is None or bookie not in row.members:
        return RefusalReason.UNSURE, f"no segment names {bookie} any more", "audit again"
    if row.state != LedgerState.CLOSED:
        return (
            RefusalReason.LIVE_WRITER,
            f"the ledger is not closed ({row.state}): recover would close it while its writer uses it",
            "let its application close it, and plan again",
        )
    if row.digest_type is None:
        return (
            RefusalReason.NOT_BY_SHELL,
            "its metadata has neither digest type nor password, so recover would open it with those of the "
            "shell's configuration",
            "have its application read it and write it to a new ledger; or set digestType and passwd in the "
            "shell's configuration to those of the application, for this ledger alone",
        )
    ensembles = [ensemble for ensemble in row.ensembles if bookie in ensemble]
    if not all(situation.writable - {*ensemble} for ensemble in ensembles):
        way_out = "add a bookie, or let a read-only one write again"
        return RefusalReason.NO_SPARE, "no writable bookie is outside its ensemble", way_out
    return None


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
    """Yield copies of single ledgers off a bookie if the gate permits them, and refusals of the others.

    Args:
        situation: The run.
        bookie: The bookie whose copies are made elsewhere.
        findings: The findings that require the copies.
        rows: The ledgers, in the order in which they are copied.
        urgency: The urgency of the most urgent finding.
        groups: The findings, with the number of copies left. None if there are none about ledgers.
        unlisted_count: Number of further ledgers.
        stopping_bookie: The bookie that stops once these ledgers are copied. None if there is none.
    """
    title = f"copy {{}} off {bookie}"
    if not rows:
        return
    ids = [row.ledger_id for row in rows]
    allowed, refused_steps = permit_each_ledger(
        situation.run, ActionKind.RECOVER, title, findings, [bookie], ids
    )
    yield from refused_steps
    if allowed is None:
        return
    permitted_ids = ledgers_of_permission(allowed)
    permitted_rows = [row for row in rows if row.ledger_id in permitted_ids]
    # Stable: of equally needed ledgers those with the fewest copies stay first.
    permitted_rows.sort(key=lambda row: row.ledger_id not in situation.dependent_ledgers)
    ledgers = [row.planned() for row in permitted_rows]
    count = len(ledgers) + unlisted_count
    blanks = {"BOOKIE": bookie, **ledger_blanks([planned_ledger.ledger_id for planned_ledger in ledgers])}
    unlocked_conditions = [Condition(Fact.LOCKED, "", "no")] if situation.facts.keeps_marks else []
    reason = f"before {stopping_bookie} stops" if stopping_bookie else "which lacks entries"
    yield make_step(
        allowed, f"{title.format(plural(count, 'ledger'))}, {reason}", findings,
        procedures.COPY_LEDGER.filled(allowed, blanks),
        urgency=_copy_urgency(situation, urgency, permitted_ids),
        fewest_copies=groups.fewest_copies(permitted_ids) if groups else None,
        bookie_id=bookie, effect=f"another bookie has the copies of {bookie}, and the metadata names it",
        bytes=sum(row.bytes for row in permitted_rows),
        risk=f"load; copies are made, the metadata is rewritten, and {bookie} deletes its own copies",
        undo="none is needed: only entries with another copy are deleted",
        ledgers=ledgers, ledger_count=count, expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.VERSION, "", "as listed"), *unlocked_conditions],
        done_when=[Condition(Fact.NAMES, bookie, "no")],
    )  # fmt: skip
