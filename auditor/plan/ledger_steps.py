"""Steps about metadata of ledgers: put back what an owner still names, delete what nobody owns."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

from auditor.model.amounts import plural
from auditor.model.finding import Confidence, Severity
from auditor.model.ledger_metadata import LedgerState
from auditor.model.plan import Condition, Fact, PlannedLedger, PlanStep, RefusalReason, RefusedStep, StepKind
from auditor.plan.parts import DO, EXPIRY_MS, LOOK, SAVE, UNDO, ledgers_of, make_step, refuse, typed
from auditor.plan.situation import FindingGroups, Situation

_FILE = "{}.metadata"


def ledger_blanks(ledgers: Sequence[str]) -> dict[str, str]:
    """What fills a command's ID and FILE in; of several ledgers ID stays, for each in turn.

    >>> ledger_blanks(["42"]), ledger_blanks(["42", "43"])
    ({'ID': '42', 'FILE': '42.metadata'}, {'FILE': 'ID.metadata'})
    """
    if len(ledgers) == 1:
        return {"ID": ledgers[0], "FILE": _FILE.format(ledgers[0])}
    return {"FILE": _FILE.format("ID")}


def restore_metadata(now: Situation) -> Iterator[PlanStep | RefusedStep]:
    """Ledgers that an owner names, the store lacks, and a bookie still has."""
    named: dict[int, dict[str, object]] = {}
    for row in now.asking("owner-dangling"):
        if row["severity"] == Severity.ERROR:
            named.setdefault(row["ledger_id"], row)
            now.addressed[row["id"]] += 1
    holders: dict[int, list[str]] = defaultdict(list)
    for row in now.rows_of("orphan-ledger") if named else ():
        if row["ledger_id"] in named:
            holders[row["ledger_id"]].append(row["bookie_id"])
            now.addressed[row["id"]] += not row["accepted"]
    sure, unsure, gone = FindingGroups(), FindingGroups(), FindingGroups()
    for ledger, row in named.items():
        if ledger not in holders:
            gone.add(row)
        else:
            (sure if row["confidence"] == Confidence.CONFIRMED else unsure).add(row)
    about = "put back the metadata of {}, which an owner names"
    if sure:
        bookies = sorted({name for ledger in sure.ledgers for name in holders[ledger]})
        yield _restore(now, about.format(plural(sure.count, "ledger")), sure, bookies)
    yield from _refusals(
        StepKind.RESTORE, about,
        (unsure, RefusalReason.UNSURE, "that the store lacks them is suspected only",
         "audit again, owners and bookies with it"),
        (gone, RefusalReason.NO_COPY, "no bookie that was read has an entry of them",
         "read the other bookies; else they are lost"),
    )  # fmt: skip


def _refusals(
    kind: StepKind, about: str, *cases: tuple[FindingGroups, RefusalReason, str, str]
) -> Iterator[RefusedStep]:
    """A refusal of each case that has findings: these, the reason, why, and the way out."""
    for groups, reason, why, way in cases:
        if groups:
            of = about.format(plural(groups.count, "ledger"))
            yield refuse(kind, reason, of, why, way, groups.named(), groups.ledgers, groups.count)


def _restore(now: Situation, about: str, groups: FindingGroups, bookies: Sequence[str]) -> PlanStep:
    ledgers = tuple(PlannedLedger(str(each), None, None) for each in groups.ledgers)
    blanks = ledger_blanks([each.ledger_id for each in ledgers])
    where = ", ".join(bookies)
    return make_step(
        StepKind.RESTORE, f"{about}, before they are collected on {where}", groups.named(),
        [
            typed(LOOK, "ledgermetadata -l ID", blanks),
            typed(DO, "ledgermetadata -l ID -restorefromfile FILE", blanks),
            typed(UNDO, "deleteledger -l ID", blanks),
        ],
        effect=f"the store lists the ledger again, and its entries stay on {where}",
        risk="writes; the record may be older than the ledger's last ensemble change, so audit afterwards",
        undo="delete the ledger again, before anything else is written",
        needs=[
            f"{blanks['FILE']}: what ledgermetadata -dumptofile wrote before the ledger went, or writes "
            "on a ZooKeeper that was started from a backup of the store",
            f"no collection on {where} before that: each passes every gcWaitTime (10 minutes unless set)",
        ],
        ledgers=ledgers, ledger_count=groups.count, expires=now.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.LISTED, "", "no")], done_when=[Condition(Fact.LISTED, "", "yes")],
    )  # fmt: skip


def delete_ledgers(now: Situation) -> Iterator[PlanStep | RefusedStep]:
    """Ledgers whose owner is gone, where two runs apart saw it; all others are refused."""
    sure, unsure, written = FindingGroups(), FindingGroups(), FindingGroups()
    for row in now.asking("ledger-unowned"):
        evidence = json.loads(row["evidence"])
        now.addressed[row["id"]] += 1
        if row["confidence"] != Confidence.CONFIRMED or not evidence["seen_before"]:
            unsure.add(row)
        elif evidence["state"] != LedgerState.CLOSED:
            written.add(row)
        else:
            sure.add(row)
    if sure:
        yield _delete(now, sure)
    yield from _refusals(
        StepKind.DELETE, "delete {} that no owner names",
        (unsure, RefusalReason.UNSURE, "one run saw no owner: a broker may be about to write it",
         "audit again, later by more than --owner-grace, and plan then"),
        (written, RefusalReason.LIVE_WRITER, "they are not closed: a writer may have them open",
         "close them first, by their application"),
    )  # fmt: skip


def _delete(now: Situation, groups: FindingGroups) -> PlanStep:
    rows = ledgers_of(now.run, groups.ledgers)
    ledgers = tuple(rows[each].planned() for each in groups.ledgers if each in rows)
    blanks = ledger_blanks([each.ledger_id for each in ledgers])
    return make_step(
        StepKind.DELETE,
        f"delete {plural(groups.count, 'ledger')} that no owner names, as two runs saw",
        groups.named(),
        [
            typed(LOOK, "ledgermetadata -l ID", blanks),
            typed(SAVE, "ledgermetadata -l ID -dumptofile FILE", blanks),
            typed(DO, "deleteledger -l ID", blanks),
            typed(UNDO, "ledgermetadata -l ID -restorefromfile FILE", blanks),
        ],
        effect="bookies free what they hold of them at their next collection and compaction",
        bytes=sum(row.bytes for row in rows.values()),
        risk="danger; once bookies have collected a ledger nothing brings it back",
        undo="its dump puts the metadata back, until the first bookie has collected the ledger",
        needs=[
            "whoever owns the topics says that they were deleted on purpose, and plans no restore of them",
            "plan check right before, and one ledger after the other: the command asks about each",
        ],
        ledgers=ledgers, ledger_count=groups.count, expires=now.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.VERSION, "", "as listed"), Condition(Fact.UNOWNED, "", "yes")],
        done_when=[Condition(Fact.LISTED, "", "no")],
    )  # fmt: skip
