"""One ledger out of a finished run, for ``bkaudit explain ledger``: metadata, replicas, queue, answers.

No Spark; what is read of each table are the rows of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.coverage import last_entry
from auditor.codecs.availability.fold import fold_entries
from auditor.errors import RunUsageError, UsageError
from auditor.findings.rows import finding_of
from auditor.model.amounts import format_time
from auditor.model.finding import FindingWithHistory
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import LedgerState, Segment
from auditor.model.states import (
    NOT_WHOLE,
    OF_PLACES,
    BookieRead,
    IndexState,
    MarkRow,
    UnknownCopy,
    WitnessAnswer,
)
from auditor.model.views import AnswerView, LedgerView, ReplicaView
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader
from auditor.runs.standings import standings_of
from auditor.tables.judge_replicas import LedgerFacts, groups_of, striped_to

if TYPE_CHECKING:
    import pyarrow.dataset as ds

NONE_KEPT = "this store keeps no replication queue"
NOT_SAID = "not known: this run does not say whether its store keeps a replication queue; audit again"


def queue_view(run: str, keeps_marks: bool | None, ledger_id: int, scope_id: int) -> tuple[str, ...]:
    """What the marks and locks of a run say of one ledger; nothing where a run has not read them.

    ``keeps_marks`` is whether its store keeps any, None where the run does not say.

    Raises `RunError` where the table cannot be read.
    """
    import pyarrow.dataset as ds

    tables = RunDirectory(run)
    if "marks" not in tables.names("tables"):
        return ()
    if keeps_marks is False:
        return (NONE_KEPT,)
    wanted = (ds.field("ledger_id") == ledger_id) | (ds.field("kind") == MarkRow.GAP)
    rows = tables.read("tables/marks", filter=wanted)
    found = rows.to_pylist()
    its = [row for row in found if row["kind"] != MarkRow.GAP] if scope_id == 0 else []
    if keeps_marks is None and not its:
        return (NOT_SAID,)
    return _sentences(its, gaps=len(found) > len(its) and scope_id == 0)


def _sentences(rows: Iterable[dict[str, Any]], gaps: bool) -> tuple[str, ...]:
    """One for each mark and lock of a ledger.

    >>> _sentences([{"kind": "lock", "owner": "worker1", "ctime": 1795237669000}], gaps=False)
    ('not marked for replication', 'held by worker1 since 2026-11-21 05:07:49 UTC')
    """
    marks, locks = [], []
    for row in rows:
        if row["kind"] == "lock":
            locks.append(f"held by {row['owner'] or 'somebody'} since {_since(row)}")
        else:
            names = ", ".join(row["replicas"] or ()) or "a better placement"
            marks.append(f"marked for replication since {_since(row)}, for {names}")
    if not marks:
        marks = ["not known: not all marks could be listed" if gaps else "not marked for replication"]
        return (*marks, *locks)
    return (*marks, *(locks or ["no worker holds it"]))


def _since(row: dict[str, Any]) -> str:
    ms = row.get("ctime") or row.get("mtime")
    return format_time(ms) if ms else "an unknown time"


_LEFT_OPEN: dict[str, str] = {
    UnknownCopy.INDEX_INCOMPLETE: "it serves entries that its index lacks; what it was not asked for is "
    "unknown",
    UnknownCopy.NOT_ASKED: "its index is too old to say, and it was not asked for all",
}


def answers_of(rows: Iterable[Mapping[str, Any]]) -> tuple[AnswerView, ...]:
    """One for each bookie, answer and reason, in this order.

    >>> row = {"bookie_id": "b1", "answer": "served", "reason": None}
    >>> answers_of([row | {"entry_id": 3}, row | {"entry_id": 0}])[0].count
    2
    """
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        grouped.setdefault((row["bookie_id"], row["answer"], row["reason"] or ""), []).append(row["entry_id"])
    return tuple(
        AnswerView(bookie_id, WitnessAnswer(answer), _groups(entries), len(entries), reason or None)
        for (bookie_id, answer, reason), entries in sorted(grouped.items())
    )


def with_answers(
    replica: ReplicaView, answers: Iterable[AnswerView], unknown: Mapping[str, str]
) -> ReplicaView:
    """A replica with what its bookie serves; ``unknown`` says why copies are unknown, by bookie (judged)."""
    served = [
        groups_of(each.entries)
        for each in answers
        if each.bookie_id == replica.bookie_id and each.answer is WitnessAnswer.SERVED
    ]
    held = coverage.union([groups_of(replica.held), *served]).tobytes() if served else replica.held
    why = _LEFT_OPEN.get(unknown.get(replica.bookie_id, ""))
    return ReplicaView(
        replica.bookie_id,
        replica.member,
        replica.expected,
        held,
        replica.known and why is None,
        replica.state,
        why or replica.reason,
    )


def _groups(entries: Iterable[int]) -> bytes:
    ids = np.array(sorted(set(entries)), np.int64)
    return fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes()


def ledger_view(run: RunReader, ledger_id: int | LedgerId, scope_id: int = 0) -> LedgerView:
    """One ledger as a run saw it. A `LedgerId` brings its own scope.

    Raises:
        UsageError: no ledger has such an id.
        RunError: neither the metadata nor any bookie of this run knows the ledger.
    """
    import pyarrow.dataset as ds

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


SHOWN = 50
"""Findings of one ledger that are told at most: one per check and bookie is the most that there are."""


def findings_for_ledger(run: RunReader, ledger_id: int, scope_id: int = 0) -> tuple[FindingWithHistory, ...]:
    """The findings about a ledger, the worst first; an empty tuple where there are none."""
    import pyarrow.dataset as ds

    here = (ds.field("ledger_id") == ledger_id) & (ds.field("scope_id") == scope_id)
    batches = run.batches("findings", filter=here)
    found = [finding_of(row) for row in islice((row for each in batches for row in each.to_pylist()), SHOWN)]
    standings = standings_of(run.directory, [finding.fingerprint for finding in found])
    return tuple(FindingWithHistory(finding, standings.get(finding.fingerprint)) for finding in found)
