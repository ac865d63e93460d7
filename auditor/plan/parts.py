"""Parts of plan steps: permissions of the gate (`auditor.actions.gate`), refusals, and ledgers of the run."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.actions.gate import GateRun, permit, permit_ledgers
from auditor.actions.objects import bookie, ledger
from auditor.actions.procedures import require_permission
from auditor.model.amounts import plural
from auditor.model.holds import ActionKind, HoldObject
from auditor.model.permission import ActionObject, Allowed, Refused
from auditor.model.plan import (
    Condition,
    PlanCommand,
    PlanFinding,
    PlannedLedger,
    PlanStep,
    RefusalReason,
    RefusedStep,
)
from auditor.model.states import LISTED
from auditor.reports.advice import HOST_PORT_PATTERN
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

HOUR_MS = 3_600_000
MAX_REFUSED_SHOWN = 5
"""Largest number of ledgers that a refusal names."""


def is_valid_argument(bookie: str) -> bool:
    """Return whether the shell's cookie commands accept a bookie id. They accept a printable host:port.

    >>> is_valid_argument("bk-1:3181"), is_valid_argument("bookie-a")
    (True, False)
    """
    return bookie.isprintable() and HOST_PORT_PATTERN.fullmatch(bookie) is not None


def file_name(bookie: str, file_suffix: str) -> str:
    """Return a file name for a bookie, quoted for a shell.

    >>> file_name("bk-1:3181", "cookie")
    'bk-1_3181.cookie'
    """
    return shlex.quote(bookie.replace(":", "_").replace("/", "_") + f".{file_suffix}")


def make_step(
    step_permission: Allowed,
    title: str,
    findings: Sequence[PlanFinding],
    commands: Sequence[PlanCommand],
    *,
    urgency: str,
    effect_text: str,
    risk_text: str,
    undo_text: str,
    expiry_time: int,
    required_conditions: Sequence[Condition] = (),
    done_conditions: Sequence[Condition] = (),
    bookie_id: str | None = None,
    ledgers: Sequence[PlannedLedger] = (),
    ledger_count: int | None = None,
    fewest_copies: int | None = None,
    bytes: int | None = None,
    preconditions: Sequence[str] = (),
) -> PlanStep:
    """Return a step without its number. Every step of a plan is made by this function.

    Args:
        step_permission: The gate's permission; it must cover the step's bookie and each of its ledgers.
        title: The action of the step, in a few words.
        findings: The findings that require the step.
        commands: The commands to type, in order.
        urgency: The urgency of the most urgent finding.
        effect_text: The state after the step.
        risk_text: Side effects of the step.
        undo_text: How to take the step back.
        expiry_time: The last moment for the step, ms.
        required_conditions: Conditions that must hold before the step.
        done_conditions: Conditions that hold once the step is done.
        bookie_id: The bookie of the step. None if the step is about several or none.
        ledgers: The first ledgers of the step.
        ledger_count: Total number of ledgers. None if ``ledgers`` are all of them.
        fewest_copies: Smallest number of known copies of an entry. None if unknown.
        bytes: Upper bound of the bytes copied or freed. None if unknown.
        preconditions: Preconditions that only people can check.

    Raises:
        ValueError: the permission does not cover the step.
    """
    action_objects = [ledger(int(planned_ledger.ledger_id)) for planned_ledger in ledgers]
    require_permission(
        step_permission,
        step_permission.kind,
        *action_objects,
        *([] if bookie_id is None else [bookie(bookie_id)]),
    )
    return PlanStep(
        0, step_permission.kind, urgency, fewest_copies, title, tuple(findings), bookie_id,
        len(ledgers) if ledger_count is None else ledger_count, tuple(ledgers), tuple(commands),
        tuple(preconditions),
        effect_text, bytes, risk_text, undo_text, expiry_time, tuple(required_conditions),
        tuple(done_conditions),
    )  # fmt: skip


def permit_or_refuse(
    run: GateRun,
    action_kind: ActionKind,
    title: str,
    findings: Sequence[PlanFinding],
    *action_objects: ActionObject,
) -> Allowed | RefusedStep:
    """Ask `auditor.actions.gate` to permit a step on objects. Return its permission, or a refused step."""
    gate_answer = permit(run, action_kind, action_objects)
    return (
        gate_answer
        if isinstance(gate_answer, Allowed)
        else refuse_held_objects([gate_answer], title, findings)
    )


def permit_each_ledger(
    run: GateRun,
    action_kind: ActionKind,
    title: str,
    findings: Sequence[PlanFinding],
    bookies: Sequence[str],
    ledgers: Sequence[int],
) -> tuple[Allowed | None, list[RefusedStep]]:
    """Ask `auditor.actions.gate` to permit a step on many ledgers.

    Ledgers with the same holds (rules that forbid actions) get one refusal.

    Args:
        run: The run that the plan is based on.
        action_kind: The kind of action.
        title: The title of the step, with ``{}`` in the place of the number of ledgers.
        findings: The findings that require the action.
        bookies: The bookies that the action is about.
        ledgers: The ledgers.

    Returns:
        The permission for the bookies and the permitted ledgers, and the refused steps. The permission is
            None if no ledger is permitted. There is one refused step for each combination of holds.
    """
    step_permission, refusals = permit_ledgers(
        run, action_kind, [*map(bookie, bookies)], [*map(ledger, ledgers)]
    )
    refusals_by_reason: dict[tuple[str, ...], list[Refused]] = {}
    for gate_answer in refusals:
        refusals_by_reason.setdefault(_refusal_reasons(gate_answer), []).append(gate_answer)
    ledger_count_by_reasons = {
        reasons: sum(len(_refused_ledger_ids(refused_answer)) for refused_answer in gate_answers)
        for reasons, gate_answers in refusals_by_reason.items()
    }
    steps = [
        refuse_held_objects(
            gate_answers, title.format(plural(ledger_count_by_reasons[reasons], "ledger")), findings
        )
        for reasons, gate_answers in refusals_by_reason.items()
    ]
    return step_permission, steps


def ledgers_of_permission(step_permission: Allowed) -> frozenset[int]:
    """Return the ids of the ledgers that a permission covers and whose ids have 64 bits (scope 0)."""
    action_objects = (
        action_object for action_object in step_permission.objects if action_object.kind is HoldObject.LEDGER
    )
    return frozenset(
        int(action_object.key[2:]) for action_object in action_objects if action_object.key.startswith("0/")
    )


def refuse_held_objects(
    gate_answers: Sequence[Refused], title: str, findings: Sequence[PlanFinding]
) -> RefusedStep:
    """Return one refused step for objects that `auditor.actions.gate` refused, all for the same reasons."""
    first_refusal = gate_answers[0]
    refusal_reason = RefusalReason.HAS_HOLDS if first_refusal.holds else RefusalReason.AUDIT_AGAIN
    remainder_text = (
        f"; and {plural(len(gate_answers) - 1, 'ledger')} more for the same reasons"
        if len(gate_answers) > 1
        else ""
    )
    ledgers = [ledger_id for gate_answer in gate_answers for ledger_id in _refused_ledger_ids(gate_answer)]
    return RefusedStep(
        first_refusal.kind, refusal_reason, title, first_refusal.sentence + remainder_text,
        first_refusal.way_out, tuple(findings),
        len(ledgers), tuple(ledgers[:MAX_REFUSED_SHOWN]), _refusal_reasons(first_refusal),
    )  # fmt: skip


def _refusal_reasons(gate_answer: Refused) -> tuple[str, ...]:
    return tuple(sorted({action_hold.reason for action_hold in gate_answer.holds}))


def _refused_ledger_ids(gate_answer: Refused) -> list[str]:
    """Return the decimal ids of the ledgers in a refusal. All ids have 64 bits (ledger id scope 0)."""
    ledger_keys = (
        action_object.key for action_object in gate_answer.objects if action_object.kind is HoldObject.LEDGER
    )
    return [ledger_key.removeprefix("0/") for ledger_key in ledger_keys]


def refuse(
    action_kind: ActionKind,
    refusal_reason: RefusalReason,
    title: str,
    reason_text: str,
    way_out: str,
    findings: Sequence[PlanFinding],
    ledgers: Sequence[int] = (),
    ledger_count: int | None = None,
) -> RefusedStep:
    """Return a refused step, with the first `MAX_REFUSED_SHOWN` of ``ledgers``.

    ``ledger_count`` is the number of all refused ledgers. It is None if ``ledgers`` contains all of them.
    """
    refused_count = len(ledgers) if ledger_count is None else ledger_count
    shown_ids = tuple(str(ledger_id) for ledger_id in ledgers[:MAX_REFUSED_SHOWN])
    return RefusedStep(
        action_kind, refusal_reason, title, reason_text, way_out, tuple(findings), refused_count, shown_ids
    )


_LEDGER_COLUMNS = (
    "scope_id", "ledger_id", "status", "version", "state", "write_quorum", "length", "digest_type",
    "segments",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A ledger that the store lists. ``state`` is None if the ledger's record cannot be read.

    ``digest_type`` is None if the record has neither a digest type nor a password.
    """

    ledger_id: int
    version: int
    state: str | None
    bytes: int
    ensembles: tuple[tuple[str, ...], ...]
    digest_type: str | None = None

    @property
    def members(self) -> frozenset[str]:
        """Return every bookie in a segment of the ledger."""
        return frozenset(member for ensemble in self.ensembles for member in ensemble)

    def as_planned_ledger(self) -> PlannedLedger:
        """Return the ledger in the form of a plan."""
        return PlannedLedger(str(self.ledger_id), self.version, self.state)


def read_ledgers(run: RunReader, ledger_ids: Collection[int]) -> dict[int, LedgerRow]:
    """Return the ledgers with these 64-bit ids (scope 0), by id. Ids that the run does not list are left out.

    The function makes one pass over the run's table of ledgers.
    """
    if not ledger_ids:
        return {}
    id_array = pa.array(sorted(ledger_ids), pa.int64())
    rows_by_id: dict[int, LedgerRow] = {}
    for batch in _read_listed_ledgers(run):
        for row in batch.filter(pc.is_in(batch["ledger_id"], id_array)).to_pylist():
            rows_by_id[row["ledger_id"]] = _parse_row(row)
    return rows_by_id


def read_ledgers_of_bookies(
    run: RunReader,
    bookies: Collection[str],
    max_count: int,
    must_be_closed: bool = True,
    excluded_ids: Sequence[int] | Longs = (),
) -> Iterator[LedgerRow]:
    """Yield up to ``max_count`` ledgers with 64-bit ids (scope 0) that have one of ``bookies`` in a segment.

    Ledgers in ``excluded_ids`` are left out. If ``must_be_closed``, ledgers that are not closed are left out
    too.
    """
    import numpy as np

    bookie_array, excluded_array, row_limit = (
        pa.array(sorted(bookies), pa.string()),
        pa.array(excluded_ids, pa.int64()),
        max_count,
    )
    for batch in _read_listed_ledgers(run):
        batch_rows = batch.filter(pc.invert(pc.is_in(batch["ledger_id"], excluded_array)))
        batch_rows = (
            batch_rows.filter(pc.fill_null(pc.equal(batch_rows["state"], "CLOSED"), False))
            if must_be_closed
            else batch_rows
        )
        ensembles = batch_rows["segments"].flatten().field("ensemble")
        segment_rows = pc.list_parent_indices(batch_rows["segments"]).take(pc.list_parent_indices(ensembles))
        rows = np.unique(segment_rows.filter(pc.is_in(ensembles.flatten(), bookie_array)).to_numpy())
        for row in batch_rows.take(pa.array(rows[:row_limit], pa.int64())).to_pylist():
            yield _parse_row(row)
        row_limit -= min(row_limit, len(rows))
        if not row_limit:
            return


def _read_listed_ledgers(run: RunReader) -> Iterator[pa.RecordBatch]:
    row_filter = ds.field("status").isin([str(ledger_status) for ledger_status in LISTED]) & (
        ds.field("scope_id") == 0
    )
    return run.batches("tables/ledgers", _LEDGER_COLUMNS, row_filter)


def _parse_row(row: dict[str, Any]) -> LedgerRow:
    ensembles = tuple(tuple(segment["ensemble"]) for segment in row["segments"] or ())
    stored_bytes = max(row["length"] or 0, 0) * (row["write_quorum"] or 0)
    return LedgerRow(
        row["ledger_id"], row["version"], row["state"], stored_bytes, ensembles, row["digest_type"]
    )


def planned_ledgers(run: RunReader, ledger_ids: Sequence[int]) -> tuple[PlannedLedger, ...]:
    """Return ledgers in a plan's form. Version and state are None if the store does not list a ledger."""
    rows = read_ledgers(run, ledger_ids)
    return tuple(
        rows[ledger_id].as_planned_ledger()
        if ledger_id in rows
        else PlannedLedger(str(ledger_id), None, None)
        for ledger_id in ledger_ids
    )
