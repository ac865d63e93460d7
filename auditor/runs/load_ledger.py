"""One ledger out of a finished run, as `auditor.model.ledger_view` has it; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.codecs.availability.coverage import last_entry
from auditor.errors import RunUsageError, UsageError
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import LedgerState, Segment
from auditor.model.ledger_view import LedgerView, ReplicaView
from auditor.model.states import NOT_WHOLE, OF_PLACES, BookieRead, IndexState, UnknownCopy
from auditor.runs.ledger_answers import answers_of, with_answers
from auditor.runs.reader import RunReader
from auditor.tables.judge_replicas import LedgerFacts, groups_of, striped_to

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def ledger_view(run: RunReader, ledger_id: int | LedgerId, scope_id: int = 0) -> LedgerView:
    """One ledger as a run saw it. A `LedgerId` brings its own scope.

    Raises:
        UsageError: no ledger has such an id.
        RunError: neither the metadata nor any bookie of this run knows the ledger.
    """
    import pyarrow.dataset as ds

    from auditor.runs.queue_view import queue_view

    ledger_id, scope_id = _ids(ledger_id, scope_id)
    here = (ds.field("ledger_id") == ledger_id) & (ds.field("scope_id") == scope_id)
    row = _only(run.table("ledgers", filter=here).to_pylist())
    indexes = _holdings(run, row, here)
    if not row and not indexes and not _is_marked(run, ledger_id, scope_id):
        scope = f" of scope {scope_id}" if scope_id else ""
        raise RunUsageError(f"{run.path}: neither the metadata nor a bookie knows ledger {ledger_id}{scope}")
    bookies = {each["bookie_id"]: each for each in run.table("bookies").to_pylist()}
    verdict = _only(run.table("verdicts", filter=here).to_pylist())
    judged = _only(run.table("judged", filter=here).to_pylist())
    unequal = {each["bookie_id"]: each for each in run.table("unequal", filter=here).to_pylist()}
    answers = answers_of(_rows_of(run, "witness", here))
    unknown = {each["bookie_id"]: each["why"] for each in judged.get("unknown") or ()}
    return LedgerView(
        ledger_id=ledger_id,
        scope_id=scope_id,
        status=row.get("status", "gone"),
        segments=tuple(
            Segment(each["first_entry_id"], tuple(each["ensemble"])) for each in row.get("segments") or ()
        ),
        rules=tuple(f"{each['rule']}: {each['reason']}" for each in row.get("rules") or ()),
        judged_class=verdict.get("class"),
        potential_class=verdict.get("potential_class"),
        doubts=tuple(judged.get("doubts") or ()),
        attached=tuple((key, _text(value)) for key, value in row.get("custom_metadata") or ()),
        replicas=tuple(
            with_answers(replica, answers, unknown) for replica in _replicas(row, indexes, unequal, bookies)
        ),
        answers=answers,
        queue=queue_view(run.path, run.report.run.keeps_marks, ledger_id, scope_id),
        **{name: row.get(name) for name in _SAME},
    )


def _is_marked(run: RunReader, ledger_id: int, scope_id: int) -> bool:
    """Whether the replication queue knows a ledger, deleted or not; it has those of scope 0."""
    import pyarrow.dataset as ds

    return scope_id == 0 and bool(_rows_of(run, "marks", ds.field("ledger_id") == ledger_id))


def _holdings(run: RunReader, ledger: Mapping[str, Any], here: ds.Expression) -> list[dict[str, Any]]:
    """What bookies hold of a ledger: their indexes with their journals, else what they answered."""
    indexes = run.table("availability", filter=here).to_pylist()
    if ledger:
        indexes = _with_tails(ledger, indexes, _rows_of(run, "journal_tails", here))
    indexes = [_without_unserved(each) for each in indexes]
    shown = {each["bookie_id"] for each in indexes}
    return indexes + [each for each in _rows_of(run, "answers", here) if each["bookie_id"] not in shown]


def _rows_of(run: RunReader, table: str, here: ds.Expression) -> list[dict[str, Any]]:
    """A ledger's rows of a table that not every run has."""
    return run.table(table, filter=here).to_pylist() if table in run.table_names() else []


_SAME = (
    "path",
    "version",
    "state",
    "ensemble_size",
    "write_quorum",
    "ack_quorum",
    "last_entry_id",
    "length",
    "digest_type",
    "ctime",
    "mtime",
    "damage",
)


def _text(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return (value or b"").hex()


def _ids(ledger_id: int | LedgerId, scope_id: int) -> tuple[int, int]:
    """The ledger's id and scope, both of which a table can have.

    >>> _ids(LedgerId(2, scope=1), 0)
    (2, 1)
    """
    if isinstance(ledger_id, LedgerId):
        named = ledger_id
        if scope_id not in (0, named.scope):
            raise UsageError(f"scope_id={scope_id}: {named} says another")
        ledger_id, scope_id = named.id, named.scope
    for each in (ledger_id, scope_id):
        if not isinstance(each, int) or not -(2**63) <= each < 2**63:
            raise UsageError(
                f"{each!r} is not the id of a ledger or a scope: an integer of 64 bits, or a LedgerId"
            )
    return ledger_id, scope_id


def _only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0] if rows else {}


def _with_tails(
    ledger: Mapping[str, Any], indexes: list[dict[str, Any]], tails: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What indexes and journals show together, of the bookies that the metadata names."""
    from auditor.tables.held_accounts import HeldAccount, unite_tail

    members = {name for each in ledger["segments"] or () for name in each["ensemble"]}
    beside = {each["bookie_id"]: each["groups"] for each in tails if each["bookie_id"] in members}
    rows = []
    for row in indexes:
        if row["bookie_id"] in beside and row["state"] not in OF_PLACES:
            both = unite_tail(HeldAccount(row["groups"], row["state"]), beside[row["bookie_id"]])
            row |= {"groups": both.held, "state": both.index_state}
        rows.append(row)
    indexed = {row["bookie_id"] for row in indexes if row["state"] not in OF_PLACES}
    return rows + [
        {"bookie_id": name, "groups": groups, "state": IndexState.OK, "reason": None}
        for name, groups in beside.items()
        if name not in indexed
    ]


def _without_unserved(row: dict[str, Any]) -> dict[str, Any]:
    """What locations show of a ledger that its bookie does not serve is not held."""
    return row | {"groups": b""} if row["state"] == IndexState.NOT_INDEXED else row


def _expected_groups(row: Mapping[str, Any], indexes: list[dict[str, Any]]) -> dict[str, bytes]:
    """What each member should have; of a ledger that is not closed, up to the newest entry that any has."""
    judged = {each["bookie_id"]: each["groups"] or b"" for each in row.get("replicas") or ()}
    if row.get("undecidable", True) or row["state"] == LedgerState.CLOSED:
        return judged
    segments = [(each["first_entry_id"], each["ensemble"]) for each in row["segments"]]
    ledger = LedgerFacts(
        row["ledger_id"],
        False,
        row["ensemble_size"],
        row["write_quorum"],
        row["ack_quorum"],
        row["last_entry_id"],
        row["mtime"],
        segments,
    )
    held = [groups_of(each["groups"]) for each in indexes if each["bookie_id"] in judged]
    newest = max((last_entry(groups) for groups in held), default=-1)
    return {member: striped_to(ledger, member, newest).tobytes() for member in judged}


def _replicas(
    row: Mapping[str, Any],
    indexes: list[dict[str, Any]],
    unequal: Mapping[str, Mapping[str, Any]],
    bookies: Mapping[str, Mapping[str, Any]],
) -> tuple[ReplicaView, ...]:
    """Every member of an ensemble and every other bookie that holds something, by id."""
    expected = _expected_groups(row, indexes)
    members = {name for each in row.get("segments") or () for name in each["ensemble"]}
    held = {each["bookie_id"]: each for each in indexes if each["state"] not in OF_PLACES}
    views = []
    for name in sorted({*members, *expected, *held}):
        index, pair = held.get(name, {}), unequal.get(name, {})
        # An index cut inside a page is recognised after the scan; the pair that differs knows of it.
        state = pair.get("index_state") or index.get("state") or IndexState.ABSENT
        bookie = bookies.get(name, {})
        read = bookie.get("read", BookieRead.UNREAD)
        foreign = bool(bookie.get("foreign_instance"))
        reason = index.get("reason")
        answered = pair.get("answered") is not None and state == IndexState.OK
        if read != BookieRead.READ and not answered:
            reason = bookie.get("reason") or "no source covers it"
            state = UnknownCopy.UNREAD if state == IndexState.ABSENT else state
        if foreign:
            reason = "its directories are another cluster's"
        views.append(
            ReplicaView(
                name,
                name in members,
                expected.get(name, b""),
                (pair["held"] if answered else index.get("groups")) or b"",
                (read == BookieRead.READ or answered) and not foreign and state not in NOT_WHOLE,
                state,
                reason,
            )
        )
    return tuple(views)
