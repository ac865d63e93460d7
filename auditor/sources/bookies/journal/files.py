"""A bookie's journals: their files, the position where a replay would start, and the entries after it.

The position follows from the lastMark files. The program reads these when it finds the directories, before it
reads any index.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auditor.codecs.availability.fold import distinct
from auditor.codecs.bookie.journal import MASTER_KEY, Journal
from auditor.codecs.bookie.length_prefixed import Longs
from auditor.errors import DecodeError
from auditor.model.states import ReplayError
from auditor.sources.bookies.mark_times import DatedIndex, JournalTime, find_index_date, limit_by_index_write
from auditor.sources.bookies.paths import BookiePaths, OwnedDirectory
from auditor.sources.bookies.places import mark_name, replay_marks
from auditor.sources.regular_file import open_regular

SUFFIX = ".txn"
MAX_KEPT_BYTES = 1 << 30
ENTRY_BYTES = 3 * 8  # its scope, ledger and entry id
MAX_MASTER_KEY_ENTRIES = MAX_KEPT_BYTES // ENTRY_BYTES
"""Largest number of entries of one journal after its mark that are kept in memory."""

ENTRIES, MASTER_KEYS = "entries", "master keys"

_DEDUPLICATE_ENTRIES = 4 << 20  # number of entries after which duplicates are dropped


class JournalFile(NamedTuple):
    """A journal file: its id, which is its name in hexadecimal, and its path.

    The first file of a journal has the clock's milliseconds as its id. Each later id is the one before it
    plus one (``Journal.run``). So an id gives the order of files, and no time.
    """

    id: int
    path: str


class JournalEntries(NamedTuple):
    """The entries of a journal file, in no order, and how the file ended.

    Attributes:
        master_keys: Number of records with a ledger's master key.
        cut: Whether the file ends inside a record.
        damage: Bytes after these entries that no server can have written. None in a sound file.
        replay_error: How a server's replay ends at the damage. None if the replay continues.
    """

    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs
    master_keys: int
    cut: bool
    damage: DecodeError | None
    replay_error: ReplayError | None = None


def list_journals(directory: str) -> list[JournalFile]:
    """Return the files of a journal directory, oldest first.

    Raises:
        OSError: the directory cannot be listed.
        ValueError: a file has a name that the server cannot parse either: it would not start.

    >>> list_journals("/no/such/directory")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: '/no/such/directory/current'
    """
    journals = []
    with os.scandir(f"{directory}/current") as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                journals.append(JournalFile(_file_id(entry.name), entry.path))
    return sorted(journals)


def _file_id(name: str) -> int:
    digits = name.partition(".")[0]
    try:
        return int(digits, 16)
    except ValueError as error:
        raise ValueError(f"{name}: {digits!r} is not a hexadecimal id") from error


def read_entries(path: str, start: int) -> JournalEntries:
    """Read the records of a journal file from byte ``start`` on. Byte 0 stands for the first record.

    Each entry takes `ENTRY_BYTES` of memory, and a third more while the columns are put together.

    Raises:
        OSError: the file cannot be read.
        DecodeError: the file is shorter than ``start``, or has more than `MAX_MASTER_KEY_ENTRIES` entries.
    """
    scopes: list[Longs] = []
    ledgers: list[Longs] = []
    entries: list[Longs] = []
    count = master_key_count = 0
    damage: DecodeError | None = None
    replay_error: ReplayError | None = None
    journal: Journal | None = None
    with open_regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        if start > size:
            raise DecodeError("journal", size, f"the file ends before byte {start}, the offset in the mark")
        try:
            journal = Journal.open(lambda offset, length: os.pread(descriptor, length, offset), size)
            for records in journal.records(start):
                master_key_count += int((records.entry_ids == MASTER_KEY).sum())
                _, ledger_ids, entry_ids, scope_ids = records.entries()
                scopes.append(scope_ids)
                ledgers.append(ledger_ids)
                entries.append(entry_ids)
                count += len(entry_ids)
                is_full = count > _DEDUPLICATE_ENTRIES and len(ledgers) > 1 and count > 2 * len(ledgers[0])
                if is_full and not any(column.any() for column in scopes):  # no server writes other scopes
                    distinct_ids = distinct(np.concatenate(ledgers), np.concatenate(entries))
                    ledgers, entries, count = [distinct_ids[0]], [distinct_ids[1]], len(distinct_ids[0])
                    scopes = [np.zeros(count, np.int64)]
                if count > MAX_MASTER_KEY_ENTRIES:
                    raise DecodeError(
                        "journal", int(records.offsets[-1]), f"more than {MAX_MASTER_KEY_ENTRIES} entries"
                    )
            cut = journal.cut
        except DecodeError as error:
            damage, cut = error, False
            # An invalid version is the only damage for which Journal.open fails.
            replay_error = journal.replay_error if journal is not None else ReplayError.INVALID_VERSION
    scope_ids, ledger_ids, entry_ids = map(_take_column, (scopes, ledgers, entries))
    return JournalEntries(scope_ids, ledger_ids, entry_ids, master_key_count, cut, damage, replay_error)


def _take_column(pieces: list[Longs]) -> Longs:
    """Concatenate the pieces into one array, and clear the list so that the pieces use no memory."""
    column = np.concatenate([np.empty(0, np.int64), *pieces])
    pieces.clear()
    return column


def first_records(path: str) -> str | None:
    """Return `ENTRIES` if a journal file has an entry, else `MASTER_KEYS` if it has a master key, else None.

    Raises:
        OSError: the file cannot be read.
        DecodeError: the file is damaged and has no entry before the damage.
    """
    record_kind = None
    with open_regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        for records in Journal.open(
            lambda offset, length: os.pread(descriptor, length, offset), size
        ).records():
            if len(records.entries().entry_ids):
                return ENTRIES
            if (records.entry_ids == MASTER_KEY).any():
                record_kind = MASTER_KEYS
    return record_kind


@dataclass(frozen=True, slots=True)
class JournalDirectory:
    """One journal of a bookie, the SHA-256 of its VERSION, and the position from which it is replayed."""

    path: str
    version_sha256: str
    mark_file_id: int
    mark_offset: int


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals of a bookie in configured order, and the times of its marks, in ms.

    Attributes:
        trouble: Why the entries in the journals cannot be known completely. None if they can.
        dated: A time up to which the index has all entries, with its evidence. Later entries may be in the
            journals only. None if nothing dates the marks.
        stopped: When the bookie wrote the last mark, if it then stopped cleanly, with all entries in its
            index. None if it did not stop cleanly.
        marked: When the newest mark was written. None if it is not known.
        index_written: When RocksDB last wrote to each index directory: the oldest of these times. None if
            there is none.
        unmarked: Ledger directories with a lastMark that cannot be read or decoded. The bookie replays its
            journals from another directory's mark, or from their beginning.
    """

    directories: tuple[JournalDirectory, ...] = ()
    trouble: str | None = "none of its directories was found"
    dated: DatedIndex | None = None
    stopped: int | None = None
    marked: int | None = None
    index_written: int | None = None
    unmarked: tuple[str, ...] = ()

    @property
    def index_time(self) -> int | None:
        """The time of ``dated``, in ms."""
        return None if self.dated is None else self.dated.time_ms

    def bound(self, date: DatedIndex | None) -> DatedIndex | None:
        """Return ``date``, or an earlier time if the files of the index are older than the newest mark."""
        return limit_by_index_write(date, self.index_written, self.marked)


NO_JOURNALS = Journals()


def journals_of(bookie_id: str, paths: BookiePaths, instance_id: str | None) -> Journals:
    """Return the journals of a bookie from its matched directories.

    Args:
        bookie_id: The bookie.
        paths: Its configured paths and their directories.
        instance_id: The instance id of the cluster. None if it is not known.
    """
    ledger_directories = [paths.found.get(path) for path in paths.ledger]
    marks = [dict(directory.found.marks) if directory is not None else {} for directory in ledger_directories]
    written_times = [
        directory.found.marked_ms if directory is not None else None for directory in ledger_directories
    ]
    known_times = [marked_ms for marked_ms in written_times if marked_ms is not None]
    has_all_marks = bool(ledger_directories) and all(
        directory is not None and directory.found.unclean is False and directory.found.marks
        for directory in ledger_directories
    )
    troubles = list(_troubles(bookie_id, paths, instance_id))
    replay_start_marks = replay_marks(marks, len(paths.journal))
    directories = (
        ()
        if troubles
        else tuple(
            JournalDirectory(owned.found.path, hashlib.sha256(owned.found.version or b"").hexdigest(), *mark)
            for owned, mark in zip(
                (paths.found[path] for path in paths.journal), replay_start_marks, strict=True
            )
        )
    )
    return Journals(
        directories=directories,
        trouble="; ".join(troubles) or None,
        dated=limit_by_index_write(
            find_index_date(list(zip(marks, written_times, strict=True)), _journal_times(paths)),
            index_written(paths),
            max(known_times, default=None),
        ),
        stopped=min(known_times) if has_all_marks and len(known_times) == len(written_times) else None,
        marked=max(known_times, default=None),
        index_written=index_written(paths),
        unmarked=tuple(
            directory.found.path
            for directory in ledger_directories
            if directory is not None and directory.found.marked_ms is not None and not directory.found.marks
        ),
    )


def index_written(paths: BookiePaths) -> int | None:
    """Return the oldest of RocksDB's last writes to the index directories, in ms. None if none is known."""
    directories_found = [paths.found[path].found for path in paths.index if path in paths.found]
    return min(
        (each.index_written_ms for each in directories_found if each.index_written_ms is not None),
        default=None,
    )


def _journal_times(paths: BookiePaths) -> list[tuple[str, tuple[JournalTime, ...]]]:
    """Return for each journal the name of its mark file, and its files with their times."""
    journals = [paths.found.get(path) for path in paths.journal]
    return [
        (mark_name(number, len(journals)), () if journal is None else journal.found.journal_times)
        for number, journal in enumerate(journals)
    ]


def _troubles(bookie_id: str, paths: BookiePaths, instance_id: str | None) -> Iterator[str]:
    if not paths.journal:
        yield "no VERSION contains the journal directories of this bookie"
    if paths.journals_differ:
        yield "the VERSION files of this bookie contain different journal directories"
    for path in paths.ledger:
        # The greatest mark may be in the missing directory.
        if path not in paths.found:
            yield f"ledger directory {path} (its lastMark is needed): {paths.reasons[path]}"
    for path in paths.journal:
        directory = paths.found.get(path)
        trouble = paths.reasons[path] if directory is None else _trouble(bookie_id, directory, instance_id)
        if trouble is not None:
            yield f"journal directory {path}: {trouble}"


def _trouble(bookie_id: str, directory: OwnedDirectory, instance_id: str | None) -> str | None:
    path, cookie = directory.found.path, directory.cookie
    if not directory.found.has_current:
        return f"{path} has no current/"
    if cookie is None:
        return f"{path} has no VERSION that can be read: {directory.damage}"
    if cookie.bookie_id != bookie_id:
        return f"the VERSION of {path} has bookie id {cookie.bookie_id}"
    if directory.place_id not in (None, bookie_id):
        return f"{path} is at the path of bookie {directory.place_id}"
    if None not in (instance_id, cookie.instance_id) and cookie.instance_id != instance_id:
        return f"the VERSION of {path} is of another cluster, {cookie.instance_id}"
    return None
