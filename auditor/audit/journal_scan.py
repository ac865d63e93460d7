"""The journals of an audit: what follows each bookie's marks, read after its index, and whether that is all.

Indexes are read from the marks on that were seen before: what a flush in between moved from the journal into
an index that was read already is still in the journal after the earlier mark.

Where it is little, by a look at the files' sizes, one process reads it: tasks would take longer to begin.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.landing import Landing
from auditor.codecs.bookie.last_mark import LastMark
from auditor.model.amounts import and_more, plural
from auditor.model.columns import REPLICA
from auditor.model.replay_refusal import FailedReplay, failed_replay, missing_journals
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.model.start_refusal import Refusal
from auditor.model.states import IndexState, ReplayError, TailRead, TailState, TimeBasis
from auditor.sources.bookies.collections.places import CollectedPlaces, SettledPlaces
from auditor.sources.bookies.collections.tables import collected_tails
from auditor.sources.bookies.journal.tails import SCHEMA, TailPart, from_json, read_tail, to_json
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie
from auditor.sources.bookies.parts import ROCKSDB, IndexPart
from auditor.spark import functions as F
from auditor.spark.batches import as_frame, read_few
from auditor.spark.part_tables import PartTable
from auditor.spark.types import DataFrame

HERE_S = 1.5
"""What one process reads in this time it has read before the processes of tasks have started."""
COPIED_BYTES = 64 << 20
"""Of collected tables, likewise: they are only copied."""
LOOK_S = 0.5
"""Where it takes longer to look, tasks read: the disk is slow, or nobody has looked at it for long."""
_INDEX_FILE_S, _FILE_S, _BYTE_S = 20e-6, 15e-6, 1 / 130e6
"""Rough times of cached files: of a small index file and all, of any other, and of the bytes of that."""


def indexes_fit(parts: Iterable[IndexPart], replicas: int, most_s: float = HERE_S) -> bool:
    """Whether one process reads the indexes of all parts sooner than tasks begin to.

    ``replicas`` is what metadata puts on these bookies. That is about as many index files: to look how many
    there are takes half as long as to read them.
    """
    directories = {(directory.path, part.storage) for part in parts for directory in part.directories}
    files = any(storage != ROCKSDB for _, storage in directories)
    databases = [path for path, storage in sorted(directories) if storage == ROCKSDB]
    places = (Path(path, "current", name) for path in databases for name in ("ledgers", "locations"))
    return _fit(places, most_s - (_INDEX_FILE_S * replicas if files else 0))


def journals_fit(parts: Iterable[TailPart], most_s: float = HERE_S) -> bool:
    """Likewise of journals, whole, for where their marks are is not looked at here."""
    places = (Path(directory.path, "current") for part in parts for directory in part.directories)
    return _fit(places, most_s)


def _fit(directories: Iterable[Path], most_s: float) -> bool:
    """Whether what is below these directories takes no more than so long; no more is looked at than that."""
    seconds_left, begun = most_s, time.monotonic()
    if seconds_left < 0:
        return False
    for directory in directories:
        stack = [str(directory)]
        while stack:
            if time.monotonic() - begun > LOOK_S:
                return False
            try:
                with os.scandir(stack.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            stack.append(entry.path)
                            continue
                        seconds_left -= _FILE_S + entry.stat().st_blocks * 512 * _BYTE_S
                        if seconds_left < 0:
                            return False
            except OSError:
                continue
    return True


TABLE = "journal_tails"

_BOOKIES_NAMED = 3  # bookies that a note names

SEVERAL = "its directories come from more than one source"
NOT_COLLECTED = "its collection has no journals in it: an older version of this program made it"
OTHER_MARK = "it was collected from another mark than the greatest of the bookie's directories"
BROADCAST_BYTES = 32 << 20
"""Up to so many bytes on disk the table is sent whole to every task of the join."""


class LostJournal(NamedTuple):
    """A journal directory that lacks the file that its mark names; how many older and newer ones it has."""

    path: str
    file_id: int
    older: int
    newer: int


class Tail(NamedTuple):
    """What is known of one bookie's tail: ``reason`` says why not all of it; times are in ms.

    ``files`` is how many journal files were seen, ``lost`` which directories lack the one of their mark, and
    ``failed`` where replaying them would end.
    """

    reason: str | None
    read_at: int
    modified: int | None
    files: int = 0
    lost: tuple[LostJournal, ...] = ()
    failed: tuple[FailedReplay, ...] = ()


@dataclass(frozen=True)
class Tails:
    """What journals have besides the indexes, and what is known of each bookie's tail by its id.

    ``rows`` has scope_id, ledger_id, bookie_id and groups, a row per pair; None where there is nothing. It
    has nothing of the bookies ``elsewhere``, which were collected from other marks.
    """

    rows: DataFrame | None
    by_bookie: Mapping[str, Tail]
    elsewhere: frozenset[str] = frozenset()


def plan_tails(
    landing: Landing, bookies: Mapping[str, AttributedBookie], settled: SettledPlaces
) -> list[TailPart]:
    """What of the journals on disk is to be read, from the marks as they are now.

    A run that was interrupted keeps to the marks of its first attempt, for its index may be of then.
    """
    pieces = {owner.bookie_id for owner in settled.owner_of_piece.values()}
    parts = [
        TailPart(name, bookie.journals.directories, bookie.journals.trouble)
        for name, bookie in bookies.items()
        if bookie.index_directories and name not in pieces
    ]
    return from_json(landing.pin_fact("journals", to_json(parts)))


def land_tails(
    landing: Landing,
    parts: Sequence[TailPart],
    bookies: Mapping[str, AttributedBookie],
    collected: CollectedPlaces,
    settled: SettledPlaces,
) -> Tails:
    """Read the journals, after the indexes; the result covers every bookie of which an index was read."""
    spark = landing.spark

    def read() -> pa.Table | PartTable | DataFrame:
        table = PartTable.of(spark, SCHEMA, read_tail, parts)
        rows = read_few(table) if journals_fit(parts) else table
        whole = [collection for collection in collected.whole if TABLE in collection[1].tables]
        return (
            as_frame(spark, rows).unionByName(collected_tails(spark, whole, single_pieces)) if whole else rows
        )

    pieces = Counter(owner.bookie_id for owner in settled.owner_of_piece.values())
    single_pieces = {
        piece: owner
        for piece, owner in settled.owner_of_piece.items()
        if pieces[owner.bookie_id] == 1 and not bookies[owner.bookie_id].index_directories
    }
    table = landing.land(TABLE, read)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.where("ledger_id is null").drop("groups").collect():
        rows.setdefault(row["bookie_id"], []).append(row.asDict())
    on_disk = {
        name: _tail(tail_rows) for name, tail_rows in rows.items() if name in bookies and name not in pieces
    }
    from_pieces = {name: _collected_tail(bookies[name], rows.get(name, [])) for name in pieces}
    for name in pieces.keys() - {owner.bookie_id for owner in single_pieces.values()}:
        from_pieces[name] = Tail(SEVERAL, 0, None)
    wrong = [name for name, tail in from_pieces.items() if tail.reason == OTHER_MARK]
    return Tails(_beside(landing, table, wrong), {**on_disk, **from_pieces}, frozenset(wrong))


def _beside(landing: Landing, table: DataFrame, wrong: Sequence[str]) -> DataFrame | None:
    of_ledgers = table.where("ledger_id is not null").where(~F.col("bookie_id").isin(list(wrong)))
    pairs = of_ledgers.select(*REPLICA, "groups")
    if pairs.isEmpty():
        return None
    return F.broadcast(pairs) if landing.size(f"tables/{TABLE}") <= BROADCAST_BYTES else pairs


def _tail(rows: Sequence[dict[str, Any]]) -> Tail:
    """What the rows of a bookie's journal directories say, one of each directory."""
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
        return Tail(NOT_COLLECTED, 0, None)
    tail = _tail(rows)
    if bookie.journals.trouble is not None:
        return tail._replace(reason=bookie.journals.trouble, lost=(), failed=())
    marks = {(directory.mark_file_id, directory.mark_offset) for directory in bookie.journals.directories}
    same = {(row["mark_file_id"], row["mark_offset"]) for row in rows} == marks
    if not same:
        return tail._replace(reason=tail.reason or OTHER_MARK, lost=(), failed=())
    return tail


def _gap_reason(row: Mapping[str, Any]) -> str:
    position = "" if row["offset"] is None else f" (at byte {row['offset']})"
    return (
        f"{row['reason']}{position}" if row["path"] is None else f"{row['path']}: {row['reason']}{position}"
    )


def tail_state(bookie: AttributedBookie, tail: Tail | None, running: bool) -> tuple[str | None, str | None]:
    """How a bookie's tail is known, and why not all of it was read; ``running``: it is registered now."""
    if tail is None:
        return None, None
    if tail.reason is None:
        return TailRead.READ, None
    # DIRTY is what a running bookie has, and those before 4.15 do not: who is registered may be running.
    stopped = bookie.journals.stopped is not None and not running
    return (TailRead.STOPPED if stopped else TailRead.UNREAD), tail.reason


def date_bookie(bookie: AttributedBookie, tail: Tail | None, running: bool, latest: int) -> DatedIndex | None:
    """How new what is known of a bookie's entries is at least, and what that rests on; None: nothing says.

    With the journal of a running bookie that is when the journal was read; of another, and of a saved copy,
    when the journal or its mark was last written to. A bookie that went down cleanly had all in its index
    when it wrote its last mark. Else its mark is dated from below, and never by when it was written: a flush
    may take minutes, and shows what there was when it began. Where the files of the index are older than its
    mark, they date it. No time after ``latest``, the end of reading, is
    one: some clock was ahead.
    """
    state, _ = tail_state(bookie, tail, running)
    if state == TailRead.READ and tail is not None and running:
        return bookie.journals.bound(DatedIndex(min(tail.read_at, latest), TimeBasis.JOURNAL_READ))
    if state == TailRead.READ and tail is not None:
        times = [moment for moment in (bookie.journals.marked, tail.modified) if moment is not None]
        date = DatedIndex(max(times), TimeBasis.LAST_WRITE) if times else None
    elif state == TailRead.STOPPED and bookie.journals.stopped is not None:
        date = DatedIndex(bookie.journals.stopped, TimeBasis.CLEAN_STOP)
    else:
        date = bookie.journals.dated
    date = bookie.journals.bound(date)
    return None if date is None or date.at > latest else date


def refused_replays(tails: Mapping[str, Tail], running: Collection[str]) -> dict[str, Refusal]:
    """Which bookies would not start, because they cannot replay their journals from their marks on.

    The file of a mark is gone, or the replay ends at a record or a file with an exception. In copies journals
    are often left out, beside a running cluster too: where no bookie has any file, that says nothing, and a
    bookie without one beside others is not sure to have lost it. The mark of a running bookie may have moved
    to a newer file since it was read, and moves past any record when it stops cleanly.
    """
    refusals: dict[str, Refusal] = {}
    if not any(tail.files for tail in tails.values()):
        return refusals
    for name, tail in tails.items():
        if tail.lost:
            moved = name in running and any(journal.newer for journal in tail.lost)
            files = [(journal.path, LastMark(journal.file_id, 0).file_name) for journal in tail.lost]
            refusals[name] = missing_journals(files, tail.files > 0 and not moved)
        elif tail.failed:
            refusals[name] = failed_replay(tail.failed, name not in running)
    return refusals


def unread_remark(reasons: Sequence[tuple[str, str | None]]) -> list[Remark]:
    """Of bookies, (id, reason), whose journals leave something open; one remark, or none."""
    if not reasons:
        return []
    text = f"{plural(len(reasons), 'journal')} incomplete: losses after the last mark are suspect"
    return [
        remark(RemarkKind.JOURNAL_INCOMPLETE, text, *_first([f"{name} ({why})" for name, why in reasons]))
    ]


def unmarked_remark(directories: Sequence[str]) -> list[Remark]:
    """What a report says of ledger directories whose lastMark cannot be read: one remark, or none.

    >>> unmarked_remark(["bk1 (/l1)"])[0]["text"]
    '1 lastMark cannot be read: journals are read from another mark, or in full'
    """
    if not directories:
        return []
    marks = plural(len(directories), "lastMark")
    text = f"{marks} cannot be read: journals are read from another mark, or in full"
    return [remark(RemarkKind.MARK_UNREADABLE, text, *_first(directories))]


def _first(names: Sequence[str]) -> list[str]:
    return [*names[:_BOOKIES_NAMED], *and_more(len(names) - _BOOKIES_NAMED)]


def without_served(indexes: DataFrame, tails: Tails) -> DataFrame:
    """The rows of indexes without those of ledgers that only the index of ledgers lacks, as yet.

    A ledger comes into it with its first entry, and that is in the journal.
    """
    if tails.rows is None:
        return indexes
    unserved = indexes.where(f"state = '{IndexState.NOT_INDEXED}'").join(tails.rows, [*REPLICA], "left_anti")
    return indexes.where(f"state <> '{IndexState.NOT_INDEXED}'").unionByName(unserved)
