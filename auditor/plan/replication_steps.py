"""Steps that bring copies back: wait for AutoRecovery, let it be asked again, or copy without it."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.decommission.rehearse import rehearse_by_ledger
from auditor.model.amounts import first_names, plural
from auditor.model.decommission import OF_LEDGERS, Blocker, Cause
from auditor.model.finding import Confidence
from auditor.model.ledger_metadata import LedgerState
from auditor.model.plan import (
    Condition,
    Fact,
    PlanFinding,
    PlannedLedger,
    PlanStep,
    RefusalReason,
    RefusedStep,
    StepKind,
)
from auditor.plan.ledger_steps import ledger_blanks
from auditor.plan.parts import (
    DO,
    EXPIRY_MS,
    HOUR_MS,
    LOOK,
    LedgerRow,
    ledgers_naming,
    ledgers_of,
    make_step,
    refuse,
    typed,
)
from auditor.plan.situation import MOST_LEDGERS, FindingGroups, Situation
from auditor.reports.decommission import CAUSES

Steps = Iterator[PlanStep | RefusedStep]

_NAMED = 5
_AT_ONCE = 100_000
_WORKERS = (
    "workers copy them one after the other, and each mark goes. On a bookie that is there they look at the "
    "first and last entry of a segment only: audit again"
)
_WORKING = (Condition(Fact.REPLICATION, "", "on"), Condition(Fact.AUDITOR, "", "elected"))
_REASONS = {
    Cause.ONLY_COPY: RefusalReason.NO_COPY,
    Cause.UNREADABLE: RefusalReason.NO_COPY,
    Cause.NO_SPARE: RefusalReason.NO_SPARE,
    Cause.NO_ADMISSIBLE: RefusalReason.NO_SPARE,
    Cause.NO_COVERAGE: RefusalReason.LIVE_WRITER,
}


@dataclass
class _Sorted:
    """Findings about ledgers that lack copies, by what is to be done; by bookie where that matters.

    What else lost bookies alone explain is in none of them.
    """

    waiting: dict[str, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))
    copied: dict[str, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))
    refused: dict[RefusalReason, FindingGroups] = field(default_factory=lambda: defaultdict(FindingGroups))


def replication_steps(now: Situation) -> Steps:
    """All of them; what a lost bookie explains is one step, not one a ledger."""
    found = _sort(now)
    yield from _lost_bookies(now, found)
    for some in _together(sorted(found.copied.items())):
        rows = ledgers_of(now.run, {ledger for _, groups in some for ledger in groups.ledgers})
        for bookie, groups in some:
            yield from _copy(now, bookie, groups, rows)
    for bookie, groups in sorted(found.waiting.items()):
        yield _wait(now, bookie, groups.named(), groups.ledgers, groups.count)
    for reason, groups in found.refused.items():
        why, way = _WAYS[reason]
        about = f"copy {plural(groups.count, 'ledger')} with too few copies"
        yield refuse(StepKind.RECOVER, reason, about, why, way, groups.named(), groups.ledgers, groups.count)


_WAYS = {
    RefusalReason.NO_COPY: (
        "an entry has no copy that could be read",
        "read or start the bookies that should have it, or see who else has it (bkaudit explain ledger ID)",
    ),
    RefusalReason.HELD: (
        "a replication worker holds it, and recover takes no lock",
        "wait for the worker, and audit again",
    ),
    RefusalReason.UNSURE: ("the finding is suspected only", "audit again with --since last"),
    RefusalReason.NOT_BY_SHELL: (
        "no released shell takes a ledger of another scope than 0, or with an id below 0",
        "wait for a shell that does",
    ),
}


def _sort(now: Situation) -> _Sorted:
    found = _Sorted()
    for row in now.asking("entry-lost", "below-ack-quorum", "below-write-quorum", "mark-stuck"):
        now.addressed[row["id"]] += 1
        lacking = _lacking(now, row)
        if row["scope_id"] or row["ledger_id"] < 0:
            found.refused[RefusalReason.NOT_BY_SHELL].add(row)
        elif row["id"] == "entry-lost" or lacking is None:
            found.refused[RefusalReason.NO_COPY].add(row)
        elif row["confidence"] != Confidence.CONFIRMED:
            found.refused[RefusalReason.UNSURE].add(row)
        elif row["id"] != "mark-stuck" and _is_young(now, row["ledger_id"]):
            found.waiting[lacking].add(row)
        elif now.marks.locked(row["ledger_id"]):
            found.refused[RefusalReason.HELD].add(row)
        elif lacking not in now.lost or (row["id"] == "mark-stuck" and now.works):
            found.copied[lacking].add(row)
    return found


def _lacking(now: Situation, row: Mapping[str, Any]) -> str | None:
    """The bookie to copy off: one that lacks entries, first of those that are there; None: nobody can."""
    if row["id"] == "mark-stuck":
        evidence = json.loads(row["evidence"])
        names = [] if evidence["unrecoverable"] else evidence["replicas"]
    else:
        names = [part["bookie_id"] for part in row["missing"]]
    here = [name for name in names if now.bookies.get(name, {}).get("registered")]
    return next(iter([*here, *names]), None)


def _is_young(now: Situation, ledger: int) -> bool:
    """Whether AutoRecovery is about to copy it."""
    since = now.marks.since(ledger)
    late = now.facts.scan_time - EXPIRY_MS
    return now.works and since is not None and (now.marks.locked(ledger) or since >= late)


def _wait(
    now: Situation, bookie: str, findings: Sequence[PlanFinding], ledgers: Sequence[int], count: int
) -> PlanStep:
    return make_step(
        StepKind.WAIT,
        f"leave {plural(count, 'ledger')} marked for {bookie} to AutoRecovery",
        findings,
        [typed(LOOK, "listunderreplicated -pmr -prw", {})],
        bookie_id=bookie, effect=_WORKERS,
        risk="none; recover beside a worker makes copies twice, as it takes no lock", undo="nothing is done",
        ledgers=[PlannedLedger(str(each), None, None) for each in ledgers], ledger_count=count,
        expires=now.facts.scan_time + HOUR_MS,
        requires=[*_WORKING, Condition(Fact.MARKED, "", "yes")],
        done_when=[Condition(Fact.MARKED, "", "no")],
    )  # fmt: skip


def _together(groups: Sequence[tuple[str, FindingGroups]]) -> Iterator[list[tuple[str, FindingGroups]]]:
    """Groups by bookie, so many at once as one pass over the run's ledgers looks up."""
    some: list[tuple[str, FindingGroups]] = []
    for each in groups:
        some.append(each)
        if sum(len(found.ledgers) for _, found in some) >= _AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _copy(now: Situation, bookie: str, groups: FindingGroups, rows: Mapping[int, LedgerRow]) -> Steps:
    """Copy ledgers one by one off a bookie that lacks entries of them."""
    good: list[LedgerRow] = []
    bad: dict[tuple[RefusalReason, str, str], list[int]] = defaultdict(list)
    for ledger in groups.ledgers:
        row = rows.get(ledger)
        if (fault := _fault(now, bookie, row)) is None and row is not None:
            good.append(row)
        elif fault is not None:
            bad[fault].append(ledger)
    left = groups.count - len(groups.ledgers)
    if good:
        yield _copy_step(now, bookie, groups.named(), good, len(good) + left)
    for (reason, why, way), ledgers in bad.items():
        about = f"copy {plural(len(ledgers), 'ledger')} off {bookie}"
        yield refuse(StepKind.RECOVER, reason, about, why, way, groups.named(), ledgers)


def _fault(now: Situation, bookie: str, row: LedgerRow | None) -> tuple[RefusalReason, str, str] | None:
    if row is None or bookie not in row.members:
        return RefusalReason.UNSURE, f"no segment names {bookie} any more", "audit again"
    if row.state != LedgerState.CLOSED:
        return (
            RefusalReason.LIVE_WRITER,
            f"recover closes a ledger that is not closed, under its writer ({row.state})",
            "let its application close it, and plan again",
        )
    named = [each for each in row.ensembles if bookie in each]
    if not all(now.writable - {*ensemble} for ensemble in named):
        return RefusalReason.NO_SPARE, "no writable bookie is outside its ensemble", CAUSES[Cause.NO_SPARE][1]
    return None


def _copy_step(
    now: Situation, bookie: str, findings: Sequence[PlanFinding], rows: Sequence[LedgerRow], count: int
) -> PlanStep:
    ledgers = [row.planned() for row in rows]
    blanks = {"BOOKIE": bookie, **ledger_blanks([each.ledger_id for each in ledgers])}
    unlocked = [Condition(Fact.LOCKED, "", "no")] if now.facts.keeps_marks else []
    return make_step(
        StepKind.RECOVER, f"copy {plural(count, 'ledger')} off {bookie}, which lacks entries", findings,
        [
            typed(LOOK, "recover -dr -l ID BOOKIE", blanks),
            typed(DO, "recover -l ID BOOKIE", blanks),
        ],
        bookie_id=bookie, effect=f"another bookie has what {bookie} should have, and the metadata names it",
        bytes=sum(row.bytes for row in rows),
        risk=f"load; copies are made, the metadata is rewritten, and {bookie} collects what it had",
        undo="none is needed: no entry is deleted that has no other copy",
        ledgers=ledgers, ledger_count=count, expires=now.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.VERSION, "", "as listed"), *unlocked],
        done_when=[Condition(Fact.NAMES, bookie, "no")],
    )  # fmt: skip


def _lost_bookies(now: Situation, found: _Sorted) -> Steps:
    """What ledgers wait for on bookies that are not registered."""
    groups = now.by_bookie("on-unregistered-bookie")
    forgotten = now.by_bookie("mark-missing")
    if not groups:
        return
    causes = {each.cause for each in now.queue.blockers}
    lost = sorted({*groups, *forgotten})
    named = tuple(each for bookie in lost for each in _findings(bookie, groups, forgotten))
    if Cause.REPLICATION_OFF in causes:
        what, way = CAUSES[Cause.REPLICATION_OFF]
        about = f"have the ledgers of {first_names(lost, _NAMED)} copied"
        yield refuse(
            StepKind.REQUEUE, RefusalReason.SWITCHED_OFF, about, what,
            f"find out who switched it off and why, then {way}, and plan again", named,
        )  # fmt: skip
    elif causes:
        yield from _recover_all(now, lost, named, causes)
    elif now.queue.doubts:
        what = "marks of under-replication were not read: what AutoRecovery does is not known"
        about = f"have the ledgers of {first_names(lost, _NAMED)} copied"
        yield refuse(StepKind.REQUEUE, RefusalReason.UNKNOWN_INPUT, about, what, "audit again", named)
    else:
        if sure := {bookie: each for bookie, each in forgotten.items() if each.sure}:
            yield _requeue(now, sure)
        for bookie, each in forgotten.items():
            if not each.sure:
                about = f"have the ledgers of {bookie} marked"
                why, way = _WAYS[RefusalReason.UNSURE]
                yield refuse(StepKind.REQUEUE, RefusalReason.UNSURE, about, why, way, each.named())
        marked = now.marks_of([each for each in lost if each not in forgotten])
        for bookie, (count, ledgers) in marked.items():
            also = found.waiting.pop(bookie, FindingGroups())
            ledgers = list(dict.fromkeys([*ledgers, *also.ledgers]))[:MOST_LEDGERS]
            findings = (*_findings(bookie, groups, forgotten), *also.named())
            yield _wait(now, bookie, findings, ledgers, max(count, len(ledgers)))


def _findings(bookie: str, *groups: Mapping[str, FindingGroups]) -> tuple[PlanFinding, ...]:
    return tuple(each for some in groups if bookie in some for each in some[bookie].named())


def _requeue(now: Situation, forgotten: Mapping[str, FindingGroups]) -> PlanStep:
    bookies = sorted(forgotten)
    rows = ledgers_naming(now.run, bookies, MOST_LEDGERS, closed=False, without=now.marks.ids)
    ledgers = [row.planned() for row in rows]
    count = sum(forgotten[each]["mark-missing"].evidence["unmarked"] for each in bookies)
    return make_step(
        StepKind.REQUEUE,
        f"have {plural(count, 'ledger')} of {first_names(bookies, _NAMED)} marked, which the auditor forgot",
        [each for bookie in bookies for each in forgotten[bookie].named()],
        [typed(LOOK, "lostbookierecoverydelay -g", {}), typed(DO, "triggeraudit", {})],
        effect="the auditor marks every ledger of every bookie that is not registered, and workers copy them",
        risk="writes; copying loads the bookies", undo="`autorecovery -d` holds the workers; marks stay",
        needs=[f"{first_names(bookies, _NAMED)} will not be back soon: else start it, and copy nothing"],
        ledgers=ledgers, ledger_count=_count(ledgers, count), expires=now.facts.scan_time + EXPIRY_MS,
        requires=[*_WORKING, *(Condition(Fact.REGISTERED, each, "no") for each in bookies)],
        done_when=[Condition(Fact.QUEUED, each, "yes") for each in bookies],
    )  # fmt: skip


def _recover_all(
    now: Situation, lost: Sequence[str], findings: tuple[PlanFinding, ...], causes: set[Cause]
) -> Steps:
    """Copy what lost bookies should have without AutoRecovery, by a rehearsal of that."""
    rehearsal, stuck = rehearse_by_ledger(now.run, lost)
    trial = rehearsal.together
    names = first_names(lost, _NAMED)
    for blocker in trial.blockers:
        if blocker.cause in OF_LEDGERS:
            yield _blocked(names, blocker, findings)
    if trial.work.open_ends:
        yield refuse(
            StepKind.RECOVER, RefusalReason.LIVE_WRITER,
            f"copy {plural(trial.work.open_ends, 'ledger')} that are not closed off {names}",
            "recover closes them under their writers; -sk leaves open ones alone, not those in recovery",
            "let their applications close them, and plan again", findings, (), trial.work.open_ends,
        )  # fmt: skip
    if not trial.work.ledgers - trial.work.open_ends:
        return
    rows = list(ledgers_naming(now.run, lost, MOST_LEDGERS, without=stuck))
    blanks = {"BOOKIE": ",".join(lost)}
    why = "; ".join(CAUSES[each][0] for each in sorted(causes))
    yield make_step(
        StepKind.RECOVER, f"copy what {names} should have to other bookies, without AutoRecovery", findings,
        [
            typed(LOOK, "recover -dr -sk -sku BOOKIE", blanks),
            typed(DO, "recover -sk -sku BOOKIE", blanks),
        ],
        bookie_id=lost[0] if len(lost) == 1 else None,
        effect=f"no closed ledger with copies elsewhere names {names} any more. AutoRecovery: {why}",
        bytes=trial.work.copied_bytes,
        risk="danger; without -rate it copies unthrottled; it takes no lock, and closes ledgers in recovery",
        undo="none is needed: no entry is deleted that has no other copy",
        needs=[
            f"{names} will not be back with its disks: else start it, and copy nothing",
            *(f"rather, where you can: {CAUSES[each][1]}" for each in sorted(causes)),
        ],
        ledgers=[row.planned() for row in rows], ledger_count=_count(rows, trial.work.ledgers),
        expires=now.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.REGISTERED, each, "no") for each in lost],
        done_when=[Condition(Fact.NAMES, each, "no") for each in lost],
    )  # fmt: skip


def _count(listed: Sequence[object], count: int) -> int:
    """How many ledgers there are: those that are listed, unless only the first are."""
    return len(listed) if len(listed) < MOST_LEDGERS else max(len(listed), count)


def _blocked(names: str, blocker: Blocker, findings: tuple[PlanFinding, ...]) -> RefusedStep:
    why, way = CAUSES[blocker.cause]
    return refuse(
        StepKind.RECOVER, _REASONS[blocker.cause], f"copy {plural(blocker.ledgers, 'ledger')} off {names}",
        why, way, findings, [int(each.ledger_id) for each in blocker.samples], blocker.ledgers,
    )  # fmt: skip
