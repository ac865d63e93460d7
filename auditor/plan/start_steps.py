"""Steps that bring back bookies with needed copies: put exchanged disks back, and start bookies.

While a bookie waits for its start, no ledger is copied off it (`auditor.plan.replication_steps`).
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
from auditor.plan.bookie_steps import refuse_last_of_set
from auditor.plan.parts import ledgers_of, make_step, permit_or_refuse
from auditor.plan.situation import EXCHANGE_CHECKS, MAX_LEDGERS, FindingGroups, Situation

Steps = Iterator[PlanStep | RefusedStep]

_NAMES_SHOWN = 5


def put_disks_back(situation: Situation) -> Steps:
    """Yield a step for each set of bookies that exchanged disks or directories."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in situation.findings_of_checks(*EXCHANGE_CHECKS):
        if row["confidence"] == Confidence.CONFIRMED and row["bookie_id"] in situation.exchanged_disks:
            rows[row["bookie_id"]].append(row)
            situation.addressed[row["id"]] += 1
    exchange_partners = {name: _find_disk_partners(name, bookie_rows) for name, bookie_rows in rows.items()}
    remaining_bookies = sorted(rows)
    while remaining_bookies:
        linked_bookies = _find_linked_bookies(remaining_bookies[0], exchange_partners)
        remaining_bookies = [name for name in remaining_bookies if name not in linked_bookies]
        yield _put_back_steps(situation, sorted(linked_bookies & rows.keys()), rows)


def _find_disk_partners(bookie: str, rows: list[dict[str, Any]]) -> set[str]:
    """Return this bookie and those whose cookies are on its disks."""
    directories = [directory for row in rows for directory in json.loads(row["evidence"])["directories"]]
    return {bookie, *(directory["names"] for directory in directories if directory.get("names"))}


def _find_linked_bookies(bookie: str, exchange_partners: Mapping[str, set[str]]) -> set[str]:
    linked_bookies, pending_bookies = set[str](), {bookie}
    while pending_bookies:
        name = pending_bookies.pop()
        linked_bookies.add(name)
        pending_bookies |= exchange_partners.get(name, set()) - linked_bookies
        pending_bookies |= {
            partner for partner, names in exchange_partners.items() if name in names
        } - linked_bookies
    return linked_bookies


def _put_back_steps(
    situation: Situation, bookies: list[str], rows: Mapping[str, list[dict[str, Any]]]
) -> PlanStep | RefusedStep:
    groups, places = FindingGroups(), dict[str, None]()
    conditions: list[str] = []
    for name in bookies:
        for row in rows[name]:
            groups.add(row)
            conditions.append(f"{row['id']} {row['fingerprint']} {name}")
            for directory in json.loads(row["evidence"])["directories"]:
                places[
                    f"{directory['path']} (of {directory['names']})"
                    if directory.get("names")
                    else directory["path"]
                ] = None
    names = first_names(bookies, _NAMES_SHOWN)
    title = f"put the disks of {names} back in their places"
    running = [name for name in bookies if situation.bookies.get(name, {}).get("registered")]
    objects = [bookie_object(name) for name in running]
    allowed = permit_or_refuse(situation.run, ActionKind.STOP, title, groups.named(), *objects)
    if isinstance(allowed, RefusedStep):
        return allowed
    if holders := situation.stop_set.last_holders(*running):
        return refuse_last_of_set(situation, ActionKind.STOP, title, groups, running, holders)
    situation.stop_set.add(*running)
    commands = [procedures.stop_bookie(allowed, name, "releases its disks") for name in running]
    return make_step(
        allowed, title, groups.named(), [*commands, procedures.exchange_disks(allowed, running, [*places])],
        urgency=groups.urgency,
        effect=f"each of {names} has its own data again; nothing is copied. Audit before it starts",
        risk="load; none of their copies can be read while they are stopped",
        undo="exchange them again",
        needs=["VERSION in each directory names the bookie that it belongs to; never copy VERSION"],
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.FINDING, condition, "there") for condition in conditions],
        done_when=[Condition(Fact.FINDING, condition, "gone") for condition in conditions],
    )  # fmt: skip


_START_REASONS = {FactReason.NO_MEMBER_REGISTERED, FactReason.COPIES_ON_DOWN_BOOKIES}


def start_bookies(situation: Situation) -> Steps:
    """Yield starts of bookies that are down and have, or may have, entries that no registered bookie has."""
    holds = (
        hold for hold in situation.run.holds.on_ledgers(ActionKind.RECOVER) if hold.reason in _START_REASONS
    )
    hold_keys = (hold.key.removeprefix("0/") for hold in holds if hold.key.startswith("0/"))
    ids = [int(hold_key) for hold_key in islice(hold_keys, MAX_LEDGERS)]
    ledgers_of_bookie: dict[str, list[int]] = defaultdict(list)
    lacking_by_ledger = _read_lacking_bookies(situation, ids)
    for ledger, row in sorted(ledgers_of(situation.run, ids).items()):
        for name in sorted(row.members & {*situation.lost} - lacking_by_ledger.get(ledger, set())):
            ledgers_of_bookie[name].append(ledger)
    groups: dict[str, FindingGroups] = defaultdict(FindingGroups)
    for finding in (
        situation.findings_of_checks("on-unregistered-bookie", "bookie-down") if ledgers_of_bookie else ()
    ):
        groups[finding["bookie_id"]].add(finding)
    for name, ledgers in ledgers_of_bookie.items():
        yield _start_step(situation, name, ledgers, groups[name])


def _read_lacking_bookies(situation: Situation, ids: list[int]) -> dict[int, set[str]]:
    """Return, for each of these ledgers, the bookies that lack entries of it."""
    row_filter = ds.field("ledger_id").isin(ids) & (ds.field("scope_id") == 0)
    rows = situation.run.table("judged", ["ledger_id", "missing"], row_filter).to_pylist() if ids else []
    return {row["ledger_id"]: {replica["bookie_id"] for replica in row["missing"] or ()} for row in rows}


def _start_step(
    situation: Situation, bookie: str, ledgers: list[int], groups: FindingGroups
) -> PlanStep | RefusedStep:
    count = plural(len(ledgers), "ledger")
    title = f"start {bookie}: registered bookies lack entries of {count} on it"
    allowed = permit_or_refuse(situation.run, ActionKind.START, title, groups.named(), bookie_object(bookie))
    if isinstance(allowed, RefusedStep):
        return allowed
    situation.starting.add(bookie)
    return make_step(
        allowed, title, groups.named(), [procedures.start_bookie(allowed, bookie)], urgency=Urgency.LOST,
        bookie_id=bookie, effect=f"clients and workers can read {count} again; audit then",
        risk="none; its garbage collector runs again", undo="none is needed",
        needs=[f"such as ledger {first_names([str(ledger) for ledger in ledgers], _NAMES_SHOWN)}"],
        expires=situation.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.REGISTERED, bookie, "no")],
        done_when=[Condition(Fact.REGISTERED, bookie, "yes")],
    )  # fmt: skip
