"""Steps about metadata of ledgers: restore lost metadata of ledgers with an owner, delete unowned ledgers."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

from auditor.actions import procedures
from auditor.model.amounts import plural
from auditor.model.finding import Confidence, Severity
from auditor.model.holds import ActionKind
from auditor.model.ledger_metadata import LedgerState
from auditor.model.plan import (
    EXPIRY_MS,
    Condition,
    Fact,
    PlannedLedger,
    PlanStep,
    RefusalReason,
    RefusedStep,
)
from auditor.plan.parts import ledgers_of, ledgers_of_permission, make_step, permit_each_ledger, refuse
from auditor.plan.situation import FindingGroups, Situation

_FILE_NAME = "{}.metadata"


def ledger_blanks(ledgers: Sequence[str]) -> dict[str, str]:
    """Return the values that replace the words ID and FILE in a command.

    With several ledgers the word ID stays, and a person types it for one ledger after the other.

    >>> ledger_blanks(["42"]), ledger_blanks(["42", "43"])
    ({'ID': '42', 'FILE': '42.metadata'}, {'FILE': 'ID.metadata'})
    """
    if len(ledgers) == 1:
        return {"ID": ledgers[0], "FILE": _FILE_NAME.format(ledgers[0])}
    return {"FILE": _FILE_NAME.format("ID")}


def restore_metadata(situation: Situation) -> Iterator[PlanStep | RefusedStep]:
    """Yield restores of metadata that the store lacks, if an owner and a bookie still have the ledger."""
    named_ledgers: dict[int, dict[str, object]] = {}
    for row in situation.findings_of_checks("owner-dangling"):
        if row["severity"] == Severity.ERROR:
            named_ledgers.setdefault(row["ledger_id"], row)
            situation.addressed[row["id"]] += 1
    holders: dict[int, list[str]] = defaultdict(list)
    for row in situation.rows_of("orphan-ledger") if named_ledgers else ():
        if row["ledger_id"] in named_ledgers:
            holders[row["ledger_id"]].append(row["bookie_id"])
            situation.addressed[row["id"]] += not row["accepted"]
    confirmed_groups, unconfirmed_groups, lost_ledgers = FindingGroups(), FindingGroups(), FindingGroups()
    for ledger, row in named_ledgers.items():
        if ledger not in holders:
            lost_ledgers.add(row)
        else:
            (confirmed_groups if row["confidence"] == Confidence.CONFIRMED else unconfirmed_groups).add(row)
    template = "put back the metadata of {}, which an owner names"
    if confirmed_groups:
        bookies = sorted({name for ledger in confirmed_groups.ledgers for name in holders[ledger]})
        yield from _restore_steps(situation, template, confirmed_groups, bookies)
    yield from _refuse_cases(
        ActionKind.RESTORE_METADATA, template,
        (unconfirmed_groups, RefusalReason.UNSURE, "it is only suspected that the store lacks these ledgers",
         "audit again, with owners and bookies"),
        (lost_ledgers, RefusalReason.NO_COPY, "no bookie that was read has entries of these ledgers",
         "read the other bookies too; if none has entries, the ledgers are lost"),
    )  # fmt: skip


def _refuse_cases(
    kind: ActionKind, template: str, *refusal_cases: tuple[FindingGroups, RefusalReason, str, str]
) -> Iterator[RefusedStep]:
    """Yield a refusal for each case that has findings.

    A case has its findings, the reason, an explanation, and what to do. ``template`` has ``{}`` for the
    number of ledgers.
    """
    for groups, reason, why, way_out in refusal_cases:
        if groups:
            title = template.format(plural(groups.count, "ledger"))
            yield refuse(kind, reason, title, why, way_out, groups.named(), groups.ledgers, groups.count)


def _restore_steps(
    situation: Situation, template: str, groups: FindingGroups, bookies: Sequence[str]
) -> Iterator[PlanStep | RefusedStep]:
    kind = ActionKind.RESTORE_METADATA
    allowed, refused_steps = permit_each_ledger(
        situation.run, kind, template, groups.named(), (), groups.ledgers
    )
    yield from refused_steps
    if allowed is None:
        return
    permitted_ids = ledgers_of_permission(allowed)
    ids = [ledger for ledger in groups.ledgers if ledger in permitted_ids]
    count = groups.count - sum(step.ledger_count for step in refused_steps)
    ledgers = tuple(PlannedLedger(str(ledger), None, None) for ledger in ids)
    blanks = ledger_blanks([ledger.ledger_id for ledger in ledgers])
    names = ", ".join(bookies)
    yield make_step(
        allowed, f"{template.format(plural(count, 'ledger'))}, before they are collected on {names}",
        groups.named(), procedures.RESTORE_METADATA.filled(allowed, blanks), urgency=groups.urgency,
        effect=f"the store lists the ledger again, and its entries stay on {names}",
        risk="writes; the record may be older than the ledger's last ensemble change, so audit afterwards",
        undo="replace it with a correct record",
        needs=[
            f"{blanks['FILE']}: the output of ledgermetadata -dumptofile from before the ledger was deleted, "
            "or from a ZooKeeper started from a backup",
            f"prevent garbage collection on {names} before that: it runs every gcWaitTime (10 "
            "minutes by default)",
        ],
        ledgers=ledgers, ledger_count=count, expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.LISTED, "", "no")], done_when=[Condition(Fact.LISTED, "", "yes")],
    )  # fmt: skip


def delete_ledgers(situation: Situation) -> Iterator[PlanStep | RefusedStep]:
    """Yield deletions of unowned ledgers, if two runs a ledger rollover apart confirm that no owner has them.

    Every owner must have been read. Runs of earlier releases do not say whether it was, so deletions of their
    ledgers are refused.
    """
    confirmed_groups, unconfirmed_groups, unproved_groups, open_groups = (
        FindingGroups(),
        FindingGroups(),
        FindingGroups(),
        FindingGroups(),
    )
    for row in situation.findings_of_checks("ledger-unowned"):
        evidence = json.loads(row["evidence"])
        situation.addressed[row["id"]] += 1
        if not evidence.get("owners_complete"):
            unproved_groups.add(row)
        elif row["confidence"] != Confidence.CONFIRMED or not evidence["seen_before"]:
            unconfirmed_groups.add(row)
        elif evidence["state"] != LedgerState.CLOSED:
            open_groups.add(row)
        else:
            confirmed_groups.add(row)
    if confirmed_groups:
        yield from _delete_steps(situation, confirmed_groups)
    yield from _refuse_cases(
        ActionKind.DELETE_LEDGER, "delete {} that no owner names",
        (unproved_groups, RefusalReason.UNSURE,
         "not every owner was read: another application may use these ledgers",
         "audit with every store of owners (--owners), declare the stores complete (--owners-complete), "
         "and plan again"),
        (unconfirmed_groups, RefusalReason.UNSURE,
         "no two runs at least 4 hours (a rollover) apart confirm it: a broker may still add the ledger "
         "to a topic",
         "audit again, later by at least --owner-grace and 4 hours, and plan again"),
        (open_groups, RefusalReason.LIVE_WRITER, "these ledgers are not closed: a writer may have them open",
         "let their application close them first"),
    )  # fmt: skip


def _delete_steps(situation: Situation, groups: FindingGroups) -> Iterator[PlanStep | RefusedStep]:
    template, kind = "delete {} that no owner names, as two runs saw", ActionKind.DELETE_LEDGER
    allowed, refused_steps = permit_each_ledger(
        situation.run, kind, template, groups.named(), (), groups.ledgers
    )
    yield from refused_steps
    if allowed is None:
        return
    rows = ledgers_of(situation.run, groups.ledgers)
    permitted_ids = ledgers_of_permission(allowed)
    ids = [id for id in groups.ledgers if id in rows and id in permitted_ids]
    if not ids:
        return
    count = groups.count - sum(step.ledger_count for step in refused_steps)
    blanks = ledger_blanks([str(ledger) for ledger in ids])
    yield make_step(
        allowed, template.format(plural(count, "ledger")), groups.named(),
        procedures.DELETE_LEDGER.filled(allowed, blanks), urgency=groups.urgency,
        effect="bookies free their entries at the next collection and compaction",
        bytes=sum(rows[id].bytes for id in ids),
        risk="danger; once bookies have collected a ledger it cannot be restored",
        undo="its dump puts the metadata back, until the first bookie has collected the ledger",
        needs=[
            "the owner of the topics confirms that they were deleted on purpose, and plans no restore",
            "run plan check right before, and delete ledgers one by one: the command asks for confirmation "
            "of each",
        ],
        ledgers=[rows[id].planned() for id in ids], ledger_count=count,
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.VERSION, "", "as listed"), Condition(Fact.UNOWNED, "", "yes")],
        done_when=[Condition(Fact.LISTED, "", "no")],
    )  # fmt: skip
