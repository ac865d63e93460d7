"""Steps about one bookie: stop it, or make or delete its cookie."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from auditor.actions import procedures
from auditor.actions.action_list import ALL_STOP_REFUSAL_TEXT, REASONS_TO_COPY_FIRST
from auditor.actions.gate import permit
from auditor.actions.objects import bookie as bookie_object
from auditor.actions.stop_set import DANGEROUS_CHECKS, NO_GC_SETTINGS, last_holders_text
from auditor.model.amounts import plural
from auditor.model.arrow import ds
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed, Refused
from auditor.model.plan import (
    EXPIRY_MS,
    Condition,
    Fact,
    PlanStep,
    RefusalReason,
    RefusedStep,
)
from auditor.model.states import BookieRead, GcReason
from auditor.plan.parts import file_name, is_valid_argument, make_step, permit_or_refuse, refuse
from auditor.plan.plan_facts import PlanFacts, StepFindings

Steps = Iterator[PlanStep | RefusedStep]

VERIFY_SETTING, KEEP_OTHER_LEDGERS_SETTING = "verifyMetadataOnGC=true", "gcOverreplicatedLedgerWaitTime=0"
_SETTING_BY_REASON = {
    GcReason.MEMBER.value: VERIFY_SETTING,
    GcReason.LAST_COPY.value: KEEP_OTHER_LEDGERS_SETTING,
}
_START_FAULTS = {"cookie-missing", "start-refused"}
"""Reasons of holds on a bookie that would not start again once it is stopped."""
_STOP_RISK = "none of the bookie's copies can be read while it is stopped"


def stop_bookies(plan_facts: PlanFacts) -> Steps:
    """Yield a step for each bookie whose next garbage collection deletes needed data: stop the bookie.

    The stop is refused if some needed copies could not be read while the bookie is stopped. In that case,
    steps of `auditor.plan.replication_steps` copy the ledgers that depend on the bookie.
    """
    groups_by_bookie = plan_facts.group_by_bookie(*DANGEROUS_CHECKS)
    for bookie, groups in groups_by_bookie.items():
        is_running = plan_facts.bookies[bookie]["registered"] is not None
        title = (
            f"keep {bookie} {'from collecting garbage' if is_running else 'stopped'}: its next collection "
        )
        title += "deletes live data"
        if not groups.are_confirmed:
            yield refuse_unconfirmed(ActionKind.STOP, title, "audit again", groups)
        elif bookie in plan_facts.bookies_with_unstored_copies:
            yield refuse_unstored_copies(ActionKind.STOP, title, groups)
        else:
            plan_findings = groups.plan_findings()
            stop_gate_answer = permit_or_refuse(
                plan_facts.run, ActionKind.STOP, title, plan_findings, bookie_object(bookie)
            )
            if isinstance(stop_gate_answer, RefusedStep):
                # Copies for one stop would be made again for the next one, without end.
                has_other_writable = bool(plan_facts.writable_bookies - groups_by_bookie.keys())
                yield _refuse_until_copied(plan_facts, bookie, stop_gate_answer, groups, has_other_writable)
                if bookie in plan_facts.findings_to_copy:
                    plan_facts.planned_stops.add(bookie)
            elif is_running and (last_holders := plan_facts.planned_stops.last_holders(bookie)):
                yield refuse_last_holders(plan_facts, ActionKind.STOP, title, groups, [bookie], last_holders)
            else:
                if is_running:
                    plan_facts.planned_stops.add(bookie)
                yield _stop_step(plan_facts, stop_gate_answer, bookie, title, groups)


def _refuse_until_copied(
    plan_facts: PlanFacts,
    bookie: str,
    refused_step: RefusedStep,
    groups: StepFindings,
    has_other_writable: bool,
) -> RefusedStep:
    """Return the refusal of a stop, with advice if something must be done before the stop.

    Either disks of another cluster must be replaced, or ledgers copied. Otherwise the refusal is unchanged.
    ``has_other_writable`` is whether another bookie could take copies of the ledgers.
    """
    if (
        refused_step.holds
        and {*refused_step.holds} <= _START_FAULTS
        and plan_facts.bookies[bookie]["foreign_instance"]
    ):
        way_out = (
            "first find the bookie's disks of this cluster, then stop the bookie; with its present disks, it "
            "cannot restart"
        )
        return replace(refused_step, way_out=way_out)
    if not refused_step.holds or not {*refused_step.holds} <= {*REASONS_TO_COPY_FIRST}:
        return refused_step
    if not has_other_writable:
        return replace(refused_step, way_out=ALL_STOP_REFUSAL_TEXT)
    plan_facts.findings_to_copy[bookie] = groups
    way_out = (
        "copy first, then stop. This plan has steps that copy the bookie's ledgers, or gives the "
        "reason why there are none. After these steps, audit and plan again"
    )
    return replace(refused_step, way_out=way_out)


def _stop_step(
    plan_facts: PlanFacts, step_permission: Allowed, bookie: str, title: str, groups: StepFindings
) -> PlanStep:
    hold_reasons = (
        groups["gc-would-delete-live"].evidence.get("reasons", ()) if "gc-would-delete-live" in groups else ()
    )
    must_stay_stopped = "metadata-suspect" in groups or any(
        reason not in _SETTING_BY_REASON for reason in hold_reasons
    )
    settings = {_SETTING_BY_REASON[reason] for reason in hold_reasons if reason in _SETTING_BY_REASON}
    if "alias-gc-danger" in groups:
        settings.add(KEEP_OTHER_LEDGERS_SETTING)
    is_running = plan_facts.bookies[bookie]["registered"] is not None
    manual_commands = (
        [procedures.stop_bookie(step_permission, bookie, "the bookie ends its garbage collection")]
        if is_running
        else []
    )
    effect_text = f"{bookie} deletes no live data"
    if settings:
        manual_commands.append(procedures.set_settings(step_permission, bookie, sorted(settings)))
        effect_text += "; afterwards, audit with --bookie-conf FILE, or the finding will reappear"
    start_gate_answer = permit(plan_facts.run, ActionKind.START, [bookie_object(bookie)])
    if settings and not must_stay_stopped and isinstance(start_gate_answer, Allowed):
        manual_commands.append(procedures.start_bookie(start_gate_answer, bookie))
    elif settings and not must_stay_stopped:
        effect_text += (
            "; the bookie stays stopped until an audit with this option no longer reports this finding"
        )
    else:
        effect_text += "; the bookie stays stopped until the metadata or the bookie's index is repaired"
    undo_text = "remove the settings, and restart the bookie" if settings else "start the bookie"
    return make_step(
        step_permission, title, groups.plan_findings(), manual_commands, urgency=groups.urgency,
        bookie_id=bookie, effect_text=effect_text, risk_text=f"load; {_STOP_RISK}",
        undo_text=f"once an audit no longer reports this finding: {undo_text}",
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=groups.make_conditions("there"), done_conditions=groups.make_conditions("gone"),
    )  # fmt: skip


def make_cookies(plan_facts: PlanFacts) -> Steps:
    """Yield a step that makes a cookie, for each registered bookie that has no cookie in the store."""
    for bookie, groups in plan_facts.group_by_bookie("cookie-missing").items():
        title = f"recreate the cookie of {bookie}; the bookie cannot restart without it"
        bookie_row = plan_facts.bookies[bookie]
        directory_rows = _read_directories(plan_facts, bookie)
        instance_id = plan_facts.run.report.cluster.instance_id
        foreign_instances = sorted(
            {str(directory_row["instance_id"]) for directory_row in directory_rows}
            - {str(instance_id), "None"}
        )
        own_directory_rows = [
            directory_row for directory_row in directory_rows if directory_row["owner"] == bookie
        ]
        complete_directory_rows = [
            directory_row
            for directory_row in own_directory_rows
            if directory_row["ledger_dirs"] and directory_row["journal_dirs"]
        ]
        distinct_path_lists = {
            json.dumps([directory_row[directory_column] for directory_column in _DIRECTORY_COLUMNS])
            for directory_row in complete_directory_rows
        }
        reason_text, way_out = (
            "",
            "audit with the bookie's directories (--bookies); the bookie's configuration names them",
        )
        reason = RefusalReason.UNKNOWN_INPUT
        if instance_id is None:
            reason_text, way_out = "the cluster has no instance id", "see instance-id-missing"
        elif foreign_instances:
            reason = RefusalReason.OTHER_CLUSTER
            reason_text = (
                f"VERSION on its disks has the instance id of another cluster, {foreign_instances[0]}"
            )
            way_out = "find the bookie's disks of this cluster, and audit again"
        elif not (bookie_row["named"] or bookie_row["found"]):
            reason_text, way_out = (
                "the bookie is in no ensemble, and none of its directories was found",
                "find out who registers the bookie",
            )
        elif len(distinct_path_lists) != 1:
            reason_text = (
                "the bookie's directories are unknown: "
                f"{len(distinct_path_lists)} different VERSION files name the bookie"
            )
        if reason_text:
            yield refuse(ActionKind.MAKE_COOKIE, reason, title, reason_text, way_out, groups.plan_findings())
        elif not is_valid_argument(bookie):
            yield _refuse_unsupported_id(ActionKind.MAKE_COOKIE, title, groups)
        else:
            journal_directories, ledger_directories, index_directories = json.loads(distinct_path_lists.pop())
            directory_options = {
                "JOURNALS": journal_directories,
                "LEDGERS": ",".join(ledger_directories),
                "INSTANCE": str(instance_id),
            }
            yield _cookie_step(plan_facts, bookie, title, groups, directory_options, index_directories)


def _cookie_step(
    plan_facts: PlanFacts,
    bookie: str,
    title: str,
    groups: StepFindings,
    directory_options: dict[str, str],
    index_directories: list[str] | None,
) -> PlanStep | RefusedStep:
    findings = groups.plan_findings()
    step_permission = permit_or_refuse(
        plan_facts.run, ActionKind.MAKE_COOKIE, title, findings, bookie_object(bookie)
    )
    if isinstance(step_permission, RefusedStep):
        return step_permission
    placeholder_values = {"BOOKIE": bookie, "FILE": file_name(bookie, "cookie"), **directory_options}
    if index_directories:
        placeholder_values["INDEXES"] = ",".join(index_directories)
    procedure = procedures.MAKE_COOKIE_WITH_INDEXES if index_directories else procedures.MAKE_COOKIE
    return make_step(
        step_permission, title, findings, procedure.fill(step_permission, placeholder_values),
        urgency=groups.urgency, bookie_id=bookie,
        effect_text="the store has its cookie, and the bookie can restart",
        risk_text="writes; the bookie cannot start with a wrong cookie",
        undo_text="replace the cookie with a correct one",
        preconditions=[f"the file has the content of a VERSION file of {bookie}"],
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[
            Condition(Fact.COOKIE, bookie, "none"), Condition(Fact.REGISTERED, bookie, "yes"),
        ],
        done_conditions=[Condition(Fact.COOKIE, bookie, "yes")],
    )  # fmt: skip


_DIRECTORY_COLUMNS = ("journal_dirs", "ledger_dirs", "index_dirs")


def _read_directories(plan_facts: PlanFacts, bookie: str) -> list[dict[str, list[str] | str | None]]:
    """Return the directories that belong to a bookie by their VERSION, or by their path.

    In the second case, VERSION may name another bookie.
    """
    is_of_bookie = (ds.field("owner") == bookie) | (ds.field("place") == bookie)
    rows: list[dict[str, list[str] | str | None]] = plan_facts.run.table(
        "directories", ["owner", "instance_id", *_DIRECTORY_COLUMNS], is_of_bookie
    ).to_pylist()
    return rows


def retire_bookies(plan_facts: PlanFacts) -> Steps:
    """Yield a step for each bookie that is gone: delete its cookie. Or yield a refusal of this step.

    A deletion is refused if an ensemble still names the bookie. It is also refused if the bookie's disks may
    have the last copy of an entry.
    """
    for bookie, groups in plan_facts.group_by_bookie("cookie-unused").items():
        title, bookie_row = (
            f"delete the cookie of {bookie}, which no ledger names",
            plan_facts.bookies[bookie],
        )
        last_copy_text = _find_last_copies(plan_facts, bookie)
        if not groups.are_confirmed or bookie_row["named"] or bookie_row["marked"]:
            yield refuse_unconfirmed(ActionKind.DELETE_COOKIE, title, "audit again", groups)
        elif last_copy_text:
            way_out = "audit with the bookie's disks (--bookies), and repair these ledgers first"
            yield refuse(
                ActionKind.DELETE_COOKIE,
                RefusalReason.LAST_COPY,
                title,
                last_copy_text,
                way_out,
                groups.plan_findings(),
            )
        elif not is_valid_argument(bookie):
            yield _refuse_unsupported_id(ActionKind.DELETE_COOKIE, title, groups)
        else:
            yield _retire_step(plan_facts, bookie, title, groups)
    for bookie, groups in plan_facts.group_by_bookie("bookie-down").items():
        title = f"delete the cookie of {bookie}, which is not registered"
        reason_text = f"{plural(plan_facts.bookies[bookie]['ledgers'], 'ledger names', 'ledgers name')} it"
        way_out = (
            f"bkaudit decommission {shlex.quote(plan_facts.run.path)} {bookie} shows what its removal "
            "involves"
        )
        yield refuse(
            ActionKind.DELETE_COOKIE, RefusalReason.NAMED, title, reason_text, way_out, groups.plan_findings()
        )


def _retire_step(
    plan_facts: PlanFacts, bookie: str, title: str, groups: StepFindings
) -> PlanStep | RefusedStep:
    findings = groups.plan_findings()
    step_permission = permit_or_refuse(
        plan_facts.run, ActionKind.DELETE_COOKIE, title, findings, bookie_object(bookie)
    )
    if isinstance(step_permission, RefusedStep):
        return step_permission
    placeholder_values = {"BOOKIE": bookie, "FILE": file_name(bookie, "cookie")}
    return make_step(
        step_permission, title, findings,
        procedures.DELETE_COOKIE.fill(step_permission, placeholder_values),
        urgency=groups.urgency, bookie_id=bookie,
        effect_text="the auditor no longer considers the bookie lost, and its id can be reused",
        risk_text="writes; the bookie cannot start again without a new cookie",
        undo_text="to be able to recreate the cookie, save the cookie_get output between the --- lines as "
            f"{placeholder_values['FILE']}",
        preconditions=[f"{bookie} will not return"],
        expiry_time=plan_facts.facts.scan_time + EXPIRY_MS,
        required_conditions=[
            Condition(Fact.COOKIE, bookie, plan_facts.cookie_digests[bookie]),
            Condition(Fact.REGISTERED, bookie, "no"),
            Condition(Fact.IN_ANY_LEDGER, bookie, "no"),
        ],
        done_conditions=[Condition(Fact.COOKIE, bookie, "none")],
    )  # fmt: skip


def _find_last_copies(plan_facts: PlanFacts, bookie: str) -> str:
    """Return why the bookie's disks may have the last copy of an entry; an empty text if they do not."""
    finding_counts = plan_facts.run.report.counts
    if plan_facts.bookies[bookie]["read"] != BookieRead.READ:
        damaged_count = finding_counts.get("entry-lost", 0) + finding_counts.get("owner-dangling", 0)
        damage_text = plural(
            damaged_count, "ledger is missing entries or metadata", "ledgers are missing entries or metadata"
        )
        return (
            f"{damage_text}; the bookie's disks may have this data, but were not read completely"
            if damaged_count
            else ""
        )
    rows = plan_facts.run.table(
        "gc_foresight", ["ledger_id"],
        (ds.field("scope_id") == 0)
        & (ds.field("bookie_id") == bookie)
        & (ds.field("reason") == GcReason.LAST_COPY.value),
    )  # fmt: skip
    return (
        f"the bookie's disks have the last copy of some entries of {plural(len(rows), 'ledger')}"
        if len(rows)
        else ""
    )


def refuse_unconfirmed(kind: ActionKind, title: str, way_out: str, groups: StepFindings) -> RefusedStep:
    """Return the refusal of a step whose findings are not all confirmed."""
    reason_text = "the finding is not confirmed"
    return refuse(kind, RefusalReason.UNPROVED, title, reason_text, way_out, groups.plan_findings())


def refuse_unstored_copies(kind: ActionKind, title: str, groups: StepFindings) -> RefusedStep:
    """Return a refused step: a bookie must not stop, because it serves entries that its disks lack."""
    reason_text = (
        "the bookie serves entries that are not on its disk (index-incomplete); these are lost "
        "when the bookie stops"
    )
    way_out = "copy these ledgers while the bookie still runs (see bkaudit explain check index-incomplete)"
    return refuse(kind, RefusalReason.LAST_COPY, title, reason_text, way_out, groups.plan_findings())


def refuse_last_holders(
    plan_facts: PlanFacts,
    kind: ActionKind,
    title: str,
    groups: StepFindings,
    bookies: Sequence[str],
    last_holders: Sequence[str],
) -> RefusedStep:
    """Return a refused step: ``bookies`` must not stop, because no bookie would then serve some entry.

    ``last_holders`` has the only bookies that serve the entry: ``bookies``, and bookies that other steps of
    the plan stop. If `auditor.actions.gate` permits to start ``bookies``, the refusal advises a restart.
    """
    start_gate_answer = permit(plan_facts.run, ActionKind.START, [bookie_object(name) for name in bookies])
    way_out = (
        "stop this bookie only once the entries have other copies, or another of the named bookies "
        "runs again. Then audit and plan again"
    )
    if not isinstance(start_gate_answer, Refused):
        way_out = f"restart one bookie at a time with {NO_GC_SETTINGS}, so that nothing is deleted; {way_out}"
    return refuse(
        kind, RefusalReason.LAST_COPY, title, last_holders_text(last_holders), way_out, groups.plan_findings()
    )


def _refuse_unsupported_id(kind: ActionKind, title: str, groups: StepFindings) -> RefusedStep:
    reason_text = "the shell's cookie commands accept only bookie ids of the form host:port"
    way_out = "change the cookie with the metadata store's own client"
    return refuse(kind, RefusalReason.NOT_BY_SHELL, title, reason_text, way_out, groups.plan_findings())
