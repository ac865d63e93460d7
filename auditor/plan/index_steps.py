"""Steps that rebuild an index of a bookie from its entry logs."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditor.actions import procedures
from auditor.actions.gate import permit
from auditor.actions.objects import bookie as bookie_object
from auditor.actions.objects import ledger as ledger_object
from auditor.model.arrow import ds, pa
from auditor.model.finding import Confidence
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed
from auditor.model.plan import EXPIRY_MS, PlanCommand, PlanStep, RefusedStep
from auditor.model.states import IndexState
from auditor.plan.bookie_steps import Steps, refuse_last_holders, refuse_unconfirmed, refuse_unstored_copies
from auditor.plan.parts import make_step, permit_or_refuse, planned_ledgers
from auditor.plan.plan_facts import INDEX_FAULTS, MAX_LEDGERS, PlanFacts, StepFindings
from auditor.sources.bookies.parts import ROCKSDB

_DATABASE_PATH_PATTERN = re.compile(r"/current/(ledgers|locations)(/|$)")
_FENCE_RISK = "after the rebuild, all of the bookie's ledgers are fenced and have no master key"
_REBUILD_RISK = "the rebuild takes a long time, and entries that are in no entry log stay lost"
_REBUILD_NEEDS: tuple[str, ...] = (
    "the bookie's index directories have been backed up",
    "the commands are run on the bookie's own host",
)
_BOTH_DATABASES = "ledgers and locations"


def bookies_with_recoverable_entries(row: Mapping[str, Any]) -> list[str]:
    """Return the bookies whose entry logs still have entries that a finding reports as lost.

    An entry counts as lost if no index lists it. ``row`` is the finding. The list is empty if the finding is
    not a confirmed loss of entries. It is also empty if the upper half of the ledger's 128-bit id (its scope)
    is not 0.

    >>> log = {"bookie_id": "bk1:3181", "lost_entries": 3}
    >>> row = {"id": "entry-lost", "confidence": "confirmed", "scope_id": 0}
    >>> bookies_with_recoverable_entries(row | {"evidence": json.dumps({"in_entry_logs": [log, log]})})
    ['bk1:3181']
    """
    # BookKeeper's shell takes no ledger of another scope than 0.
    if row["id"] != "entry-lost" or row["confidence"] != Confidence.CONFIRMED or row["scope_id"]:
        return []
    entry_logs = json.loads(row["evidence"]).get("in_entry_logs") or ()
    return sorted({entry_log["bookie_id"] for entry_log in entry_logs if entry_log["lost_entries"]})


def _add_recoverable_entries(
    plan_facts: PlanFacts, findings_by_bookie: dict[tuple[str, str], StepFindings]
) -> None:
    """Add findings about lost entries to ``findings_by_bookie`` if entry logs still have these entries.

    Each key is a pair: the bookie that has the log, and the kind of the index to rebuild.
    """
    finding_by_ledger_and_bookie: dict[tuple[int, str], dict[str, Any]] = {}
    for row in plan_facts.findings_of_checks("entry-lost"):
        for bookie in bookies_with_recoverable_entries(row):
            if plan_facts.bookies[bookie]["storage"] == ROCKSDB:
                if len(finding_by_ledger_and_bookie) < MAX_LEDGERS:
                    finding_by_ledger_and_bookie[row["ledger_id"], bookie] = row
            else:
                findings_by_bookie.setdefault((bookie, ".idx"), StepFindings()).add(row)
    if not finding_by_ledger_and_bookie:
        return
    # rebuild-db-ledger-locations-index finds only ledgers that the index of ledgers lists.
    ledger_ids = pa.array(sorted({ledger for ledger, _ in finding_by_ledger_and_bookie}), pa.int64())
    row_filter = (ds.field("scope_id") == 0) & ds.field("ledger_id").isin(ledger_ids)
    availability_rows = plan_facts.run.table("availability", ["ledger_id", "bookie_id"], row_filter)
    listed_copies = {(row["ledger_id"], row["bookie_id"]) for row in availability_rows.to_pylist()}
    bookies_without_ledger_index = {
        bookie for ledger, bookie in finding_by_ledger_and_bookie if (ledger, bookie) not in listed_copies
    }
    for (_, bookie), row in finding_by_ledger_and_bookie.items():
        database_kind = _BOTH_DATABASES if bookie in bookies_without_ledger_index else "locations"
        findings_by_bookie.setdefault((bookie, database_kind), StepFindings()).add(row)


def _bookies_with_both_damaged(plan_facts: PlanFacts) -> set[str]:
    """Return the bookies whose ledger database and location database are both damaged.

    A finding about a damaged index names only the first database.
    """
    if next(iter(plan_facts.findings_of_checks("index-unreadable")), None) is None:
        return set()
    is_damaged_database = (ds.field("state") == IndexState.DAMAGED.value) & (ds.field("storage") == ROCKSDB)
    databases_by_bookie: dict[str, set[str]] = {}
    for row in plan_facts.run.table("availability", ["bookie_id", "path"], is_damaged_database).to_pylist():
        if database_path_match := _DATABASE_PATH_PATTERN.search(row["path"]):
            databases_by_bookie.setdefault(row["bookie_id"], set()).add(database_path_match[1])
    return {bookie for bookie, database_names in databases_by_bookie.items() if len(database_names) > 1}


def rebuild_indexes(plan_facts: PlanFacts) -> Steps:
    """Yield a step for each damaged index, and for each index that lacks entries of the entry logs."""
    findings_by_bookie: dict[tuple[str, str], StepFindings] = {}
    damaged_files: dict[str, list[str]] = {}
    _add_recoverable_entries(plan_facts, findings_by_bookie)
    bookies_with_both_damaged = _bookies_with_both_damaged(plan_facts)
    for row in plan_facts.findings_of_checks(*INDEX_FAULTS):
        finding_evidence = json.loads(row["evidence"])
        database_path_match = _DATABASE_PATH_PATTERN.search(finding_evidence["path"])
        if row["id"] == "ledger-not-indexed":
            index_kind = "ledgers"
        elif finding_evidence["state"] == IndexState.MISPLACED:
            continue
        else:
            index_kind = database_path_match[1] if database_path_match else ".idx"
            if not database_path_match and finding_evidence["state"] == IndexState.UNREADABLE:
                damaged_files.setdefault(row["bookie_id"], []).append(finding_evidence["path"])
        if index_kind != ".idx" and (
            row["bookie_id"] in bookies_with_both_damaged
            or (row["bookie_id"], _BOTH_DATABASES) in findings_by_bookie
        ):
            index_kind = _BOTH_DATABASES
        findings_by_bookie.setdefault((row["bookie_id"], index_kind), StepFindings()).add(row)
        plan_facts.planned_counts[row["id"]] += 1
    for (bookie, index_kind), step_findings in sorted(findings_by_bookie.items()):
        index_text = "index files (.idx)" if index_kind == ".idx" else f"index of {index_kind}"
        title = f"rebuild the {index_text} of {bookie} from its entry logs"
        if not step_findings.are_confirmed:
            yield refuse_unconfirmed(ActionKind.REBUILD_INDEX, title, "audit again", step_findings)
        elif bookie in plan_facts.bookies_with_unstored_copies:
            yield refuse_unstored_copies(ActionKind.REBUILD_INDEX, title, step_findings)
        else:
            yield _rebuild_step(
                plan_facts, bookie, index_kind, title, step_findings, damaged_files.get(bookie, [])
            )


def _rebuild_step(
    plan_facts: PlanFacts,
    bookie: str,
    index_kind: str,
    title: str,
    step_findings: StepFindings,
    damaged_files: Sequence[str],
) -> PlanStep | RefusedStep:
    has_index_per_ledger = index_kind == ".idx"
    ledgers = step_findings.ledgers if has_index_per_ledger else []
    action_objects = (bookie_object(bookie), *map(ledger_object, ledgers))
    step_permission = permit_or_refuse(
        plan_facts.run, ActionKind.REBUILD_INDEX, title, step_findings.plan_findings(), *action_objects
    )
    if isinstance(step_permission, RefusedStep):
        return step_permission
    manual_commands: list[PlanCommand] = []
    if plan_facts.bookies[bookie]["registered"] is not None:
        stop_gate_answer = permit_or_refuse(
            plan_facts.run, ActionKind.STOP, title, step_findings.plan_findings(), action_objects[0]
        )
        if isinstance(stop_gate_answer, RefusedStep):
            return replace(stop_gate_answer, kind=ActionKind.REBUILD_INDEX)
        if last_holders := plan_facts.planned_stops.last_holders(bookie):
            return refuse_last_holders(
                plan_facts, ActionKind.REBUILD_INDEX, title, step_findings, [bookie], last_holders
            )
        stop_command = procedures.stop_bookie(stop_gate_answer, bookie, "the bookie releases its index")
        manual_commands.append(stop_command)
    placeholder_values = {"BOOKIE": bookie}
    if has_index_per_ledger:
        placeholder_values |= {"ID": str(ledgers[0])} if len(ledgers) == 1 else {}
        if damaged_files:
            manual_commands.append(procedures.move_index_files_away(step_permission, bookie, damaged_files))
        manual_commands += procedures.REGENERATE_INDEX_FILE.fill(step_permission, placeholder_values)
        undo_text = "put the old index file back"
    elif index_kind in ("ledgers", _BOTH_DATABASES):
        manual_commands += procedures.REBUILD_LEDGERS_INDEX.fill(step_permission, placeholder_values)
        undo_text = "with the bookie stopped, move current/ledgers away and ledgers.PREV-TIME to its place"
        if index_kind == _BOTH_DATABASES:
            manual_commands += procedures.REBUILD_LOCATIONS_INDEX.fill(step_permission, placeholder_values)
            undo_text += "; likewise current/locations and locations.BACKUP-TIME"
    else:
        manual_commands += procedures.REBUILD_LOCATIONS_INDEX.fill(step_permission, placeholder_values)
        undo_text = (
            "with the bookie stopped, move current/locations away and locations.BACKUP-TIME to its place"
        )
    start_gate_answer, preconditions = (
        permit(plan_facts.run, ActionKind.START, action_objects[:1], previous_action=step_permission),
        _REBUILD_NEEDS,
    )
    if isinstance(start_gate_answer, Allowed):
        manual_commands.append(procedures.start_bookie(start_gate_answer, bookie))
    else:
        preconditions = (*preconditions, f"{bookie} stays stopped: {start_gate_answer.sentence}")
        plan_facts.planned_stops.add(bookie)
    return make_step(
        step_permission, title, step_findings.plan_findings(), manual_commands, urgency=step_findings.urgency,
        bookie_id=bookie, effect_text="the bookie lists and serves the entries in its entry logs",
        risk_text=f"danger; {_FENCE_RISK if index_kind in ('ledgers', _BOTH_DATABASES) else _REBUILD_RISK}",
        undo_text=undo_text, preconditions=preconditions,
        ledgers=planned_ledgers(plan_facts.run, ledgers),
        ledger_count=step_findings.count if has_index_per_ledger else 0,
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=step_findings.make_conditions("there"),
        done_conditions=step_findings.make_conditions("gone"),
    )  # fmt: skip
