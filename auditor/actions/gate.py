"""The gate: it permits or refuses an action by a run's holds (rules that forbid actions) and its data's age.

    permit(run, ActionKind.RECOVER, [bookie("bk1:3181"), ledger(42)])

No instruction is shown without the gate's permission (`Allowed`), which only this module makes. Instructions
are the steps of a plan, steps that free space, decommissions, and commands with names of objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from auditor.actions.hold_order import sort_by_importance
from auditor.actions.objects import objects_with_needed_data
from auditor.model.amounts import first_names
from auditor.model.arrow import ds, pa, pc
from auditor.model.finding import Confidence
from auditor.model.holds import (
    ACTIONS_NEEDING_TWO_RUNS,
    DANGEROUS_ACTIONS,
    HOLDS_TABLE_PATH,
    ActionKind,
    FactReason,
    Hold,
    HoldObject,
    LiftCondition,
    ledger_key,
)
from auditor.model.ledger_metadata import LedgerState
from auditor.model.permission import GATE_SEAL, ActionObject, Allowed, Refused, UnfitRunReason
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS

__all__ = [
    "MAX_DATA_AGE_MS", "ActionObject", "Allowed", "GateRun", "HoldBook", "UnfinishedRun", "Refused", "permit",
    "permit_everywhere", "permit_ledgers",
]  # fmt: skip

MAX_DATA_AGE_MS = 24 * 3_600_000
"""Largest age of the data on which a dangerous action may rest, in ms."""

MAX_CHECKS_NAMED = 3
"""Largest number of checks with missing holds that a refusal names."""

_REASONS_REMOVED_BY_REBUILD = frozenset({"ledger-not-indexed", str(FactReason.INDEX_DAMAGED)})
REMOVED_REASONS: Mapping[ActionKind, frozenset[str]] = {ActionKind.REBUILD_INDEX: _REASONS_REMOVED_BY_REBUILD}
"""Reasons of holds that an action removes for the next action of the same procedure, by kind of the action.

After a rebuild of its index, a bookie can open its databases, and its garbage collector knows its ledgers.
"""


class GateRun(Protocol):
    """A run, usually finished, with its holds (bans on actions). Permissions need no other part of it."""

    @property
    def holds(self) -> HoldBook:
        """All holds of the run. A hold forbids some kinds of action on an object."""
        ...


@dataclass(frozen=True)
class UnfinishedRun:
    """A `GateRun` (a run with holds, which forbid actions) for a run that is not finished yet."""

    holds: HoldBook


BatchReader = Callable[[str, Sequence[str] | None, Any], Iterable[Any]]
"""Function that reads a part of a run as record batches. Arguments: path in the run, columns, row filter."""

_HOLD_COLUMNS = (
    "object", "key", "forbids", "reason", "certain", "first_seen", "lift", "message", "urgency", "accepted",
    "carried",
)  # fmt: skip


class HoldBook:
    """Holds (rules that forbid actions) of one run. Each request reads the many holds on ledgers again.

    Args:
        read_batches: function that reads parts of the run.
        has_holds_table: whether the run has the table holds; runs of earlier versions lack it.
        oldest_data_time: the time of the oldest data that the run rests on, ms.
        has_earlier_run: whether an earlier run with holds was found.
        are_logs_read: whether the bookies' entry logs were read.
        current_time: the current time, ms.
        checks_without_holds: checks whose holds may be missing, by kind of action (`kinds_without_holds`).
        newest_data_time: the time of the newest data, ms; None if it equals ``oldest_data_time``.
    """

    def __init__(
        self,
        read_batches: BatchReader,
        *,
        has_holds_table: bool,
        oldest_data_time: int,
        has_earlier_run: bool,
        are_logs_read: bool,
        current_time: int,
        checks_without_holds: Mapping[ActionKind, Sequence[str]] | None = None,
        newest_data_time: int | None = None,
    ) -> None:
        self._read_table = read_batches
        self.has_holds = has_holds_table
        self.data_time = oldest_data_time
        self.has_prior_run = has_earlier_run
        self.has_logs = are_logs_read
        self.now_ms = current_time
        self.hold_gaps = checks_without_holds or {}
        self._newest_time = oldest_data_time if newest_data_time is None else newest_data_time

    @property
    def is_stale(self) -> bool:
        """Whether the data is too old for a dangerous action."""
        return self.now_ms - self.data_time > MAX_DATA_AGE_MS

    @property
    def is_in_future(self) -> bool:
        """Whether some data has a time in the future, so that its age is unknown."""
        return self._newest_time - self.now_ms > MAX_CLOCK_AHEAD_MS

    @cached_property
    def holds_by_key(self) -> dict[tuple[str, str], list[Hold]]:
        """Holds (bans) on bookies, logs and sources, by (kind of object, key). Objects have few holds."""
        holds_by_key: dict[tuple[str, str], list[Hold]] = {}
        for hold in self._read_holds(ds.field("object") != HoldObject.LEDGER.value):
            holds_by_key.setdefault((hold.object, hold.key), []).append(hold)
        return holds_by_key

    def find_ledger_holds(self, keys: Collection[str]) -> dict[str, list[Hold]]:
        """Return the holds (bans) on the ledgers with these keys, by key. Reads all ledger holds once."""
        holds_by_ledger: dict[str, list[Hold]] = {}
        if keys and self.has_holds:
            key_array = pa.array(sorted(keys), pa.string())
            is_ledger = ds.field("object") == HoldObject.LEDGER.value
            for batch in self._read_table(HOLDS_TABLE_PATH, _HOLD_COLUMNS, is_ledger):
                for row in batch.filter(pc.is_in(batch["key"], key_array)).to_pylist():
                    holds_by_ledger.setdefault(row["key"], []).append(_parse_hold(row))
        return holds_by_ledger

    def first_ledger_hold(self, kind: ActionKind) -> tuple[Hold, ...]:
        """Return the first ledger hold (a ban) that forbids ``kind``, as a tuple. Empty if none does."""
        return tuple(islice(self.iterate_ledger_holds(kind), 1))

    def cluster_wide_holds(self, kind: ActionKind) -> tuple[Hold, ...]:
        """Return holds that forbid ``kind``: all on bookies, logs and sources, at most one on a ledger."""
        other_holds = (hold for holds in self.holds_by_key.values() for hold in holds if kind in hold.forbids)
        return (*other_holds, *self.first_ledger_hold(kind))

    def iterate_ledger_holds(self, kind: ActionKind) -> Iterator[Hold]:
        """Yield the ledger holds (bans) that forbid a kind of action, in the order of the table ``holds``."""
        is_ledger = ds.field("object") == HoldObject.LEDGER.value
        return (hold for hold in self._read_holds(is_ledger) if kind in hold.forbids)

    def ledgers_on_hold(self, kind: ActionKind) -> pa.Table:
        """Return the ledgers on which ``kind`` is forbidden: scope_id, ledger_id and one reason (``why``).

        The result is an Arrow table, because it may have a row for every ledger of the cluster.
        """
        columns = ["scope_id", "ledger_id", "forbids", "reason"]
        schema = pa.schema({"scope_id": pa.int64(), "ledger_id": pa.int64(), "why": pa.string()})
        tables = [schema.empty_table()]
        is_ledger = ds.field("object") == HoldObject.LEDGER.value
        for batch in self._read_table(HOLDS_TABLE_PATH, columns, is_ledger) if self.has_holds else ():
            is_forbidden = pc.equal(pc.list_flatten(batch["forbids"]), kind.value)
            rows = pa.table(batch).take(pc.list_parent_indices(batch["forbids"]).filter(is_forbidden))
            reason_texts = pc.binary_join_element_wise("a hold forbids it (", rows["reason"], ")", "")
            tables.append(
                pa.table({"scope_id": rows["scope_id"], "ledger_id": rows["ledger_id"], "why": reason_texts})
            )
        grouped_table = (
            pa.concat_tables(tables).group_by(["scope_id", "ledger_id"]).aggregate([("why", "min")])
        )
        return grouped_table.rename_columns({"why_min": "why"})

    def find_holds(self, objects: Iterable[ActionObject]) -> Iterator[Hold]:
        """Yield the holds (rules that forbid actions) on these objects."""
        ledger_keys = []
        for object in objects:
            if object.kind is HoldObject.LEDGER:
                ledger_keys.append(object.key)
            else:
                yield from self.holds_by_key.get((object.kind, object.key), ())
        for holds in self.find_ledger_holds(ledger_keys).values():
            yield from holds

    def deletable_ledgers(self, keys: Collection[str]) -> frozenset[str]:
        """Return those ``keys`` whose ledgers the run proved to be closed and not referenced by any owner.

        An owner is an object of an application, such as a topic. The proof is a confirmed finding
        ``ledger-unowned`` about a closed ledger. The check needs all owner stores, and an equal finding of a
        run at least one ledger rollover earlier (`auditor.model.owner_scope.ROLLOVER_MS`).
        """
        deletable_keys: set[str] = set()
        if keys and self.has_holds:
            is_proof = (ds.field("id") == _CHECK_THAT_PROVES_DELETION) & (
                ds.field("confidence") == Confidence.CONFIRMED.value
            )
            for batch in self._read_table("findings", ["scope_id", "ledger_id", "evidence"], is_proof):
                for row in batch.to_pylist():
                    key = ledger_key(row["scope_id"] or 0, row["ledger_id"])
                    if key in keys and _is_deletable(json.loads(row["evidence"] or "{}")):
                        deletable_keys.add(key)
        return frozenset(deletable_keys)

    def has_open_ledger(self, objects: Iterable[ActionObject]) -> bool:
        """Return whether one of these objects is an open ledger, which may have a writer."""
        keys = {object.key for object in objects if object.kind is HoldObject.LEDGER}
        if not keys:
            return False
        ids = [int(key.partition("/")[2]) for key in keys]
        is_open = (ds.field("state") == LedgerState.OPEN.value) & ds.field("ledger_id").isin(ids)
        return any(
            ledger_key(row["scope_id"] or 0, row["ledger_id"]) in keys
            for batch in self._read_table("tables/ledgers", ["scope_id", "ledger_id"], is_open)
            for row in batch.to_pylist()
        )

    def _read_holds(self, row_filter: Any) -> Iterator[Hold]:
        if self.has_holds:
            for batch in self._read_table(HOLDS_TABLE_PATH, _HOLD_COLUMNS, row_filter):
                yield from map(_parse_hold, batch.to_pylist())


_CHECK_THAT_PROVES_DELETION = "ledger-unowned"
_NO_PROOF_TEXT = (
    "no confirmed finding of the check ledger-unowned proves that the ledger is closed and has no owner: "
    "only its application may delete it"
)


def _is_deletable(evidence: Mapping[str, Any]) -> bool:
    """Return whether the evidence of a confirmed ``ledger-unowned`` proves that a ledger may be deleted."""
    return (
        bool(evidence.get("owners_complete"))
        and bool(evidence.get("seen_before"))
        and evidence.get("state") == LedgerState.CLOSED
    )


def _parse_hold(row: dict[str, Any]) -> Hold:
    known_kinds = {kind.value for kind in ActionKind}
    return Hold(
        HoldObject(row["object"]),
        row["key"],
        tuple(ActionKind(kind_name) for kind_name in row["forbids"] if kind_name in known_kinds),
        row["reason"],
        row["certain"],
        row["first_seen"],
        LiftCondition(row["lift"]),
        row["message"],
        row["urgency"],
        row["accepted"],
        row["carried"],
    )


def permit(
    run: GateRun, kind: ActionKind, objects: Sequence[ActionObject], previous_action: Allowed | None = None
) -> Allowed | Refused:
    """Decide whether an action on these objects is permitted.

    Args:
        run: the finished run that the action is based on.
        kind: the kind of action.
        objects: the objects of the action. The function adds the sources whose data the action depends on.
        previous_action: the permission of the previous action of the same procedure, on the same objects.
            Holds (bans) that this previous action removes (`REMOVED_REASONS`) do not count. None if there is
            no previous action.

    Returns:
        Allowed, or Refused with every hold that forbids the action.

    Raises:
        RunError: the run's table ``holds`` is broken.
    """
    allowed, refusals = permit_ledgers(run, kind, objects, (), previous_action)
    return refusals[0] if refusals else allowed or _make_allowed(kind, objects)


def permit_everywhere(run: GateRun, kind: ActionKind) -> Allowed | Refused:
    """Decide whether an action on the whole cluster is permitted. One ban (hold) on any object forbids it.

    AutoRecovery itself chooses the ledgers that it copies and the bookies that it reads, so every object
    counts. ``run`` is the finished run that the action is based on.

    Raises:
        RunError: the run's table ``holds`` is broken.
    """
    gate_answer = permit(run, kind, ())
    if isinstance(gate_answer, Refused):
        return gate_answer
    holds = sort_by_importance(run.holds.cluster_wide_holds(kind))
    return Refused(kind, (), holds) if holds else gate_answer


def permit_ledgers(
    run: GateRun,
    kind: ActionKind,
    objects: Sequence[ActionObject],
    ledger_objects: Sequence[ActionObject],
    previous_action: Allowed | None = None,
) -> tuple[Allowed | None, tuple[Refused, ...]]:
    """Decide for each ledger whether an action is permitted. The action handles each ledger separately.

    Args:
        run: the finished run that the action is based on.
        kind: the kind of action.
        objects: further objects of the action on each ledger, such as a bookie.
        ledger_objects: the ledgers.
        previous_action: as in `permit`.

    Returns:
        The permission for all permitted ledgers, and the refusals. The permission is None if no ledger is
            permitted. There is one refusal for all objects together, or one for each refused ledger.
    """
    hold_book = run.holds
    removed_reasons = _find_removed_reasons(previous_action, objects)
    all_objects = (*objects, *ledger_objects)
    checked_objects = (*objects, *objects_with_needed_data(kind, objects))
    unfit_reason = _find_unfit_reason(hold_book, kind)
    object_holds = sort_by_importance(
        hold
        for hold in hold_book.find_holds(checked_objects)
        if kind in hold.forbids and hold.reason not in removed_reasons
    )
    unproved_ledgers = _find_unproved_ledgers(hold_book, kind, all_objects)
    if object_holds or unfit_reason or not unproved_ledgers.isdisjoint(objects):
        reason_text = (
            _unfit_reason_text(hold_book, kind, unfit_reason)
            if unfit_reason
            else ""
            if object_holds
            else _NO_PROOF_TEXT
        )
        return None, (Refused(kind, all_objects, object_holds, reason_text, unfit_reason),)
    if not ledger_objects:
        return _make_allowed(kind, objects), ()
    ledger_holds = hold_book.find_ledger_holds([ledger.key for ledger in ledger_objects])
    permitted_ledgers, refusals = [], []
    for ledger in ledger_objects:
        holds = sort_by_importance(hold for hold in ledger_holds.get(ledger.key, ()) if kind in hold.forbids)
        if holds or ledger in unproved_ledgers:
            refusals.append(Refused(kind, (ledger,), holds, reason="" if holds else _NO_PROOF_TEXT))
        else:
            permitted_ledgers.append(ledger)
    return _make_allowed(kind, (*objects, *permitted_ledgers)) if permitted_ledgers else None, tuple(refusals)


def _find_removed_reasons(previous_action: Allowed | None, objects: Sequence[ActionObject]) -> frozenset[str]:
    """Return reasons of holds (bans) that the previous action removes. Empty if it lacked an object."""
    if previous_action is None or not {*objects} <= {*previous_action.objects}:
        return frozenset()
    return REMOVED_REASONS.get(previous_action.kind, frozenset())


def _find_unproved_ledgers(
    hold_book: HoldBook, kind: ActionKind, objects: Sequence[ActionObject]
) -> frozenset[ActionObject]:
    """Return the ledgers for which no proof allows deletion. Empty if the kind of action is not deletion."""
    if kind is not ActionKind.DELETE_LEDGER:
        return frozenset()
    ledger_objects = {object for object in objects if object.kind is HoldObject.LEDGER}
    deletable_keys = hold_book.deletable_ledgers({ledger.key for ledger in ledger_objects})
    return frozenset(ledger for ledger in ledger_objects if ledger.key not in deletable_keys)


def _find_unfit_reason(hold_book: HoldBook, kind: ActionKind) -> UnfitRunReason | None:
    """Return why the run cannot permit any action of this kind. None if it may permit one."""
    if not hold_book.has_holds and kind is not ActionKind.WAIT:
        return UnfitRunReason.NO_HOLDS  # a start can destroy data too, and the run did not look for holds
    if kind in hold_book.hold_gaps:
        return UnfitRunReason.CHECKS_NOT_RUN
    if kind not in DANGEROUS_ACTIONS:
        return None
    if hold_book.is_stale:
        return UnfitRunReason.DATA_TOO_OLD
    if hold_book.is_in_future:
        return UnfitRunReason.DATA_OF_FUTURE
    if kind in ACTIONS_NEEDING_TWO_RUNS and not hold_book.has_prior_run:
        return UnfitRunReason.NO_EARLIER_RUN
    if kind is ActionKind.REBUILD_INDEX and not hold_book.has_logs:
        return UnfitRunReason.LOGS_NOT_READ
    return None


def _unfit_reason_text(hold_book: HoldBook, kind: ActionKind, unfit_reason: UnfitRunReason) -> str:
    """Return ``unfit_reason`` as a sentence. If checks did not run, the sentence names the first of them."""
    if unfit_reason is not UnfitRunReason.CHECKS_NOT_RUN:
        return unfit_reason.sentence
    return f"{unfit_reason.sentence} ({first_names(hold_book.hold_gaps[kind], MAX_CHECKS_NAMED)})"


def _make_allowed(kind: ActionKind, objects: Sequence[ActionObject]) -> Allowed:
    return Allowed(kind, tuple(objects), GATE_SEAL)
