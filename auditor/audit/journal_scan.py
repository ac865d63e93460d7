"""Reader of the bookies' journals after their last marks (lastMark). It also reports incomplete journals.

The audit reads the marks first, then the indexes, then the journals. Meanwhile, a bookie may flush entries
into an index that was already read, and move its mark. The journal still has these entries after the mark
that the audit read.

The entries after a bookie's mark are called the tail of its journal.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.codecs.bookie.last_mark import LastMark
from auditor.model.amounts import and_more, plural
from auditor.model.columns import REPLICA
from auditor.model.replay_refusal import FailedReplay, failed_replay_refusal, missing_journals_refusal
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.model.start_refusal import Refusal
from auditor.model.states import IndexState, ReplayError, TailRead, TailState, TimeBasis
from auditor.sources.bookies.collections.places import CollectedPlaces, PieceOwnership
from auditor.sources.bookies.collections.tables import read_collected_tails
from auditor.sources.bookies.journal.tails import SCHEMA, JournalTailPart, from_json, read_tail, to_json
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie
from auditor.spark import functions as F
from auditor.spark.batches import Rows
from auditor.spark.part_tables import PartTable, ReadCost
from auditor.spark.types import DataFrame

TAILS_TABLE = "journal_tails"

_MAX_BOOKIES_NAMED = 3  # by a remark

SEVERAL_SOURCES_REASON = "the bookie's directories come from more than one source"
NOT_COLLECTED_REASON = "the bookie's collection has no journals: an older version of this program made it"
DIFFERENT_MARK_REASON = (
    "the journals in the bookie's collection do not start at the newest lastMark of its directories"
)
MAX_BROADCAST_BYTES = 32 << 20
"""Largest size on disk at which ``journal_tails`` is broadcast to every task of a join, in bytes."""


class LostJournal(NamedTuple):
    """A journal directory without the file to which its last mark (lastMark, the checkpoint) points.

    ``file_id`` is the id of this file. ``older_files`` and ``newer_files`` are the numbers of older and newer
    files in the directory.
    """

    path: str
    file_id: int
    older_files: int
    newer_files: int


class JournalTail(NamedTuple):
    """Facts about one bookie's journal after its lastMark (checkpoint). Times are in ms.

    ``reason`` says why the journal was not read completely, or is None. ``last_write`` is the time of the
    last write to the journal. ``files`` is the number of journal files. ``lost_journals`` are the directories
    without the file to which their lastMark points. ``failed_replays`` are the records or files at which the
    bookie's own replay would fail.
    """

    reason: str | None
    read_time: int
    last_write: int | None
    files: int = 0
    lost_journals: tuple[LostJournal, ...] = ()
    failed_replays: tuple[FailedReplay, ...] = ()


@dataclass(frozen=True)
class JournalTails:
    """The entries that journals contain after their last marks, and facts about each bookie's journal.

    ``rows`` has the columns scope_id, ledger_id, bookie_id and groups (the entry ids as BP-34 groups), and
    one row per pair of ledger and bookie. It is None if there are no entries. ``tail_by_bookie`` has the
    facts about journals. ``mismatched_bookies`` were read from collections in which the journal starts at a
    different mark from the index. They have no rows in ``rows``.
    """

    rows: DataFrame | None
    tail_by_bookie: Mapping[str, JournalTail]
    mismatched_bookies: frozenset[str] = frozenset()


def plan_tail_parts(
    run_store: RunStore, bookies: Mapping[str, AttributedBookie], directory_owners: PieceOwnership
) -> list[JournalTailPart]:
    """Return the parts of journals on disk to read. Each part starts at the lastMark of its journal.

    A resumed run keeps the positions of its first attempt, because its index may be as old as that attempt.
    """
    collected_bookies = {owner.bookie_id for owner in directory_owners.owner_by_piece_id.values()}
    tail_parts = [
        JournalTailPart(name, bookie.journals.directories, bookie.journals.gap_reason)
        for name, bookie in bookies.items()
        if bookie.index_directories and name not in collected_bookies
    ]
    return from_json(run_store.pin_fact("journals", to_json(tail_parts)))


def journal_cost(parts: Iterable[JournalTailPart]) -> ReadCost:
    """Return the estimated time in which one process reads the whole journals, whatever their lastMark is."""
    directories = (directory.path for part in parts for directory in part.directories)
    return ReadCost(directories=tuple(str(Path(path, "current")) for path in directories))


def write_tails(
    cache: TableCache,
    tail_parts: Sequence[JournalTailPart],
    bookies: Mapping[str, AttributedBookie],
    collected_places: CollectedPlaces,
    directory_owners: PieceOwnership,
) -> JournalTails:
    """Read the journal after its lastMark for each bookie whose index was read. Indexes are read first."""
    spark = cache.spark

    def make_table() -> Rows:
        table = PartTable.from_parts(spark, SCHEMA, read_tail, tail_parts, journal_cost(tail_parts))
        collections_with_tails = [
            collection
            for collection in collected_places.readable_collections
            if TAILS_TABLE in collection[1].tables
        ]
        if not collections_with_tails:
            return table
        return cache.execution.frame(table).unionByName(
            read_collected_tails(spark, collections_with_tails, single_piece_owners)
        )

    piece_count_by_bookie = Counter(owner.bookie_id for owner in directory_owners.owner_by_piece_id.values())
    single_piece_owners = {
        piece_id: owner
        for piece_id, owner in directory_owners.owner_by_piece_id.items()
        if piece_count_by_bookie[owner.bookie_id] == 1 and not bookies[owner.bookie_id].index_directories
    }
    table = cache.write_table(TAILS_TABLE, make_table)
    rows_by_bookie: dict[str, list[dict[str, Any]]] = {}
    for row in table.where("ledger_id is null").drop("groups").collect():
        rows_by_bookie.setdefault(row["bookie_id"], []).append(row.asDict())
    disk_tails = {
        name: _merge_tail_rows(tail_rows)
        for name, tail_rows in rows_by_bookie.items()
        if name in bookies and name not in piece_count_by_bookie
    }
    collected_tails = {
        name: _find_collected_tail(bookies[name], rows_by_bookie.get(name, []))
        for name in piece_count_by_bookie
    }
    for name in piece_count_by_bookie.keys() - {owner.bookie_id for owner in single_piece_owners.values()}:
        collected_tails[name] = JournalTail(SEVERAL_SOURCES_REASON, 0, None)
    mismatched_bookies = [
        name for name, tail in collected_tails.items() if tail.reason == DIFFERENT_MARK_REASON
    ]
    return JournalTails(
        _tail_replicas(cache, table, mismatched_bookies),
        {**disk_tails, **collected_tails},
        frozenset(mismatched_bookies),
    )


def _tail_replicas(
    cache: TableCache, table: DataFrame, mismatched_bookies: Sequence[str]
) -> DataFrame | None:
    ledger_rows = table.where("ledger_id is not null").where(
        ~F.col("bookie_id").isin(list(mismatched_bookies))
    )
    tail_replicas = ledger_rows.select(*REPLICA, "groups")
    if tail_replicas.isEmpty():
        return None
    return cache.execution.broadcast(tail_replicas, cache.files(TAILS_TABLE), MAX_BROADCAST_BYTES)


def _merge_tail_rows(rows: Sequence[dict[str, Any]]) -> JournalTail:
    """Return facts about a bookie's journal after its lastMark, from one row per journal directory."""
    reasons = [_gap_reason(row) for row in rows if row["state"] != TailState.OK]
    last_writes = [row["modified"] for row in rows if row["modified"] is not None]
    return JournalTail(
        "; ".join(dict.fromkeys(reasons)) or None,
        min(row["read_at"] for row in rows),
        max(last_writes, default=None),
        sum((row["files"] or 0) + (row["files_below"] or 0) for row in rows),
        tuple(
            LostJournal(row["path"], row["mark_file_id"], row["files_below"], row["files"])
            for row in rows
            if row["state"] == TailState.NO_FILE
        ),
        tuple(
            FailedReplay(row["path"], row["offset"], row["reason"], ReplayError(row["replay_error"]))
            for row in rows
            if row["replay_error"] is not None
        ),
    )


def _find_collected_tail(bookie: AttributedBookie, rows: Sequence[dict[str, Any]]) -> JournalTail:
    if not rows:
        return JournalTail(NOT_COLLECTED_REASON, 0, None)
    tail = _merge_tail_rows(rows)
    if bookie.journals.gap_reason is not None:
        return tail._replace(reason=bookie.journals.gap_reason, lost_journals=(), failed_replays=())
    current_marks = {
        (directory.mark_file_id, directory.mark_offset) for directory in bookie.journals.directories
    }
    has_same_mark = {(row["mark_file_id"], row["mark_offset"]) for row in rows} == current_marks
    if not has_same_mark:
        return tail._replace(reason=tail.reason or DIFFERENT_MARK_REASON, lost_journals=(), failed_replays=())
    return tail


def _gap_reason(row: Mapping[str, Any]) -> str:
    byte_position_text = "" if row["offset"] is None else f" (at byte {row['offset']})"
    return (
        f"{row['reason']}{byte_position_text}"
        if row["path"] is None
        else f"{row['path']}: {row['reason']}{byte_position_text}"
    )


def tail_read_state(
    bookie: AttributedBookie, tail: JournalTail | None, is_running: bool
) -> tuple[str | None, str | None]:
    """Return how much of a bookie's journal after its lastMark was read, and why the rest was not read.

    Both values are None if the journal has no part after lastMark (``tail`` is None). The reason is None if
    the whole part was read. ``is_running`` is whether the bookie is registered now.
    """
    if tail is None:
        return None, None
    if tail.reason is None:
        return TailRead.READ, None
    # A running bookie has a file DIRTY, but only from 4.15 on. So a registered bookie never counts as
    # stopped.
    is_stopped = bookie.journals.clean_stop_ms is not None and not is_running
    return (TailRead.STOPPED if is_stopped else TailRead.UNREAD), tail.reason


def find_dated_index(
    bookie: AttributedBookie, tail: JournalTail | None, is_running: bool, latest_time: int
) -> DatedIndex | None:
    """Return the time up to which a bookie's data is certainly complete, and the basis of that time.

    The data contains all changes of the bookie up to that time. Returns None if the time is unknown.

    If the journal of a running bookie was read, the result is the time of that read. If the journal of a
    stopped bookie or of a saved copy was read, the later of two times is the result. These are the last write
    to the journal, and the write of its lastMark. A bookie that stopped cleanly had all entries in its index
    when it wrote lastMark. For such a bookie, the time of that write is used.

    Otherwise the journal position in lastMark gives the time (`auditor.sources.bookies.mark_times`). The time
    at which lastMark was written would be too late. A flush may take minutes, and the index may lack entries
    that arrive meanwhile. Index files that are older than lastMark make the time earlier. A time after
    ``latest_time`` (the end of reading) is not used, because it shows that a clock was ahead.
    """
    read_state, _ = tail_read_state(bookie, tail, is_running)
    if read_state == TailRead.READ and tail is not None and is_running:
        return bookie.journals.limit_by_index(
            DatedIndex(min(tail.read_time, latest_time), TimeBasis.JOURNAL_READ)
        )
    if read_state == TailRead.READ and tail is not None:
        write_times = [
            write_time
            for write_time in (bookie.journals.newest_mark_ms, tail.last_write)
            if write_time is not None
        ]
        dated_index = DatedIndex(max(write_times), TimeBasis.LAST_WRITE) if write_times else None
    elif read_state == TailRead.STOPPED and bookie.journals.clean_stop_ms is not None:
        dated_index = DatedIndex(bookie.journals.clean_stop_ms, TimeBasis.CLEAN_STOP)
    else:
        dated_index = bookie.journals.index_date
    dated_index = bookie.journals.limit_by_index(dated_index)
    return None if dated_index is None or dated_index.time_ms > latest_time else dated_index


def find_replay_refusals(
    tails: Mapping[str, JournalTail], running_bookies: Collection[str]
) -> dict[str, Refusal]:
    """Return the refusals of bookies that would not start because they cannot replay their journals.

    Either the file to which lastMark points is missing, or the replay fails at a record or a file. Copies of
    disks often lack journals, even if the cluster is running. The result is therefore empty if no bookie has
    a journal file. A refusal is uncertain in three cases:

        - The bookie has no journal file at all: the files may be missing only in the copy of its disks.
        - The bookie is running and has newer journal files: lastMark may point to one of them by now.
        - The bookie is running and has a bad record: if it stops cleanly, lastMark moves past the record.
    """
    refusals: dict[str, Refusal] = {}
    if not any(tail.files for tail in tails.values()):
        return refusals
    for name, tail in tails.items():
        if tail.lost_journals:
            may_have_moved_mark = name in running_bookies and any(
                journal.newer_files for journal in tail.lost_journals
            )
            missing_files = [
                (journal.path, LastMark(journal.file_id, 0).file_name) for journal in tail.lost_journals
            ]
            refusals[name] = missing_journals_refusal(
                missing_files, tail.files > 0 and not may_have_moved_mark
            )
        elif tail.failed_replays:
            refusals[name] = failed_replay_refusal(tail.failed_replays, name not in running_bookies)
    return refusals


def remark_on_unread_tails(reason_pairs: Sequence[tuple[str, str | None]]) -> list[Remark]:
    """Return one remark about bookies whose journals were not read completely, or an empty list.

    ``reason_pairs`` has pairs of bookie id and reason.
    """
    if not reason_pairs:
        return []
    journals_text = plural(len(reason_pairs), "journal")
    text = f"{journals_text} incomplete: data losses after the last mark are suspected, not confirmed"
    return [
        remark(
            RemarkKind.JOURNAL_INCOMPLETE,
            text,
            *_limit_names([f"{name} ({reason})" for name, reason in reason_pairs]),
        )
    ]


def remark_on_unread_marks(directory_texts: Sequence[str]) -> list[Remark]:
    """Return one remark about ledger directories whose lastMark cannot be read, or an empty list.

    >>> remark_on_unread_marks(["bk1 (/l1)"])[0]["text"]
    '1 lastMark cannot be read: journals are read from another lastMark, or in full'
    """
    if not directory_texts:
        return []
    unread_marks_text = plural(len(directory_texts), "lastMark")
    text = f"{unread_marks_text} cannot be read: journals are read from another lastMark, or in full"
    return [remark(RemarkKind.MARK_UNREADABLE, text, *_limit_names(directory_texts))]


def _limit_names(names: Sequence[str]) -> list[str]:
    return [*names[:_MAX_BOOKIES_NAMED], *and_more(len(names) - _MAX_BOOKIES_NAMED)]


def without_journal_ledgers(indexes: DataFrame, tails: JournalTails) -> DataFrame:
    """Return the index rows, except ``not-indexed`` rows of ledgers with journal entries after lastMark.

    A bookie adds a ledger to its list of ledgers with the ledger's first entry. If that entry is still in
    the journal, the list lacks the ledger until the bookie replays the journal. That is not a fault.
    """
    if tails.rows is None:
        return indexes
    unlisted_rows = indexes.where(f"state = '{IndexState.NOT_INDEXED}'").join(
        tails.rows, [*REPLICA], "left_anti"
    )
    return indexes.where(f"state <> '{IndexState.NOT_INDEXED}'").unionByName(unlisted_rows)
