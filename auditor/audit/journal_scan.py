"""Reader of the bookies' journals from the last marks (lastMark) on, which reports incomplete journals.

The marks are read before the indexes. A flush in between may move entries from the journal into an index that
was already read. The journal still has these entries after the earlier mark.

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
from auditor.model.replay_refusal import FailedReplay, failed_replay, missing_journals
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.model.start_refusal import Refusal
from auditor.model.states import IndexState, ReplayError, TailRead, TailState, TimeBasis
from auditor.sources.bookies.collections.places import CollectedPlaces, PieceOwnership
from auditor.sources.bookies.collections.tables import collected_tails
from auditor.sources.bookies.journal.tails import SCHEMA, TailPart, from_json, read_tail, to_json
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie
from auditor.spark import functions as F
from auditor.spark.batches import Rows
from auditor.spark.part_tables import PartTable, ReadCost
from auditor.spark.types import DataFrame

TAILS_TABLE = "journal_tails"

_BOOKIES_NAMED = 3  # bookies that a note names

SEVERAL_SOURCES_REASON = "its directories come from more than one source"
NOT_COLLECTED_REASON = "its collection has no journals: an older version of this program made it"
OTHER_MARK_REASON = (
    "the journals in its collection start at another mark than the newest lastMark of its directories"
)
BROADCAST_BYTES = 32 << 20
"""Largest size on disk at which ``journal_tails`` is broadcast to every task of a join, in bytes."""


class LostJournal(NamedTuple):
    """A journal directory that lacks the file of its mark, with the numbers of older and newer files."""

    path: str
    file_id: int
    older: int
    newer: int


class Tail(NamedTuple):
    """Facts about one bookie's journal after its last mark. Times are in ms.

    ``reason`` is why the journal was not read completely, or None. ``modified`` is the time of the
    last write to the journal. ``files`` is the number of journal files. ``lost`` are the directories without
    the file of their mark. ``failed`` are the places at which the bookie's own replay would fail.
    """

    reason: str | None
    read_at: int
    modified: int | None
    files: int = 0
    lost: tuple[LostJournal, ...] = ()
    failed: tuple[FailedReplay, ...] = ()


@dataclass(frozen=True)
class Tails:
    """The entries that journals have after the marks, and facts about each bookie's tail by bookie id.

    ``rows`` has scope_id, ledger_id, bookie_id and groups, one row per pair of ledger and bookie. It is None
    if there are no entries. It leaves out the bookies ``elsewhere``, whose journals were collected from
    another mark.
    """

    rows: DataFrame | None
    by_bookie: Mapping[str, Tail]
    elsewhere: frozenset[str] = frozenset()


def plan_tails(
    run_store: RunStore, bookies: Mapping[str, AttributedBookie], settled_places: PieceOwnership
) -> list[TailPart]:
    """Return the parts of journals on disk to read, from their current marks.

    A resumed run keeps the marks of its first attempt, because its index may be as old as that attempt.
    """
    pieces = {owner.bookie_id for owner in settled_places.owner_of_piece.values()}
    parts = [
        TailPart(name, bookie.journals.directories, bookie.journals.trouble)
        for name, bookie in bookies.items()
        if bookie.index_directories and name not in pieces
    ]
    return from_json(run_store.pin_fact("journals", to_json(parts)))


def journal_cost(parts: Iterable[TailPart]) -> ReadCost:
    """Return the estimated time in which one process reads whole journals, without regard to marks."""
    directories = (directory.path for part in parts for directory in part.directories)
    return ReadCost(directories=tuple(str(Path(path, "current")) for path in directories))


def write_tails(
    cache: TableCache,
    parts: Sequence[TailPart],
    bookies: Mapping[str, AttributedBookie],
    collected: CollectedPlaces,
    settled_places: PieceOwnership,
) -> Tails:
    """Read the journals after the indexes. The result covers every bookie whose index was read."""
    spark = cache.spark

    def read() -> Rows:
        table = PartTable.of(spark, SCHEMA, read_tail, parts, journal_cost(parts))
        whole_collections = [
            collection for collection in collected.readable_collections if TAILS_TABLE in collection[1].tables
        ]
        if not whole_collections:
            return table
        return cache.execution.frame(table).unionByName(
            collected_tails(spark, whole_collections, single_pieces)
        )

    pieces = Counter(owner.bookie_id for owner in settled_places.owner_of_piece.values())
    single_pieces = {
        piece: owner
        for piece, owner in settled_places.owner_of_piece.items()
        if pieces[owner.bookie_id] == 1 and not bookies[owner.bookie_id].index_directories
    }
    table = cache.write_table(TAILS_TABLE, read)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.where("ledger_id is null").drop("groups").collect():
        rows.setdefault(row["bookie_id"], []).append(row.asDict())
    on_disk = {
        name: _tail(tail_rows) for name, tail_rows in rows.items() if name in bookies and name not in pieces
    }
    from_pieces = {name: _collected_tail(bookies[name], rows.get(name, [])) for name in pieces}
    for name in pieces.keys() - {owner.bookie_id for owner in single_pieces.values()}:
        from_pieces[name] = Tail(SEVERAL_SOURCES_REASON, 0, None)
    mismatched_bookies = [name for name, tail in from_pieces.items() if tail.reason == OTHER_MARK_REASON]
    return Tails(
        _beside(cache, table, mismatched_bookies), {**on_disk, **from_pieces}, frozenset(mismatched_bookies)
    )


def _beside(cache: TableCache, table: DataFrame, mismatched_bookies: Sequence[str]) -> DataFrame | None:
    of_ledgers = table.where("ledger_id is not null").where(
        ~F.col("bookie_id").isin(list(mismatched_bookies))
    )
    pairs = of_ledgers.select(*REPLICA, "groups")
    if pairs.isEmpty():
        return None
    return cache.execution.broadcast(pairs, cache.files(TAILS_TABLE), BROADCAST_BYTES)


def _tail(rows: Sequence[dict[str, Any]]) -> Tail:
    """Return the tail of a bookie. ``rows`` has one row for each of its journal directories."""
    reasons = [_gap_reason(row) for row in rows if row["state"] != TailState.OK]
    modified = [row["modified"] for row in rows if row["modified"] is not None]
    return Tail(
        "; ".join(dict.fromkeys(reasons)) or None,
        min(row["read_at"] for row in rows),
        max(modified, default=None),
        sum((row["files"] or 0) + (row["files_below"] or 0) for row in rows),
        tuple(
            LostJournal(row["path"], row["mark_file_id"], row["files_below"], row["files"])
            for row in rows
            if row["state"] == TailState.GONE
        ),
        tuple(
            FailedReplay(row["path"], row["offset"], row["reason"], ReplayError(row["replay_error"]))
            for row in rows
            if row["replay_error"] is not None
        ),
    )


def _collected_tail(bookie: AttributedBookie, rows: Sequence[dict[str, Any]]) -> Tail:
    if not rows:
        return Tail(NOT_COLLECTED_REASON, 0, None)
    tail = _tail(rows)
    if bookie.journals.trouble is not None:
        return tail._replace(reason=bookie.journals.trouble, lost=(), failed=())
    marks = {(directory.mark_file_id, directory.mark_offset) for directory in bookie.journals.directories}
    has_same_mark = {(row["mark_file_id"], row["mark_offset"]) for row in rows} == marks
    if not has_same_mark:
        return tail._replace(reason=tail.reason or OTHER_MARK_REASON, lost=(), failed=())
    return tail


def _gap_reason(row: Mapping[str, Any]) -> str:
    position_text = "" if row["offset"] is None else f" (at byte {row['offset']})"
    return (
        f"{row['reason']}{position_text}"
        if row["path"] is None
        else f"{row['path']}: {row['reason']}{position_text}"
    )


def tail_state(bookie: AttributedBookie, tail: Tail | None, running: bool) -> tuple[str | None, str | None]:
    """Return how much of a bookie's tail was read, and why not all of it. Both may be None.

    ``running`` is whether the bookie is registered now.
    """
    if tail is None:
        return None, None
    if tail.reason is None:
        return TailRead.READ, None
    # DIRTY is what a running bookie has, and those before 4.15 do not: who is registered may be running.
    is_stopped = bookie.journals.clean_stop_ms is not None and not running
    return (TailRead.STOPPED if is_stopped else TailRead.UNREAD), tail.reason


def date_bookie(
    bookie: AttributedBookie, tail: Tail | None, running: bool, latest_time: int
) -> DatedIndex | None:
    """Return the time up to which a bookie's data is certainly complete, and the basis of that time.

    None if the time is unknown.

    All changes of the bookie up to that time are in the data. For a running bookie whose journal was read, it
    is the time at which the journal was read. For a stopped bookie or a saved copy, it is the last write to
    the journal or its mark. A bookie that stopped cleanly had all entries in its index when it wrote its last
    mark.

    If the journal was not read, the mark gives the bound. The time at which the mark was written is no bound:
    a flush may take minutes, and only entries from before its start are certain to be in the index. Index
    files that are older than the mark lower the bound. A time after ``latest_time`` (the end of reading) is
    not used, because a clock was ahead.
    """
    state, _ = tail_state(bookie, tail, running)
    if state == TailRead.READ and tail is not None and running:
        return bookie.journals.limit_by_index(
            DatedIndex(min(tail.read_at, latest_time), TimeBasis.JOURNAL_READ)
        )
    if state == TailRead.READ and tail is not None:
        times = [moment for moment in (bookie.journals.mark_ms, tail.modified) if moment is not None]
        date = DatedIndex(max(times), TimeBasis.LAST_WRITE) if times else None
    elif state == TailRead.STOPPED and bookie.journals.clean_stop_ms is not None:
        date = DatedIndex(bookie.journals.clean_stop_ms, TimeBasis.CLEAN_STOP)
    else:
        date = bookie.journals.index_date
    date = bookie.journals.limit_by_index(date)
    return None if date is None or date.time_ms > latest_time else date


def refused_replays(tails: Mapping[str, Tail], running: Collection[str]) -> dict[str, Refusal]:
    """Return the bookies that would not start because they cannot replay their journals from their marks.

    Either the file of a mark is gone, or the replay fails at a record or a file. Copies of disks often lack
    journals, also next to a running cluster. So nothing is reported if no bookie has a journal file. A
    refusal is uncertain in three cases:

        - A bookie has no journal files, but other bookies do: it may not have lost them.
        - A running bookie has newer files: its mark may have moved to one of them since it was read.
        - A running bookie has a bad record: if it stops cleanly, its mark moves past the record.
    """
    refusals: dict[str, Refusal] = {}
    if not any(tail.files for tail in tails.values()):
        return refusals
    for name, tail in tails.items():
        if tail.lost:
            has_moved = name in running and any(journal.newer for journal in tail.lost)
            files = [(journal.path, LastMark(journal.file_id, 0).file_name) for journal in tail.lost]
            refusals[name] = missing_journals(files, tail.files > 0 and not has_moved)
        elif tail.failed:
            refusals[name] = failed_replay(tail.failed, name not in running)
    return refusals


def unread_remark(reasons: Sequence[tuple[str, str | None]]) -> list[Remark]:
    """Return one remark about bookies with incompletely read journals, or none.

    ``reasons`` has pairs of bookie id and reason.
    """
    if not reasons:
        return []
    text = f"{plural(len(reasons), 'journal')} incomplete: losses after the last mark are suspect"
    return [
        remark(
            RemarkKind.JOURNAL_INCOMPLETE, text, *_first_names([f"{name} ({why})" for name, why in reasons])
        )
    ]


def unmarked_remark(directories: Sequence[str]) -> list[Remark]:
    """Return one remark about ledger directories whose lastMark cannot be read, or none.

    >>> unmarked_remark(["bk1 (/l1)"])[0]["text"]
    '1 lastMark cannot be read: journals are read from another mark, or in full'
    """
    if not directories:
        return []
    marks = plural(len(directories), "lastMark")
    text = f"{marks} cannot be read: journals are read from another mark, or in full"
    return [remark(RemarkKind.MARK_UNREADABLE, text, *_first_names(directories))]


def _first_names(names: Sequence[str]) -> list[str]:
    return [*names[:_BOOKIES_NAMED], *and_more(len(names) - _BOOKIES_NAMED)]


def without_served(indexes: DataFrame, tails: Tails) -> DataFrame:
    """Return the index rows, without ledgers that the ledger list lacks only until the journal is replayed.

    A bookie adds a ledger to its list of ledgers with the ledger's first entry. If that entry is still in the
    journal, the list lacks the ledger until the bookie replays the journal.
    """
    if tails.rows is None:
        return indexes
    unserved_rows = indexes.where(f"state = '{IndexState.NOT_INDEXED}'").join(
        tails.rows, [*REPLICA], "left_anti"
    )
    return indexes.where(f"state <> '{IndexState.NOT_INDEXED}'").unionByName(unserved_rows)
