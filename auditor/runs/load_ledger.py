"""Views of the ledgers of a finished run, as `bkaudit explain ledger` shows them, read without Spark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.coverage import last_entry
from auditor.codecs.availability.fold import fold_entries
from auditor.errors import RunUsageError, UsageError
from auditor.model.amounts import format_time
from auditor.model.arrow import ds, pa
from auditor.model.finding import FindingWithHistory
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import LedgerState, Segment
from auditor.model.states import (
    NOT_REPLICAS,
    PARTIAL_INDEX,
    BookieRead,
    IndexState,
    MarkRowKind,
    UnknownCopy,
    WitnessAnswer,
)
from auditor.model.views import AnswerView, LedgerView, LogEntriesView, ReplicaView
from auditor.runs.change_status import statuses_of
from auditor.runs.reader import RunReader, finding_of
from auditor.tables.judge_replicas import LedgerFacts, entries_striped_to, groups_of

NO_QUEUE_TEXT = "this store keeps no replication queue"
NO_ANSWER_TEXT = "unknown: this run does not record whether its store keeps a replication queue; audit again"


def _queue_sentences(rows: Iterable[dict[str, Any]], has_gaps: bool) -> tuple[str, ...]:
    """Return sentences on a ledger's replication marks and locks. ``has_gaps``: some marks were not listed.

    >>> _queue_sentences([{"kind": "lock", "owner": "worker1", "ctime": 1795237669000}], has_gaps=False)
    ('not marked for replication', 'locked by worker1 since 2026-11-21 05:07:49 UTC')
    """
    marks, locks = [], []
    for row in rows:
        if row["kind"] == "lock":
            locks.append(f"locked by {row['owner'] or 'a worker'} since {_opening_sentence(row)}")
        else:
            names = ", ".join(row["replicas"] or ())
            purpose = f"missing copies on {names}" if names else "a better placement"
            marks.append(f"marked for replication since {_opening_sentence(row)}, for {purpose}")
    if not marks:
        marks = ["unknown: not all marks could be listed" if has_gaps else "not marked for replication"]
        return (*marks, *locks)
    return (*marks, *(locks or ["no worker has locked the ledger"]))


def _opening_sentence(row: dict[str, Any]) -> str:
    time_ms = row.get("ctime") or row.get("mtime")
    return format_time(time_ms) if time_ms else "an unknown time"


_UNKNOWN_REASONS: dict[str, str] = {
    UnknownCopy.INDEX_INCOMPLETE: (
        "the bookie serves entries that its index lacks; entries that the audit did not ask for are unknown"
    ),
    UnknownCopy.NOT_ASKED: "the bookie's index is too old, and it was not asked for all entries",
    UnknownCopy.ENTRY_LOG: "the bookie's index has entries in an entry log that was not found",
}


def group_answers(rows: Iterable[Mapping[str, Any]]) -> tuple[AnswerView, ...]:
    """Return a view for each combination of bookie, answer and reason, sorted by these three.

    >>> group_answers([{"bookie_id": "b1", "answer": "served", "reason": None, "entry_id": 3}])[0].count
    1
    """
    id_map: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        id_map.setdefault((row["bookie_id"], row["answer"], row["reason"] or ""), []).append(row["entry_id"])
    return tuple(
        AnswerView(bookie_id, WitnessAnswer(answer), _entry_groups(entries), len(entries), reason or None)
        for (bookie_id, answer, reason), entries in sorted(id_map.items())
    )


def with_served_entries(
    replica: ReplicaView, answers: Iterable[AnswerView], reasons: Mapping[str, str]
) -> ReplicaView:
    """Return ``replica`` with entries its bookie served. ``reasons`` (by bookie): why copies are unknown."""
    held_groups = replica.held_entries
    served = [
        groups_of(answer.entries)
        for answer in answers
        if answer.bookie_id == replica.bookie_id and answer.answer is WitnessAnswer.SERVED
    ]
    held_groups = coverage.union([groups_of(held_groups), *served]).tobytes() if served else held_groups
    unknown_reason = _UNKNOWN_REASONS.get(reasons.get(replica.bookie_id, ""))
    is_known, reason = replica.known and unknown_reason is None, unknown_reason or replica.reason
    return replace(replica, held_entries=held_groups, known=is_known, reason=reason)


def _entry_groups(entries: Iterable[int]) -> bytes:
    sorted_ids = np.array(sorted(set(entries)), np.int64)
    return fold_entries(sorted_ids, np.array([0, len(sorted_ids)], np.int64)).tobytes()


def ledger_view(run: RunReader, ledger_id: int | LedgerId, scope_id: int = 0) -> LedgerView:
    """Return one ledger of a run. A `LedgerId` includes the scope (the upper half of a 128-bit id).

    Raises:
        UsageError: the id or the scope is not a 64-bit integer, or two different scopes are given.
        RunError: neither the metadata nor any bookie of this run has the ledger.
    """
    ledger_id, scope_id = _ledger_key(ledger_id, scope_id)
    [view] = ledger_views(run, [(ledger_id, scope_id)])
    if view is None:
        name = LedgerId(ledger_id, scope_id).display_name
        raise RunUsageError(f"{run.path}: neither the metadata nor a bookie of this run has {name}")
    return view


def ledger_views(run: RunReader, ledgers: Sequence[tuple[int, int]]) -> list[LedgerView | None]:
    """Return the view of each (id, scope), or None for a ledger not in the run. Read each table only once."""
    rows = _LedgerRows(run, ledgers)
    return [_ledger_view(rows, *ledger) for ledger in ledgers]


_RowsByLedger = dict[tuple[int | None, int], list[dict[str, Any]]]


class _LedgerRows:
    """Rows of some ledgers in each table. A table that only some runs have may be missing."""

    def __init__(self, run: RunReader, ledgers: Sequence[tuple[int, int]]) -> None:
        self.run = run
        self._ledger_ids = sorted({ledger_id for ledger_id, _ in ledgers})
        self._names = run.table_names()
        self._tables: dict[str, _RowsByLedger] = {}

    def rows_about(self, table: str, ledger_id: int | None, scope_id: int = 0) -> list[dict[str, Any]]:
        """Return the rows of a table about one ledger. An id of None selects the rows about no ledger."""
        if table not in self._tables:
            self._tables[table] = self._read_rows(table)
        return self._tables[table].get((ledger_id, scope_id), [])

    def queue_sentences(self, ledger_id: int, scope_id: int) -> tuple[str, ...]:
        """Return sentences on a ledger's replication marks and locks. Empty if the run did not read any."""
        keeps_marks = self.run.report.run.keeps_marks
        if "marks" not in self._names:
            return ()
        if keeps_marks is False:
            return (NO_QUEUE_TEXT,)
        mark_rows = self.rows_about("marks", ledger_id, scope_id)
        if keeps_marks is None and not mark_rows:
            return (NO_ANSWER_TEXT,)
        return _queue_sentences(mark_rows, has_gaps=scope_id == 0 and bool(self.rows_about("marks", None)))

    @cached_property
    def bookies(self) -> dict[str, dict[str, Any]]:
        """Return the rows of all bookies, by id."""
        return {row["bookie_id"]: row for row in self.run.table("bookies").to_pylist()}

    @property
    def is_registry_unknown(self) -> bool:
        """Return whether the run could not tell which bookies were down. False for an older version's run."""
        repair_settings = self.run.report.run.repair
        return repair_settings is not None and not repair_settings["knows_registrations"]

    def down_members(self, ledger: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the sorted bookies that a ledger depends on and that are certainly not registered."""
        listing_facts = self.run.report.run.bookies_listed
        if listing_facts is None or listing_facts["hidden"] is not None or self.is_registry_unknown:
            return ()
        needed_ids = {replica["bookie_id"] for replica in ledger.get("replicas") or () if replica["depends"]}
        listed_members = needed_ids.intersection(self.bookies).difference(listing_facts["unclear"])
        return tuple(sorted(name for name in listed_members if self.bookies[name]["registered"] is None))

    def _read_rows(self, table: str) -> _RowsByLedger:
        if table in _OPTIONAL_TABLES and table not in self._names:
            return {}
        is_listed_ledger = ds.field("ledger_id").isin(pa.array(self._ledger_ids, pa.int64()))
        if table == "marks":
            is_listed_ledger |= ds.field("kind") == MarkRowKind.GAP
        rows_by_ledger: _RowsByLedger = {}
        for row in self.run.table(table, filter=is_listed_ledger).to_pylist():
            # The replication queue knows no scopes: it has ledgers of scope 0.
            rows_by_ledger.setdefault((row["ledger_id"], row.get("scope_id", 0)), []).append(row)
        return rows_by_ledger


_OPTIONAL_TABLES = (
    "journal_tails", "answers", "witness", "marks", "reachability", "log_entries", "gone_entries",
)  # fmt: skip


def _ledger_view(rows: _LedgerRows, ledger_id: int, scope_id: int) -> LedgerView | None:
    def rows_of(table: str) -> list[dict[str, Any]]:
        return rows.rows_about(table, ledger_id, scope_id)

    row = _first_row(rows_of("ledgers"))
    indexes = _index_rows(row, rows_of)
    if not row and not indexes and not rows_of("marks"):
        return None
    verdict_row, judgement, reachability_row = (
        _first_row(rows_of(name)) for name in ("verdicts", "judged", "reachability")
    )
    unequal_copies = {copy_row["bookie_id"]: copy_row for copy_row in rows_of("unequal")}
    answers = group_answers(rows_of("witness"))
    reasons = {copy["bookie_id"]: copy["why"] for copy in judgement.get("unknown") or ()}
    return LedgerView(
        ledger_id=ledger_id,
        scope_id=scope_id,
        status=row.get("status", "gone"),
        segments=tuple(
            Segment(segment["first_entry_id"], tuple(segment["ensemble"]))
            for segment in row.get("segments") or ()
        ),
        rules=tuple(f"{rule['rule']}: {rule['reason']}" for rule in row.get("rules") or ()),
        judged_class=verdict_row.get("class"),
        potential_class=verdict_row.get("potential_class"),
        doubts=tuple(judgement.get("doubts") or ()),
        custom_metadata=tuple((key, _decoded_text(value)) for key, value in row.get("custom_metadata") or ()),
        replicas=tuple(
            with_served_entries(replica, answers, reasons)
            for replica in _replicas(row, indexes, unequal_copies, rows.bookies)
        ),
        answers=answers,
        mark_texts=rows.queue_sentences(ledger_id, scope_id),
        down_members=rows.down_members(row),
        reachability=reachability_row.get("reach"),
        unreached=reachability_row.get("entries", 0),
        availability_unknown=rows.is_registry_unknown,
        log_entries=_log_entries_views(rows_of("log_entries")),
        **{name: row.get(name) for name in _COPIED_COLUMNS},
    )


def _log_entries_views(rows: Iterable[Mapping[str, Any]]) -> tuple[LogEntriesView, ...]:
    """Return a view of the ledger's entries in each entry log, the log with most lost entries first."""
    views = (
        LogEntriesView(
            row["bookie_id"],
            row["log_id"],
            row["path"],
            row["bytes"] if row["needed_bytes"] is None else row["needed_bytes"],
            row["groups"],
            row["entries"],
            row["lost_entries"],
            row["reason"],
        )
        for row in rows
    )
    return tuple(sorted(views, key=lambda view: (-(view.lost_count or 0), view.bookie_id, view.log_id)))


def _index_rows(
    ledger: Mapping[str, Any], rows_of: Callable[[str], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return a row for each bookie: entries in its index and journal, or else entries in its answers."""
    # What is in an entry log that is not there is not held, whatever the index shows.
    lost_groups = {row["bookie_id"]: row["groups"] for row in rows_of("gone_entries")}
    indexes = rows_of("availability")
    for row in (row for row in indexes if row["bookie_id"] in lost_groups):
        groups = coverage.difference(groups_of(row["groups"]), groups_of(lost_groups[row["bookie_id"]]))
        row["groups"] = groups.tobytes()
    if ledger:
        indexes = _rows_with_tails(ledger, indexes, rows_of("journal_tails"))
    # What locations show of a ledger that its bookie does not serve is not held.
    indexes = [row | ({"groups": b""} if row["state"] == IndexState.NOT_INDEXED else {}) for row in indexes]
    indexed_bookies = {index["bookie_id"] for index in indexes}
    return indexes + [answer for answer in rows_of("answers") if answer["bookie_id"] not in indexed_bookies]


_COPIED_COLUMNS = (
    "path", "version", "state", "ensemble_size", "write_quorum", "ack_quorum", "last_entry_id", "length",
    "digest_type", "ctime", "mtime", "damage",
)  # fmt: skip


def _decoded_text(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return (value or b"").hex()


def _ledger_key(ledger_id: int | LedgerId, scope_id: int) -> tuple[int, int]:
    """Return the ledger's id and scope. Raise UsageError unless both are 64-bit integers.

    >>> _ledger_key(LedgerId(2, scope=1), 0)
    (2, 1)
    """
    if isinstance(ledger_id, LedgerId):
        if scope_id not in (0, ledger_id.scope):
            raise UsageError(f"scope_id={scope_id}: {ledger_id} has a different scope")
        scope_id, ledger_id = ledger_id.scope, ledger_id.id
    for number in (ledger_id, scope_id):
        if not isinstance(number, int) or not -(2**63) <= number < 2**63:
            raise UsageError(
                f"{number!r} must be the id of a ledger or a scope: a 64-bit integer, or a LedgerId"
            )
    return ledger_id, scope_id


def _first_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0] if rows else {}


def _rows_with_tails(
    ledger: Mapping[str, Any], indexes: list[dict[str, Any]], tail_rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of ``indexes``. Add the journal entries (``tail_rows``) of ensemble members to them."""
    from auditor.tables.accounts import HeldEntries, merge_journal_tail

    members = {name for segment in ledger["segments"] or () for name in segment["ensemble"]}
    tail_groups = {tail["bookie_id"]: tail["groups"] for tail in tail_rows if tail["bookie_id"] in members}
    rows = []
    for row in indexes:
        if row["bookie_id"] in tail_groups and row["state"] not in NOT_REPLICAS:
            held_entries = merge_journal_tail(
                HeldEntries(row["groups"], row["state"]), tail_groups[row["bookie_id"]]
            )
            row |= {"groups": held_entries.held, "state": held_entries.index_state}
        rows.append(row)
    indexed_bookies = {row["bookie_id"] for row in indexes if row["state"] not in NOT_REPLICAS}
    return rows + [
        {"bookie_id": name, "groups": tail_entries, "state": IndexState.OK, "reason": None}
        for name, tail_entries in tail_groups.items()
        if name not in indexed_bookies
    ]


def _expected_groups(row: Mapping[str, Any], indexes: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return ensemble members' expected entries. Open ledgers end at the newest entry in a member's index."""
    member_groups = {replica["bookie_id"]: replica["groups"] or b"" for replica in row.get("replicas") or ()}
    if row.get("undecidable", True) or row["state"] == LedgerState.CLOSED:
        return member_groups
    segments = [(segment["first_entry_id"], segment["ensemble"]) for segment in row["segments"]]
    names = ("ensemble_size", "write_quorum", "ack_quorum", "last_entry_id", "mtime")
    ledger_facts = {name: row[name] for name in names}
    ledger = LedgerFacts(row["ledger_id"], is_closed=False, segments=segments, **ledger_facts)
    index_groups = [groups_of(index["groups"]) for index in indexes if index["bookie_id"] in member_groups]
    highest_entry = max((last_entry(groups) for groups in index_groups), default=-1)
    return {member: entries_striped_to(ledger, member, highest_entry).tobytes() for member in member_groups}


def _replicas(
    row: Mapping[str, Any],
    indexes: list[dict[str, Any]],
    unequal_copies: Mapping[str, Mapping[str, Any]],
    bookies: Mapping[str, Mapping[str, Any]],
) -> tuple[ReplicaView, ...]:
    """Return views of all ensemble members and of other bookies that have entries, sorted by bookie id."""
    expected_groups = _expected_groups(row, indexes)
    members = {name for segment in row.get("segments") or () for name in segment["ensemble"]}
    index_by_bookie = {index["bookie_id"]: index for index in indexes if index["state"] not in NOT_REPLICAS}
    replica_views = []
    for name in sorted({*members, *expected_groups, *index_by_bookie}):
        bookie_index, unequal_row = index_by_bookie.get(name, {}), unequal_copies.get(name, {})
        # An index cut inside a page is recognised after the scan; the pair that differs knows of it.
        state = unequal_row.get("index_state") or bookie_index.get("state") or IndexState.ABSENT
        bookie = bookies.get(name, {})
        read = bookie.get("read", BookieRead.UNREAD)
        is_foreign = bool(bookie.get("foreign_instance"))
        reason = bookie_index.get("reason")
        is_answered = unequal_row.get("answered") is not None and state == IndexState.OK
        if read != BookieRead.READ and not is_answered:
            reason = bookie.get("reason") or "no source covers this bookie"
            state = UnknownCopy.UNREAD if state == IndexState.ABSENT else state
        if is_foreign:
            reason = "the bookie's directories belong to another cluster"
        replica_views.append(
            ReplicaView(
                name,
                name in members,
                expected_groups.get(name, b""),
                (unequal_row["held"] if is_answered else bookie_index.get("groups")) or b"",
                (read == BookieRead.READ or is_answered) and not is_foreign and state not in PARTIAL_INDEX,
                state,
                reason,
            )
        )
    return tuple(replica_views)


MAX_FINDINGS = 50
"""Largest number of findings shown for one ledger. A ledger has at most one per check and bookie."""


def findings_for_ledger(run: RunReader, ledger_id: int, scope_id: int = 0) -> tuple[FindingWithHistory, ...]:
    """Return up to `MAX_FINDINGS` findings about a ledger, the worst first."""
    is_of_ledger = (ds.field("ledger_id") == ledger_id) & (ds.field("scope_id") == scope_id)
    batches = run.batches("findings", filter=is_of_ledger)
    rows = (row for batch in batches for row in batch.to_pylist())
    findings = [finding_of(row) for row in islice(rows, MAX_FINDINGS)]
    statuses = statuses_of(run.directory, run.report, [finding.fingerprint for finding in findings])
    return tuple(FindingWithHistory(finding, statuses.get(finding.fingerprint)) for finding in findings)
