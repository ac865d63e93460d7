"""The gate: whether the holds of a run, and how old its data is, permit an action.

    permit(run, ActionKind.RECOVER, [bookie("bk1:3181"), ledger(0, 42)])

Every instruction that a person or a script could follow passes it: plan steps, space steps, the answer of a
decommissioning and each command that is filled in. What an instruction needs to be made is `Allowed`, and
nothing but `permit` makes one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from auditor.actions.objects import rests_on
from auditor.model.amounts import first_names
from auditor.model.arrow import ds, pa, pc
from auditor.model.finding import Confidence, Urgency
from auditor.model.holds import (
    DANGEROUS,
    HOLDS_PART,
    NEEDS_TWO_RUNS,
    ActionKind,
    FactReason,
    Hold,
    HoldObject,
    Lift,
    ledger_key,
)
from auditor.model.ledger_metadata import LedgerState
from auditor.model.permission import GATE_SEAL, ActionObject, Allowed, Refused, RunUnfit
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS

__all__ = [
    "MAX_DATA_AGE_MS", "ActionObject", "Allowed", "HeldRun", "HoldBook", "HoldsOfRun", "Refused", "permit",
    "permit_everywhere", "permit_ledgers",
]  # fmt: skip

MAX_DATA_AGE_MS = 24 * 3_600_000
"""A dangerous action needs data that is no older than this."""

CHECKS_NAMED = 3
"""Checks that a refusal names whose holds may be missing."""

CURES: Mapping[ActionKind, frozenset[str]] = {
    ActionKind.REBUILD_INDEX: frozenset({"ledger-not-indexed", str(FactReason.INDEX_DAMAGED)})
}
"""The reasons of holds that an action ends for the next action of the same procedure.

After its index is rebuilt, a bookie opens its databases, and its collector knows the ledgers.
"""


class HeldRun(Protocol):
    """What the gate asks of a run."""

    @property
    def holds(self) -> HoldBook:
        """The holds of the run."""
        ...


@dataclass(frozen=True)
class HoldsOfRun:
    """The holds of a run that is still being made."""

    holds: HoldBook


Batches = Callable[[str, Sequence[str] | None, Any], Iterable[Any]]
"""Record batches of a part of a run: its path there, columns, and a filter."""

_COLUMNS = (
    "object", "key", "forbids", "reason", "certain", "first_seen", "lift", "message", "urgency", "accepted",
    "carried",
)  # fmt: skip


class HoldBook:
    """The holds of one run. Those on ledgers are read when they are asked for, all others once.

    Args:
        batches: Reads parts of the run.
        exists: Whether the run has the table holds; a run of an earlier version has not.
        as_of: The time of the oldest data that the run rests on, ms.
        has_earlier: Whether an earlier run with holds was found.
        logs_read: Whether the bookies' entry logs were read.
        unheld: Kinds of action that checks could forbid whose holds may be missing, each with these checks
            (`auditor.checks.configuration.kinds_without_holds`).
        now: The current time, ms.
        newest: The time of the newest data that the run rests on, ms; None: that of the oldest.
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
        newest: int | None = None,
    ) -> None:
        self._batches = batches
        self.exists = exists
        self.as_of = as_of
        self.has_earlier = has_earlier
        self.logs_read = logs_read
        self.now = now
        self.unheld = unheld or {}
        self._newest = as_of if newest is None else newest

    @property
    def is_stale(self) -> bool:
        """Whether the data is too old for a dangerous action."""
        return self.now - self.as_of > MAX_DATA_AGE_MS

    @property
    def is_of_future(self) -> bool:
        """Whether some data is newer than the current time, so that nobody knows how old it is."""
        return self._newest - self.now > MAX_CLOCK_AHEAD_MS

    @cached_property
    def by_key(self) -> dict[tuple[str, str], list[Hold]]:
        """All holds but those on ledgers, by object and key. Bounded by bookies and entry logs."""
        found: dict[tuple[str, str], list[Hold]] = {}
        for hold in self._read(ds.field("object") != HoldObject.LEDGER.value):
            found.setdefault((hold.object, hold.key), []).append(hold)
        return found

    def of_ledgers(self, keys: Collection[str]) -> dict[str, list[Hold]]:
        """The holds on these ledgers, by key; one pass over the holds on ledgers."""
        found: dict[str, list[Hold]] = {}
        if keys and self.exists:
            wanted = pa.array(sorted(keys), pa.string())
            is_ledger = ds.field("object") == HoldObject.LEDGER.value
            for batch in self._batches(HOLDS_PART, _COLUMNS, is_ledger):
                for row in batch.filter(pc.is_in(batch["key"], wanted)).to_pylist():
                    found.setdefault(row["key"], []).append(_hold(row))
        return found

    def first_of_ledgers(self, kind: ActionKind) -> tuple[Hold, ...]:
        """The first hold on a ledger that forbids a kind of action; empty if there is none."""
        return tuple(islice(self.on_ledgers(kind), 1))

    def first_anywhere(self, kind: ActionKind) -> tuple[Hold, ...]:
        """The holds on bookies, entry logs and sources that forbid a kind, and the first on a ledger."""
        others = (hold for holds in self.by_key.values() for hold in holds if kind in hold.forbids)
        return (*others, *self.first_of_ledgers(kind))

    def on_ledgers(self, kind: ActionKind) -> Iterator[Hold]:
        """The holds on ledgers that forbid a kind, as the table has them, batch by batch."""
        is_ledger = ds.field("object") == HoldObject.LEDGER.value
        return (hold for hold in self._read(is_ledger) if kind in hold.forbids)

    def held_ledgers(self, kind: ActionKind) -> pa.Table:
        """The ledgers on which a kind of action is forbidden, and ``why``: the first reason of each.

        In Arrow, because there may be as many as ledgers.
        """
        columns = ["scope_id", "ledger_id", "forbids", "reason"]
        schema = pa.schema({"scope_id": pa.int64(), "ledger_id": pa.int64(), "why": pa.string()})
        parts = [schema.empty_table()]
        is_ledger = ds.field("object") == HoldObject.LEDGER.value
        for batch in self._batches(HOLDS_PART, columns, is_ledger) if self.exists else ():
            forbids = pc.equal(pc.list_flatten(batch["forbids"]), kind.value)
            rows = pa.table(batch).take(pc.list_parent_indices(batch["forbids"]).filter(forbids))
            why = pc.binary_join_element_wise("a hold forbids it (", rows["reason"], ")", "")
            parts.append(pa.table({"scope_id": rows["scope_id"], "ledger_id": rows["ledger_id"], "why": why}))
        grouped = pa.concat_tables(parts).group_by(["scope_id", "ledger_id"]).aggregate([("why", "min")])
        return grouped.rename_columns({"why_min": "why"})

    def of(self, objects: Iterable[ActionObject]) -> Iterator[Hold]:
        """The holds on some objects."""
        ledgers = []
        for object in objects:
            if object.kind is HoldObject.LEDGER:
                ledgers.append(object.key)
            else:
                yield from self.by_key.get((object.kind, object.key), ())
        for holds in self.of_ledgers(ledgers).values():
            yield from holds

    def deletable_ledgers(self, keys: Collection[str]) -> frozenset[str]:
        """Of these ledgers, by key, those that the run proved closed and unowned.

        The proof is a confirmed ``ledger-unowned`` of a closed ledger, which rests on every owner store and
        on two runs a rollover apart. A ledger without a finding may well be owned.
        """
        proved: set[str] = set()
        if keys and self.exists:
            is_proof = (ds.field("id") == _PROOF_OF_DELETION) & (
                ds.field("confidence") == Confidence.CONFIRMED.value
            )
            for batch in self._batches("findings", ["scope_id", "ledger_id", "evidence"], is_proof):
                for row in batch.to_pylist():
                    key = ledger_key(row["scope_id"] or 0, row["ledger_id"])
                    if key in keys and _is_deletable(json.loads(row["evidence"] or "{}")):
                        proved.add(key)
        return frozenset(proved)

    def has_open_ledger(self, objects: Iterable[ActionObject]) -> bool:
        """Whether one of the ledgers among these objects is open, so that a writer may have it."""
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

    def _read(self, chosen: Any) -> Iterator[Hold]:
        if self.exists:
            for batch in self._batches(HOLDS_PART, _COLUMNS, chosen):
                yield from map(_hold, batch.to_pylist())


_PROOF_OF_DELETION = "ledger-unowned"
_UNPROVED = (
    "no audit proved that it is closed and that nobody owns it (ledger-unowned, confirmed): its application "
    "deletes its own ledgers"
)


def _is_deletable(evidence: Mapping[str, Any]) -> bool:
    """Whether a confirmed ``ledger-unowned`` proves that its ledger may go."""
    return (
        bool(evidence.get("owners_complete"))
        and bool(evidence.get("seen_before"))
        and evidence.get("state") == LedgerState.CLOSED
    )


def _hold(row: dict[str, Any]) -> Hold:
    known = {kind.value for kind in ActionKind}
    return Hold(
        HoldObject(row["object"]),
        row["key"],
        tuple(ActionKind(word) for word in row["forbids"] if word in known),
        row["reason"],
        row["certain"],
        row["first_seen"],
        Lift(row["lift"]),
        row["message"],
        row["urgency"],
        row["accepted"],
        row["carried"],
    )


_FACT_RANK = {str(reason): rank for rank, reason in enumerate(FactReason)}


def by_importance(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """Sort holds: the most urgent first, certain ones before doubt, findings before facts."""

    def importance(hold: Hold) -> tuple[object, ...]:
        rank = _FACT_RANK.get(hold.reason, -1)
        return Urgency(hold.urgency).rank, not hold.certain, rank, hold.object, hold.key, hold.reason

    return tuple(sorted(holds, key=importance))


def permit(
    run: HeldRun, kind: ActionKind, objects: Sequence[ActionObject], after: Allowed | None = None
) -> Allowed | Refused:
    """Whether an action on some objects is permitted.

    Args:
        run: The finished run that the action rests on.
        kind: What is to be done.
        objects: To what; the sources that it rests on are added.
        after: The action before it in the same procedure, on the same objects. It ends some holds (`CURES`).

    Returns:
        Allowed, or Refused with every hold that forbids it.

    Raises:
        RunError: the table holds is broken.
    """
    allowed, refused = permit_ledgers(run, kind, objects, (), after)
    return refused[0] if refused else allowed or _allowed(kind, objects)


def permit_everywhere(run: HeldRun, kind: ActionKind) -> Allowed | Refused:
    """Whether an action that is done to the whole cluster is permitted: no hold on anything may forbid it.

    What AutoRecovery copies, and from which bookie, nobody chooses: one ledger that is held is enough.

    Args:
        run: The finished run that the action rests on.
        kind: What is to be done.

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
    after: Allowed | None = None,
) -> tuple[Allowed | None, tuple[Refused, ...]]:
    """Whether an action that is taken ledger by ledger is permitted, of which of them.

    Args:
        run: The finished run that the action rests on.
        kind: What is to be done.
        objects: What all of it is done to, such as a bookie.
        ledgers: To which ledgers.
        after: As for `permit`.

    Returns:
        The permitted part, None if nothing is; and a refusal for all, or one for each ledger that is held.
    """
    book = run.holds
    cured = _cured(after, objects)
    everything = (*objects, *ledgers)
    whole = (*objects, *rests_on(kind, objects))
    unfit = _unfit(book, kind)
    forbidding = by_importance(
        hold for hold in book.of(whole) if kind in hold.forbids and hold.reason not in cured
    )
    unproved = _unproved(book, kind, everything)
    if forbidding or unfit or not unproved.isdisjoint(objects):
        why = _why_unfit(book, kind, unfit) if unfit else "" if forbidding else _UNPROVED
        return None, (Refused(kind, everything, forbidding, why, unfit),)
    if not ledgers:
        return _allowed(kind, objects), ()
    by_ledger = book.of_ledgers([ledger.key for ledger in ledgers])
    permitted, refused = [], []
    for ledger in ledgers:
        holds = by_importance(hold for hold in by_ledger.get(ledger.key, ()) if kind in hold.forbids)
        if holds or ledger in unproved:
            refused.append(Refused(kind, (ledger,), holds, why="" if holds else _UNPROVED))
        else:
            permitted.append(ledger)
    return _allowed(kind, (*objects, *permitted)) if permitted else None, tuple(refused)


def _cured(after: Allowed | None, objects: Sequence[ActionObject]) -> frozenset[str]:
    """Reasons of holds on these objects that the action before ends; none if it is not on all of them."""
    if after is None or not {*objects} <= {*after.objects}:
        return frozenset()
    return CURES.get(after.kind, frozenset())


def _unproved(book: HoldBook, kind: ActionKind, objects: Sequence[ActionObject]) -> frozenset[ActionObject]:
    """The ledgers among these objects that must not be deleted for want of a proof; none of another kind."""
    if kind is not ActionKind.DELETE_LEDGER:
        return frozenset()
    ledgers = {object for object in objects if object.kind is HoldObject.LEDGER}
    proved = book.deletable_ledgers({ledger.key for ledger in ledgers})
    return frozenset(ledger for ledger in ledgers if ledger.key not in proved)


def _unfit(book: HoldBook, kind: ActionKind) -> RunUnfit | None:
    """Why nothing of this kind can rest on the run at all; None if it can."""
    if not book.exists and kind is not ActionKind.WAIT:
        return RunUnfit.NO_HOLDS  # a start can destroy data too, and nobody looked for what forbids it
    if kind in book.unheld:
        return RunUnfit.CHECKS_NOT_RUN
    if kind not in DANGEROUS:
        return None
    if book.is_stale:
        return RunUnfit.DATA_TOO_OLD
    if book.is_of_future:
        return RunUnfit.DATA_OF_FUTURE
    if kind in NEEDS_TWO_RUNS and not book.has_earlier:
        return RunUnfit.NO_EARLIER_RUN
    if kind is ActionKind.REBUILD_INDEX and not book.logs_read:
        return RunUnfit.LOGS_NOT_READ
    return None


def _why_unfit(book: HoldBook, kind: ActionKind, unfit: RunUnfit) -> str:
    """Why nothing of this kind can rest on the run, with the names of checks that are missing."""
    if unfit is not RunUnfit.CHECKS_NOT_RUN:
        return unfit.sentence
    return f"{unfit.sentence} ({first_names(book.unheld[kind], CHECKS_NAMED)})"


def _allowed(kind: ActionKind, objects: Sequence[ActionObject]) -> Allowed:
    return Allowed(kind, tuple(objects), GATE_SEAL)
