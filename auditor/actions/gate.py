"""The gate: it decides, by a run's holds and the age of its data, whether an action is permitted.

    permit(run, ActionKind.RECOVER, [bookie("bk1:3181"), ledger(0, 42)])

Every instruction passes the gate: plan and space steps, the answer of a decommissioning, and each filled-in
command. An instruction needs an `Allowed`, and only the functions of this module make one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from auditor.actions.objects import objects_with_needed_data
from auditor.model.amounts import first_names
from auditor.model.arrow import ds, pa, pc
from auditor.model.finding import Confidence, Urgency
from auditor.model.holds import (
    DANGEROUS_ACTIONS,
    HOLDS_TABLE_PATH,
    TWO_RUN_ACTIONS,
    ActionKind,
    FactReason,
    Hold,
    HoldObject,
    Lift,
    ledger_key,
)
from auditor.model.ledger_metadata import LedgerState
from auditor.model.permission import GATE_SEAL, ActionObject, Allowed, Refused, UnfitRunReason
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS

__all__ = [
    "MAX_DATA_AGE_MS", "ActionObject", "Allowed", "HeldRun", "HoldBook", "HoldsOfRun", "Refused", "permit",
    "permit_everywhere", "permit_ledgers",
]  # fmt: skip

MAX_DATA_AGE_MS = 24 * 3_600_000
"""Largest age of the data on which a dangerous action may rest, in ms."""

MAX_CHECKS_NAMED = 3
"""Largest number of checks with missing holds that a refusal names."""

_REASONS_CURED_BY_REBUILD = frozenset({"ledger-not-indexed", str(FactReason.INDEX_DAMAGED)})
CURED_REASONS: Mapping[ActionKind, frozenset[str]] = {ActionKind.REBUILD_INDEX: _REASONS_CURED_BY_REBUILD}
"""Reasons of holds that an action removes for the next action of the same procedure.

After its index is rebuilt, a bookie can open its databases, and its collector knows the ledgers.
"""


class HeldRun(Protocol):
    """The part of a finished run that the gate uses."""

    @property
    def holds(self) -> HoldBook:
        """Holds of the run."""
        ...


@dataclass(frozen=True)
class HoldsOfRun:
    """Holds of a run that is still being made, as a `HeldRun`."""

    holds: HoldBook


Batches = Callable[[str, Sequence[str] | None, Any], Iterable[Any]]
"""Function of (path in the run, columns, filter) that reads a part of a run as record batches."""

_COLUMNS = (
    "object", "key", "forbids", "reason", "certain", "first_seen", "lift", "message", "urgency", "accepted",
    "carried",
)  # fmt: skip


class HoldBook:
    """Holds of one run; holds on ledgers are read whenever they are needed, all others once.

    Args:
        batches: reads parts of the run.
        exists: whether the run has the table holds; runs of earlier versions lack it.
        as_of: the time of the oldest data that the run rests on, ms.
        has_earlier: whether an earlier run with holds was found.
        logs_read: whether the bookies' entry logs were read.
        unheld: checks whose holds may be missing, by kind of action (`kinds_without_holds`).
        now: the current time, ms.
        newest: the time of the newest data of the run, ms; None if it equals ``as_of``.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        exists: bool,
        as_of: int,
        has_earlier: bool,
        logs_read: bool,
        now: int,
        unheld: Mapping[ActionKind, Sequence[str]] | None = None,
        newest_data_time: int | None = None,
    ) -> None:
        self._batches = batches
        self.exists = exists
        self.as_of = as_of
        self.has_earlier = has_earlier
        self.logs_read = logs_read
        self.now = now
        self.unheld = unheld or {}
        self._newest_time = as_of if newest_data_time is None else newest_data_time

    @property
    def is_stale(self) -> bool:
        """Whether the data is too old for a dangerous action."""
        return self.now - self.as_of > MAX_DATA_AGE_MS

    @property
    def is_of_future(self) -> bool:
        """Whether some data is newer than the current time, so that its age is not known."""
        return self._newest_time - self.now > MAX_CLOCK_AHEAD_MS

    @cached_property
    def by_key(self) -> dict[tuple[str, str], list[Hold]]:
        """All holds except those on ledgers, by object and key: at most a few per bookie and entry log."""
        holds_by_key: dict[tuple[str, str], list[Hold]] = {}
        for hold in self._read_holds(ds.field("object") != HoldObject.LEDGER.value):
            holds_by_key.setdefault((hold.object, hold.key), []).append(hold)
        return holds_by_key

    def of_ledgers(self, keys: Collection[str]) -> dict[str, list[Hold]]:
        """Return the holds on these ledgers, by key, in one pass over the holds on ledgers."""
        holds_by_ledger: dict[str, list[Hold]] = {}
        if keys and self.exists:
            key_array = pa.array(sorted(keys), pa.string())
            is_ledger = ds.field("object") == HoldObject.LEDGER.value
            for batch in self._batches(HOLDS_TABLE_PATH, _COLUMNS, is_ledger):
                for row in batch.filter(pc.is_in(batch["key"], key_array)).to_pylist():
                    holds_by_ledger.setdefault(row["key"], []).append(_parse_hold(row))
        return holds_by_ledger

    def first_of_ledgers(self, kind: ActionKind) -> tuple[Hold, ...]:
        """Return the first hold, on any ledger, that forbids a kind of action; empty if there is none."""
        return tuple(islice(self.on_ledgers(kind), 1))

    def first_anywhere(self, kind: ActionKind) -> tuple[Hold, ...]:
        """Return the holds on bookies, logs and sources that forbid a kind, and the first on any ledger."""
        other_holds = (hold for holds in self.by_key.values() for hold in holds if kind in hold.forbids)
        return (*other_holds, *self.first_of_ledgers(kind))

    def on_ledgers(self, kind: ActionKind) -> Iterator[Hold]:
        """Yield the holds on ledgers that forbid a kind, in the order of the table, batch by batch."""
        is_ledger = ds.field("object") == HoldObject.LEDGER.value
        return (hold for hold in self._read_holds(is_ledger) if kind in hold.forbids)

    def held_ledgers(self, kind: ActionKind) -> pa.Table:
        """Return the ledgers on which a kind of action is forbidden; ``why`` is one reason.

        The result is an Arrow table, because it may have as many rows as there are ledgers.
        """
        columns = ["scope_id", "ledger_id", "forbids", "reason"]
        schema = pa.schema({"scope_id": pa.int64(), "ledger_id": pa.int64(), "why": pa.string()})
        tables = [schema.empty_table()]
        is_ledger = ds.field("object") == HoldObject.LEDGER.value
        for batch in self._batches(HOLDS_TABLE_PATH, columns, is_ledger) if self.exists else ():
            forbids = pc.equal(pc.list_flatten(batch["forbids"]), kind.value)
            rows = pa.table(batch).take(pc.list_parent_indices(batch["forbids"]).filter(forbids))
            why = pc.binary_join_element_wise("a hold forbids it (", rows["reason"], ")", "")
            tables.append(
                pa.table({"scope_id": rows["scope_id"], "ledger_id": rows["ledger_id"], "why": why})
            )
        merged = pa.concat_tables(tables).group_by(["scope_id", "ledger_id"]).aggregate([("why", "min")])
        return merged.rename_columns({"why_min": "why"})

    def of(self, objects: Iterable[ActionObject]) -> Iterator[Hold]:
        """Yield the holds on these objects."""
        ledgers = []
        for object in objects:
            if object.kind is HoldObject.LEDGER:
                ledgers.append(object.key)
            else:
                yield from self.by_key.get((object.kind, object.key), ())
        for holds in self.of_ledgers(ledgers).values():
            yield from holds

    def deletable_ledgers(self, keys: Collection[str]) -> frozenset[str]:
        """Return those of the ledgers ``keys`` that the run proved closed and unowned.

        The proof is a confirmed ``ledger-unowned`` of a closed ledger. It rests on every owner store, and on
        two runs a rollover apart (see `auditor.model.owner_scope.ROLLOVER_MS`).
        """
        proved_keys: set[str] = set()
        if keys and self.exists:
            is_proof = (ds.field("id") == _PROOF_OF_DELETION) & (
                ds.field("confidence") == Confidence.CONFIRMED.value
            )
            for batch in self._batches("findings", ["scope_id", "ledger_id", "evidence"], is_proof):
                for row in batch.to_pylist():
                    key = ledger_key(row["scope_id"] or 0, row["ledger_id"])
                    if key in keys and _is_deletable(json.loads(row["evidence"] or "{}")):
                        proved_keys.add(key)
        return frozenset(proved_keys)

    def has_open_ledger(self, objects: Iterable[ActionObject]) -> bool:
        """Return whether a ledger among these objects is open, so that it may have a writer."""
        keys = {object.key for object in objects if object.kind is HoldObject.LEDGER}
        if not keys:
            return False
        ids = [int(key.partition("/")[2]) for key in keys]
        is_open = (ds.field("state") == LedgerState.OPEN.value) & ds.field("ledger_id").isin(ids)
        return any(
            ledger_key(row["scope_id"] or 0, row["ledger_id"]) in keys
            for batch in self._batches("tables/ledgers", ["scope_id", "ledger_id"], is_open)
            for row in batch.to_pylist()
        )

    def _read_holds(self, row_filter: Any) -> Iterator[Hold]:
        if self.exists:
            for batch in self._batches(HOLDS_TABLE_PATH, _COLUMNS, row_filter):
                yield from map(_parse_hold, batch.to_pylist())


_PROOF_OF_DELETION = "ledger-unowned"
_NO_PROOF = (
    "no audit proved that the ledger is closed and has no owner (a confirmed ledger-unowned): only "
    "its application may delete it"
)


def _is_deletable(evidence: Mapping[str, Any]) -> bool:
    """Return whether a confirmed ``ledger-unowned`` proves that its ledger may be deleted."""
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
        Lift(row["lift"]),
        row["message"],
        row["urgency"],
        row["accepted"],
        row["carried"],
    )


_RANK_BY_REASON = {str(reason): rank for rank, reason in enumerate(FactReason)}


def by_importance(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """Sort holds: the most urgent first, certain before uncertain ones, findings before facts."""

    def importance(hold: Hold) -> tuple[object, ...]:
        rank = _RANK_BY_REASON.get(hold.reason, -1)
        return Urgency(hold.urgency).rank, not hold.certain, rank, hold.object, hold.key, hold.reason

    return tuple(sorted(holds, key=importance))


def permit(
    run: HeldRun, kind: ActionKind, objects: Sequence[ActionObject], previous_action: Allowed | None = None
) -> Allowed | Refused:
    """Decide whether an action on these objects is permitted.

    Args:
        run: the finished run that the action rests on.
        kind: the kind of action.
        objects: the objects of the action; the gate adds the sources that it rests on.
        previous_action: the previous action of the same procedure, on the same objects; it removes some
            holds (`CURED_REASONS`). None if there is none.

    Returns:
        Allowed, or Refused with every hold that forbids it.

    Raises:
        RunError: the table holds is broken.
    """
    allowed, refusals = permit_ledgers(run, kind, objects, (), previous_action)
    return refusals[0] if refusals else allowed or _make_allowed(kind, objects)


def permit_everywhere(run: HeldRun, kind: ActionKind) -> Allowed | Refused:
    """Decide whether an action on the whole cluster is permitted: no hold on any object may forbid it.

    Nobody chooses the ledgers that AutoRecovery copies, or the bookies that it reads. One held ledger is
    therefore enough to refuse the action. ``run`` is the finished run that the action rests on.

    Raises:
        RunError: the table holds is broken.
    """
    answer = permit(run, kind, ())
    if isinstance(answer, Refused):
        return answer
    holds = by_importance(run.holds.first_anywhere(kind))
    return Refused(kind, (), holds) if holds else answer


def permit_ledgers(
    run: HeldRun,
    kind: ActionKind,
    objects: Sequence[ActionObject],
    ledgers: Sequence[ActionObject],
    previous_action: Allowed | None = None,
) -> tuple[Allowed | None, tuple[Refused, ...]]:
    """Decide, for an action that is taken ledger by ledger, on which ledgers it is permitted.

    Args:
        run: the finished run that the action rests on.
        kind: the kind of action.
        objects: further objects of the action on each ledger, such as a bookie.
        ledgers: the ledgers.
        previous_action: as in `permit`.

    Returns:
        The permission, None if nothing is permitted; and one refusal for everything, or one per ledger.
    """
    book = run.holds
    cured_reasons = _find_cured_reasons(previous_action, objects)
    all_objects = (*objects, *ledgers)
    held_objects = (*objects, *objects_with_needed_data(kind, objects))
    unfitness = _find_unfitness(book, kind)
    object_holds = by_importance(
        hold for hold in book.of(held_objects) if kind in hold.forbids and hold.reason not in cured_reasons
    )
    unproved_ledgers = _find_unproved(book, kind, all_objects)
    if object_holds or unfitness or not unproved_ledgers.isdisjoint(objects):
        why = _explain_unfitness(book, kind, unfitness) if unfitness else "" if object_holds else _NO_PROOF
        return None, (Refused(kind, all_objects, object_holds, why, unfitness),)
    if not ledgers:
        return _make_allowed(kind, objects), ()
    by_ledger = book.of_ledgers([ledger.key for ledger in ledgers])
    permitted, refusals = [], []
    for ledger in ledgers:
        holds = by_importance(hold for hold in by_ledger.get(ledger.key, ()) if kind in hold.forbids)
        if holds or ledger in unproved_ledgers:
            refusals.append(Refused(kind, (ledger,), holds, why="" if holds else _NO_PROOF))
        else:
            permitted.append(ledger)
    return _make_allowed(kind, (*objects, *permitted)) if permitted else None, tuple(refusals)


def _find_cured_reasons(previous_action: Allowed | None, objects: Sequence[ActionObject]) -> frozenset[str]:
    """Return the reasons of holds that the previous action removes; none if it was not on all the objects."""
    if previous_action is None or not {*objects} <= {*previous_action.objects}:
        return frozenset()
    return CURED_REASONS.get(previous_action.kind, frozenset())


def _find_unproved(
    book: HoldBook, kind: ActionKind, objects: Sequence[ActionObject]
) -> frozenset[ActionObject]:
    """Return the ledgers among these objects that lack the proof for their deletion; none for other kinds."""
    if kind is not ActionKind.DELETE_LEDGER:
        return frozenset()
    ledgers = {object for object in objects if object.kind is HoldObject.LEDGER}
    proved_keys = book.deletable_ledgers({ledger.key for ledger in ledgers})
    return frozenset(ledger for ledger in ledgers if ledger.key not in proved_keys)


def _find_unfitness(book: HoldBook, kind: ActionKind) -> UnfitRunReason | None:
    """Return why the run permits no action of this kind, on any object; None if it may permit some."""
    if not book.exists and kind is not ActionKind.WAIT:
        return UnfitRunReason.NO_HOLDS  # a start can destroy data too, and the run did not look for holds
    if kind in book.unheld:
        return UnfitRunReason.CHECKS_NOT_RUN
    if kind not in DANGEROUS_ACTIONS:
        return None
    if book.is_stale:
        return UnfitRunReason.DATA_TOO_OLD
    if book.is_of_future:
        return UnfitRunReason.DATA_OF_FUTURE
    if kind in TWO_RUN_ACTIONS and not book.has_earlier:
        return UnfitRunReason.NO_EARLIER_RUN
    if kind is ActionKind.REBUILD_INDEX and not book.logs_read:
        return UnfitRunReason.LOGS_NOT_READ
    return None


def _explain_unfitness(book: HoldBook, kind: ActionKind, unfitness: UnfitRunReason) -> str:
    """Return the reason why a run is unfit; if checks are missing, with their names."""
    if unfitness is not UnfitRunReason.CHECKS_NOT_RUN:
        return unfitness.sentence
    return f"{unfitness.sentence} ({first_names(book.unheld[kind], MAX_CHECKS_NAMED)})"


def _make_allowed(kind: ActionKind, objects: Sequence[ActionObject]) -> Allowed:
    return Allowed(kind, tuple(objects), GATE_SEAL)
