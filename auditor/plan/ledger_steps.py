"""Steps about the metadata of ledgers.

They restore lost metadata of ledgers that an owner (such as a Pulsar topic) uses, and delete ledgers
without an owner.
"""

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
from auditor.plan.parts import ledgers_of_permission, make_step, permit_each_ledger, read_ledgers, refuse
from auditor.plan.plan_facts import PlanFacts, StepFindings

_METADATA_FILE_NAME = "{}.metadata"


def ledger_placeholder_values(ledgers: Sequence[str]) -> dict[str, str]:
    """Return the values that replace the placeholders ID and FILE in a command.

    If there are several ledgers, ID stays in the command. A person replaces it with one ledger id after the
    other.

    >>> ledger_placeholder_values(["42"]), ledger_placeholder_values(["42", "43"])
    ({'ID': '42', 'FILE': '42.metadata'}, {'FILE': 'ID.metadata'})
    """
    if len(ledgers) == 1:
        return {"ID": ledgers[0], "FILE": _METADATA_FILE_NAME.format(ledgers[0])}
    return {"FILE": _METADATA_FILE_NAME.format("ID")}


def restore_metadata(plan_facts: PlanFacts) -> Iterator[PlanStep | RefusedStep]:
    """Yield a step that restores the metadata of ledgers that an owner names and the store lacks.

    An owner is, for example, a Pulsar topic. Ledgers without entries on any bookie get a refusal instead.
    """
    rows_of_named_ledgers: dict[int, dict[str, object]] = {}
    for row in plan_facts.findings_of_checks("owner-dangling"):
        if row["severity"] == Severity.ERROR:
            rows_of_named_ledgers.setdefault(row["ledger_id"], row)
            plan_facts.planned_counts[row["id"]] += 1
    holders_by_ledger: dict[int, list[str]] = defaultdict(list)
    for row in plan_facts.rows_of_checks("orphan-ledger") if rows_of_named_ledgers else ():
        if row["ledger_id"] in rows_of_named_ledgers:
            holders_by_ledger[row["ledger_id"]].append(row["bookie_id"])
            plan_facts.planned_counts[row["id"]] += not row["accepted"]
    confirmed_findings, unconfirmed_findings, findings_without_copy = (
        StepFindings(),
        StepFindings(),
        StepFindings(),
    )
    for ledger, row in rows_of_named_ledgers.items():
        if ledger not in holders_by_ledger:
            findings_without_copy.add(row)
        else:
            (confirmed_findings if row["confidence"] == Confidence.CONFIRMED else unconfirmed_findings).add(
                row
            )
    title_template = "restore the metadata of {}, which an owner names"
    if confirmed_findings:
        bookies = sorted(
            {bookie for ledger in confirmed_findings.ledgers for bookie in holders_by_ledger[ledger]}
        )
        yield from _restore_steps(plan_facts, title_template, confirmed_findings, bookies)
    yield from _refuse_cases(
        ActionKind.RESTORE_METADATA, title_template,
        (unconfirmed_findings, RefusalReason.UNPROVED,
         "it is not confirmed that the store lacks these ledgers",
         "audit again with owners and bookies"),
        (findings_without_copy, RefusalReason.NO_COPY,
         "no bookie that was read has entries of these ledgers",
         "also read the other bookies; if none of them has entries, the ledgers are lost"),
    )  # fmt: skip


def _refuse_cases(
    action_kind: ActionKind, title_template: str, *refusal_cases: tuple[StepFindings, RefusalReason, str, str]
) -> Iterator[RefusedStep]:
    """Yield a refusal for each case that has findings.

    A case is a tuple of findings, reason, reason in words, and way out. ``title_template`` is the title, with
    ``{}`` in the place of the number of ledgers.
    """
    for step_findings, refusal_reason, reason_text, way_out in refusal_cases:
        if step_findings:
            title = title_template.format(plural(step_findings.count, "ledger"))
            yield refuse(
                action_kind,
                refusal_reason,
                title,
                reason_text,
                way_out,
                step_findings.plan_findings(),
                step_findings.ledgers,
                step_findings.count,
            )


def _restore_steps(
    plan_facts: PlanFacts, title_template: str, step_findings: StepFindings, bookies: Sequence[str]
) -> Iterator[PlanStep | RefusedStep]:
    action_kind = ActionKind.RESTORE_METADATA
    step_permission, refused_steps = permit_each_ledger(
        plan_facts.run, action_kind, title_template, step_findings.plan_findings(), (), step_findings.ledgers
    )
    yield from refused_steps
    if step_permission is None:
        return
    permitted_ids = ledgers_of_permission(step_permission)
    ledger_ids = [ledger for ledger in step_findings.ledgers if ledger in permitted_ids]
    ledger_count = step_findings.count - sum(refused_step.ledger_count for refused_step in refused_steps)
    ledgers = tuple(PlannedLedger(str(ledger), None, None) for ledger in ledger_ids)
    placeholder_values = ledger_placeholder_values([ledger.ledger_id for ledger in ledgers])
    bookies_text = ", ".join(bookies)
    yield make_step(
        step_permission,
        f"{title_template.format(plural(ledger_count, 'ledger'))}, "
        f"before garbage collection on {bookies_text} deletes them",
        step_findings.plan_findings(),
        procedures.RESTORE_METADATA.fill(step_permission, placeholder_values),
        urgency=step_findings.urgency,
        effect_text=f"the store lists the ledger again, and its entries stay on {bookies_text}",
        risk_text="writes; the record may predate the ledger's last ensemble change, so "
        "audit afterwards",
        undo_text="replace the record with a correct one",
        preconditions=[
            f"{placeholder_values['FILE']}: the output of ledgermetadata -dumptofile. It is from before "
            "the ledger was deleted, or from a ZooKeeper server started from a backup",
            f"prevent garbage collection on {bookies_text} until the metadata is restored: it runs every "
            "gcWaitTime (10 minutes by default)",
        ],
        ledgers=ledgers, ledger_count=ledger_count, expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.LISTED, "", "no")],
        done_conditions=[Condition(Fact.LISTED, "", "yes")],
    )  # fmt: skip


def delete_ledgers(plan_facts: PlanFacts) -> Iterator[PlanStep | RefusedStep]:
    """Yield the deletions of ledgers without an owner (such as a Pulsar topic), or refusals to delete them.

    A deletion needs two runs that read every owner and found no owner of the ledger. The runs must be at
    least one ledger rollover apart. Runs of earlier releases do not show whether they read every owner, so
    deletions based on them are refused.
    """
    confirmed_findings, unconfirmed_findings, unproved_findings, open_ledger_findings = (
        StepFindings(),
        StepFindings(),
        StepFindings(),
        StepFindings(),
    )
    for row in plan_facts.findings_of_checks("ledger-unowned"):
        finding_evidence = json.loads(row["evidence"])
        plan_facts.planned_counts[row["id"]] += 1
        if not finding_evidence.get("owners_complete"):
            unproved_findings.add(row)
        elif row["confidence"] != Confidence.CONFIRMED or not finding_evidence["seen_before"]:
            unconfirmed_findings.add(row)
        elif finding_evidence["state"] != LedgerState.CLOSED:
            open_ledger_findings.add(row)
        else:
            confirmed_findings.add(row)
    if confirmed_findings:
        yield from _delete_steps(plan_facts, confirmed_findings)
    yield from _refuse_cases(
        ActionKind.DELETE_LEDGER, "delete {} that no owner names",
        (unproved_findings, RefusalReason.UNPROVED,
         "not every owner was read, so another application may use these ledgers",
         "audit with every owner store (--owners), declare the stores complete (--owners-complete), "
         "and plan again"),
        (unconfirmed_findings, RefusalReason.UNPROVED,
         "two runs at least 4 hours (a rollover) apart must find no owner. Before that, a broker may add the "
         "ledger to a topic",
         "audit again at least --owner-grace and at least 4 hours later, and plan again"),
        (open_ledger_findings, RefusalReason.LIVE_WRITER,
         "these ledgers are not closed, so a writer may have them open",
         "let the application close the ledgers first"),
    )  # fmt: skip


def _delete_steps(plan_facts: PlanFacts, step_findings: StepFindings) -> Iterator[PlanStep | RefusedStep]:
    title_template, action_kind = "delete {} that no owner named in two runs", ActionKind.DELETE_LEDGER
    step_permission, refused_steps = permit_each_ledger(
        plan_facts.run, action_kind, title_template, step_findings.plan_findings(), (), step_findings.ledgers
    )
    yield from refused_steps
    if step_permission is None:
        return
    rows = read_ledgers(plan_facts.run, step_findings.ledgers)
    permitted_ids = ledgers_of_permission(step_permission)
    ledger_ids = [
        ledger_id for ledger_id in step_findings.ledgers if ledger_id in rows and ledger_id in permitted_ids
    ]
    if not ledger_ids:
        return
    ledger_count = step_findings.count - sum(refused_step.ledger_count for refused_step in refused_steps)
    placeholder_values = ledger_placeholder_values([str(ledger) for ledger in ledger_ids])
    yield make_step(
        step_permission, title_template.format(plural(ledger_count, "ledger")), step_findings.plan_findings(),
        procedures.DELETE_LEDGER.fill(step_permission, placeholder_values), urgency=step_findings.urgency,
        effect_text="bookies free the ledgers' entries at the next garbage collection and compaction",
        bytes=sum(rows[ledger_id].bytes for ledger_id in ledger_ids),
        risk_text="danger; once bookies have garbage-collected a ledger, it cannot be restored",
        undo_text="restore the metadata from its dump; this works until a bookie garbage-collects the ledger",
        preconditions=[
            "the topics' owner confirms that they were deleted on purpose and will not be restored",
            "run `bkaudit plan check` right before the deletion. Then delete ledgers one by one: "
            "deleteledger asks for confirmation of each",
        ],
        ledgers=[rows[ledger_id].as_planned_ledger() for ledger_id in ledger_ids], ledger_count=ledger_count,
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.VERSION, "", "as listed"), Condition(Fact.UNOWNED, "", "yes")],
        done_conditions=[Condition(Fact.LISTED, "", "no")],
    )  # fmt: skip
