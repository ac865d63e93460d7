"""Steps that make needed copies readable again: put exchanged disks back, and start bookies.

`auditor.plan.replication_steps` makes no copies for a bookie that a step of this module starts.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from auditor.actions import procedures
from auditor.actions.objects import bookie as bookie_object
from auditor.model.amounts import first_names, plural
from auditor.model.arrow import ds
from auditor.model.finding import Confidence, Urgency
from auditor.model.holds import ActionKind, FactReason
from auditor.model.plan import EXPIRY_MS, Condition, Fact, PlanStep, RefusedStep
from auditor.plan.bookie_steps import refuse_last_holders
from auditor.plan.parts import make_step, permit_or_refuse, read_ledgers
from auditor.plan.plan_facts import EXCHANGE_CHECKS, MAX_LEDGERS, PlanFacts, StepFindings

Steps = Iterator[PlanStep | RefusedStep]

_MAX_NAMES_SHOWN = 5


def put_disks_back(plan_facts: PlanFacts) -> Steps:
    """Yield a step for each set of bookies that exchanged disks or directories."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in plan_facts.findings_of_checks(*EXCHANGE_CHECKS):
        if (
            row["confidence"] == Confidence.CONFIRMED
            and row["bookie_id"] in plan_facts.exchanged_disk_findings
        ):
            rows[row["bookie_id"]].append(row)
            plan_facts.planned_counts[row["id"]] += 1
    exchange_partners = {name: _find_disk_partners(name, bookie_rows) for name, bookie_rows in rows.items()}
    remaining_bookies = sorted(rows)
    while remaining_bookies:
        exchanging_bookies = _find_exchanging_bookies(remaining_bookies[0], exchange_partners)
        remaining_bookies = [name for name in remaining_bookies if name not in exchanging_bookies]
        yield _put_back_steps(plan_facts, sorted(exchanging_bookies & rows.keys()), rows)


def _find_disk_partners(bookie: str, rows: list[dict[str, Any]]) -> set[str]:
    """Return this bookie, and the bookies that the VERSION files on its disks name."""
    directories = [directory for row in rows for directory in json.loads(row["evidence"])["directories"]]
    return {bookie, *(directory["names"] for directory in directories if directory.get("names"))}


def _find_exchanging_bookies(bookie: str, exchange_partners: Mapping[str, set[str]]) -> set[str]:
    exchanging_bookies, pending_bookies = set[str](), {bookie}
    while pending_bookies:
        name = pending_bookies.pop()
        exchanging_bookies.add(name)
        pending_bookies |= exchange_partners.get(name, set()) - exchanging_bookies
        pending_bookies |= {
            partner for partner, names in exchange_partners.items() if name in names
        } - exchanging_bookies
    return exchanging_bookies


def _put_back_steps(
    plan_facts: PlanFacts, bookies: list[str], rows: Mapping[str, list[dict[str, Any]]]
) -> PlanStep | RefusedStep:
    step_findings, directory_texts = StepFindings(), dict[str, None]()
    finding_subjects: list[str] = []
    for name in bookies:
        for row in rows[name]:
            step_findings.add(row)
            finding_subjects.append(f"{row['id']} {row['fingerprint']} {name}")
            for directory in json.loads(row["evidence"])["directories"]:
                directory_texts[
                    f"{directory['path']} (of {directory['names']})"
                    if directory.get("names")
                    else directory["path"]
                ] = None
    names = first_names(bookies, _MAX_NAMES_SHOWN)
    title = f"move the disks of {names} back to their places"
    running_bookies = [name for name in bookies if plan_facts.bookies.get(name, {}).get("registered")]
    action_objects = [bookie_object(name) for name in running_bookies]
    step_permission = permit_or_refuse(
        plan_facts.run, ActionKind.STOP, title, step_findings.plan_findings(), *action_objects
    )
    if isinstance(step_permission, RefusedStep):
        return step_permission
    if last_holders := plan_facts.planned_stops.last_holders(*running_bookies):
        return refuse_last_holders(
            plan_facts, ActionKind.STOP, title, step_findings, running_bookies, last_holders
        )
    plan_facts.planned_stops.add(*running_bookies)
    stop_commands = [
        procedures.stop_bookie(step_permission, name, "the bookie releases its disks")
        for name in running_bookies
    ]
    return make_step(
        step_permission, title, step_findings.plan_findings(),
        [*stop_commands, procedures.swap_disks_back(step_permission, running_bookies, [*directory_texts])],
        urgency=step_findings.urgency,
        effect_text=f"each of {names} has its own data again; nothing is copied. Audit before you start them",
        risk_text="load; none of their copies can be read while they are stopped",
        undo_text="swap the disks again",
        preconditions=["VERSION in each directory names the directory's bookie; never copy VERSION files"],
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.FINDING, subject, "there") for subject in finding_subjects],
        done_conditions=[Condition(Fact.FINDING, subject, "gone") for subject in finding_subjects],
    )  # fmt: skip


_START_REASONS = {FactReason.NO_MEMBER_REGISTERED, FactReason.COPIES_ON_DOWN_BOOKIES}


def start_bookies(plan_facts: PlanFacts) -> Steps:
    """Yield a start for each bookie that is down and may have entries that no registered bookie has."""
    action_holds = (
        action_hold
        for action_hold in plan_facts.run.holds.iterate_ledger_holds(ActionKind.RECOVER)
        if action_hold.reason in _START_REASONS
    )
    ledger_keys = (
        action_hold.key.removeprefix("0/") for action_hold in action_holds if action_hold.key.startswith("0/")
    )
    ledger_ids = [int(ledger_key) for ledger_key in islice(ledger_keys, MAX_LEDGERS)]
    ledgers_of_bookie: dict[str, list[int]] = defaultdict(list)
    lacking_bookies_by_ledger = _read_lacking_bookies(plan_facts, ledger_ids)
    for ledger, row in sorted(read_ledgers(plan_facts.run, ledger_ids).items()):
        for name in sorted(
            row.members & {*plan_facts.lost_bookies} - lacking_bookies_by_ledger.get(ledger, set())
        ):
            ledgers_of_bookie[name].append(ledger)
    bookie_findings: dict[str, StepFindings] = defaultdict(StepFindings)
    for finding in (
        plan_facts.findings_of_checks("on-unregistered-bookie", "bookie-down") if ledgers_of_bookie else ()
    ):
        bookie_findings[finding["bookie_id"]].add(finding)
    for name, ledgers in ledgers_of_bookie.items():
        yield _start_step(plan_facts, name, ledgers, bookie_findings[name])


def _read_lacking_bookies(plan_facts: PlanFacts, ledger_ids: list[int]) -> dict[int, set[str]]:
    """Return the bookies that lack entries, by ledger. Ledgers without such a bookie may be left out."""
    row_filter = ds.field("ledger_id").isin(ledger_ids) & (ds.field("scope_id") == 0)
    rows = (
        plan_facts.run.table("judged", ["ledger_id", "missing"], row_filter).to_pylist() if ledger_ids else []
    )
    return {
        row["ledger_id"]: {replica_row["bookie_id"] for replica_row in row["missing"] or ()} for row in rows
    }


def _start_step(
    plan_facts: PlanFacts, bookie: str, ledgers: list[int], step_findings: StepFindings
) -> PlanStep | RefusedStep:
    ledger_count_text = plural(len(ledgers), "ledger")
    title = f"start {bookie}: it should have entries of {ledger_count_text} that registered bookies lack"
    step_permission = permit_or_refuse(
        plan_facts.run, ActionKind.START, title, step_findings.plan_findings(), bookie_object(bookie)
    )
    if isinstance(step_permission, RefusedStep):
        return step_permission
    plan_facts.starting_bookies.add(bookie)
    return make_step(
        step_permission, title, step_findings.plan_findings(),
        [procedures.start_bookie(step_permission, bookie)],
        urgency=Urgency.LOST,
        bookie_id=bookie,
        effect_text=f"clients and workers can read {ledger_count_text} again; audit afterwards",
        risk_text="none; its garbage collector runs again", undo_text="no undo is needed",
        preconditions=[
            "the bookie starts with its own disks, which should have entries of ledger "
            f"{first_names([str(ledger) for ledger in ledgers], _MAX_NAMES_SHOWN)}"
        ],
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[Condition(Fact.REGISTERED, bookie, "no")],
        done_conditions=[Condition(Fact.REGISTERED, bookie, "yes")],
    )  # fmt: skip
