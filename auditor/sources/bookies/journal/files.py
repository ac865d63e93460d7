"""A bookie's journals: their files, the position where a replay would start, and the entries after it.

The lastMark files determine this position. The program reads the lastMark files when it finds the
directories, before it reads any index.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from auditor.codecs.availability.fold import distinct_pairs
from auditor.codecs.bookie.journal import MASTER_KEY, Journal
from auditor.codecs.bookie.length_prefixed import Longs
from auditor.errors import DecodeError
from auditor.model.states import ReplayError
from auditor.sources.bookies.mark_times import DatedIndex, JournalTime, find_index_date, limit_by_index_write
from auditor.sources.bookies.paths import BookiePaths, OwnedDirectory
from auditor.sources.bookies.places import mark_name, replay_marks
from auditor.sources.regular_file import open_regular

JOURNAL_SUFFIX = ".txn"
MAX_KEPT_BYTES = 1 << 30
ENTRY_BYTES = 3 * 8  # its scope, ledger and entry id
MAX_KEPT_ENTRIES = MAX_KEPT_BYTES // ENTRY_BYTES
"""Largest number of entries of one journal after its mark that are kept in memory."""

ENTRY_RECORDS, MASTER_KEY_RECORDS = "entries", "master keys"

_DEDUPLICATE_ENTRIES = 4 << 20  # number of entries after which duplicates are dropped


class JournalFile(NamedTuple):
    """A journal file: its id and its path. The name of the file is its id in hexadecimal digits.

    The id of a journal's first file is the bookie's clock, in ms, when the bookie created the file. Each
    later id is the previous id plus one (``Journal.run``). So the ids show the order of the files, but not
    their times.
    """

    id: int
    path: str


class JournalEntries(NamedTuple):
    """The entries of a journal file in arbitrary order, and how the file ends.

    Attributes:
        master_keys: The number of records that contain a ledger's master key.
        is_cut: Whether the file ends inside a record.
        damage: The fault of the bytes that follow these entries. No server can have written such bytes.
            None if the file is not damaged.
        replay_error: The error with which a server's replay ends at the damage. None if the replay
            continues.
    """

    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs
    master_keys: int
    is_cut: bool
    damage: DecodeError | None
    replay_error: ReplayError | None = None


def list_journals(directory: str) -> list[JournalFile]:
    """Return the files of a journal directory, oldest first.

    Raises:
        OSError: the directory cannot be listed.
        ValueError: the name of a file cannot be parsed. A server would not start with such a file either.

    >>> list_journals("/no/such/directory")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: '/no/such/directory/current'
    """
    journals = []
    with os.scandir(f"{directory}/current") as directory_entries:
        for directory_entry in directory_entries:
            if directory_entry.name.endswith(JOURNAL_SUFFIX):
                journals.append(JournalFile(_file_id(directory_entry.name), directory_entry.path))
    return sorted(journals)


def _file_id(name: str) -> int:
    file_stem = name.partition(".")[0]
    try:
        return int(file_stem, 16)
    except ValueError as error:
        raise ValueError(f"{name}: {file_stem!r} is not a hexadecimal id") from error


def read_entries(path: str, start: int) -> JournalEntries:
    """Read the records of a journal file from byte ``start`` on. 0 stands for the first record.

    Each entry needs `ENTRY_BYTES` bytes of memory, and a third more while the columns are concatenated.

    Raises:
        OSError: the file cannot be read.
        DecodeError: the file is shorter than ``start``, or contains more than `MAX_KEPT_ENTRIES` entries.
    """
    scope_id_batches: list[Longs] = []
    ledger_id_batches: list[Longs] = []
    entry_id_batches: list[Longs] = []
    entry_count = master_key_count = 0
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
                scope_id_batches.append(scope_ids)
                ledger_id_batches.append(ledger_ids)
                entry_id_batches.append(entry_ids)
                entry_count += len(entry_ids)
                has_many_duplicates = (
                    entry_count > _DEDUPLICATE_ENTRIES
                    and len(ledger_id_batches) > 1
                    and entry_count > 2 * len(ledger_id_batches[0])
                )
                if has_many_duplicates and not any(
                    scope_id_batch.any() for scope_id_batch in scope_id_batches
                ):  # no server writes other scopes
                    distinct_ids = distinct_pairs(
                        np.concatenate(ledger_id_batches), np.concatenate(entry_id_batches)
                    )
                    ledger_id_batches, entry_id_batches, entry_count = (
                        [distinct_ids[0]],
                        [distinct_ids[1]],
                        len(distinct_ids[0]),
                    )
                    scope_id_batches = [np.zeros(entry_count, np.int64)]
                if entry_count > MAX_KEPT_ENTRIES:
                    raise DecodeError(
                        "journal", int(records.offsets[-1]), f"more than {MAX_KEPT_ENTRIES} entries"
                    )
            ends_inside_record = journal.is_cut
        except DecodeError as error:
            damage, ends_inside_record = error, False
            # An invalid version is the only damage for which Journal.open fails.
            replay_error = journal.replay_error if journal is not None else ReplayError.INVALID_VERSION
    scope_ids, ledger_ids, entry_ids = map(
        _concatenate_and_clear, (scope_id_batches, ledger_id_batches, entry_id_batches)
    )
    return JournalEntries(
        scope_ids, ledger_ids, entry_ids, master_key_count, ends_inside_record, damage, replay_error
    )


def _concatenate_and_clear(id_arrays: list[Longs]) -> Longs:
    """Concatenate the arrays, and clear the list to free the memory of the arrays."""
    column = np.concatenate([np.empty(0, np.int64), *id_arrays])
    id_arrays.clear()
    return column


def find_record_kind(path: str) -> str | None:
    """Return the kind of records in a journal file.

    Returns:
        `ENTRY_RECORDS` if the file contains an entry. Otherwise `MASTER_KEY_RECORDS` if it contains a master
        key. None if it contains neither.

    Raises:
        OSError: the file cannot be read.
        DecodeError: the file is damaged, and there is no entry before the damage.
    """
    record_kind = None
    with open_regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        for records in Journal.open(
            lambda offset, length: os.pread(descriptor, length, offset), size
        ).records():
            if len(records.entries().entry_ids):
                return ENTRY_RECORDS
            if (records.entry_ids == MASTER_KEY).any():
                record_kind = MASTER_KEY_RECORDS
    return record_kind


@dataclass(frozen=True, slots=True)
class JournalDirectory:
    """A journal directory, the SHA-256 of its VERSION file, and the position where a replay starts."""

    path: str
    version_sha256: str
    mark_file_id: int
    mark_offset: int


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals of a bookie in configured order, and the times of its marks. Times are in ms.

    A mark is the journal position in a lastMark file.

    Attributes:
        gap_reason: The reason why the entries in the journals cannot be fully determined. None if they can.
        index_date: A time up to which the index has all entries, and the evidence for it. Later entries may
            be only in the journals. None if no evidence dates the marks.
        clean_stop_ms: The time when the bookie wrote its last mark, if it then stopped cleanly with all
            entries in its index. None if it did not stop cleanly.
        newest_mark_ms: The time when the newest mark was written. None if it is unknown.
        index_written_ms: The oldest of the times of RocksDB's last write to each index directory. None if
            none of these times is known.
        directories_without_mark: The ledger directories whose lastMark files cannot be read or decoded. The
            bookie would replay its journals from the mark of a different directory, or from the beginning.
    """

    directories: tuple[JournalDirectory, ...] = ()
    gap_reason: str | None = "none of the bookie's directories was found"
    index_date: DatedIndex | None = None
    clean_stop_ms: int | None = None
    newest_mark_ms: int | None = None
    index_written_ms: int | None = None
    directories_without_mark: tuple[str, ...] = ()

    @property
    def index_time(self) -> int | None:
        """The time of ``index_date``, in ms. None if there is no date."""
        return None if self.index_date is None else self.index_date.time_ms

    def limit_by_index(self, index_date: DatedIndex | None) -> DatedIndex | None:
        """Return ``index_date``, or RocksDB's last write if it is earlier and far before the newest mark."""
        return limit_by_index_write(index_date, self.index_written_ms, self.newest_mark_ms)


NO_JOURNALS = Journals()


def find_journals(bookie_id: str, paths: BookiePaths, instance_id: str | None) -> Journals:
    """Return the journals of a bookie, given the directories that match its configured paths.

    Args:
        bookie_id: The id of the bookie.
        paths: The bookie's configured paths, and the directories that match them.
        instance_id: The instance id of the cluster. None if it is unknown.
    """
    ledger_directories = [paths.directory_by_path.get(path) for path in paths.ledger_paths]
    mark_by_name_lists = [
        dict(directory.found_directory.marks) if directory is not None else {}
        for directory in ledger_directories
    ]
    mark_times = [
        directory.found_directory.marked_ms if directory is not None else None
        for directory in ledger_directories
    ]
    known_mark_times = [mark_time_ms for mark_time_ms in mark_times if mark_time_ms is not None]
    has_all_marks = bool(ledger_directories) and all(
        directory is not None
        and directory.found_directory.unclean is False
        and directory.found_directory.marks
        for directory in ledger_directories
    )
    gap_reasons = list(_find_gap_reasons(bookie_id, paths, instance_id))
    replay_start_marks = replay_marks(mark_by_name_lists, len(paths.journal_paths))
    directories = (
        ()
        if gap_reasons
        else tuple(
            JournalDirectory(
                journal_directory.found_directory.path,
                hashlib.sha256(journal_directory.found_directory.version or b"").hexdigest(),
                *replay_mark,
            )
            for journal_directory, replay_mark in zip(
                (paths.directory_by_path[path] for path in paths.journal_paths),
                replay_start_marks,
                strict=True,
            )
        )
    )
    return Journals(
        directories=directories,
        gap_reason="; ".join(gap_reasons) or None,
        index_date=limit_by_index_write(
            find_index_date(list(zip(mark_by_name_lists, mark_times, strict=True)), _journal_times(paths)),
            oldest_index_write_ms(paths),
            max(known_mark_times, default=None),
        ),
        clean_stop_ms=min(known_mark_times)
        if has_all_marks and len(known_mark_times) == len(mark_times)
        else None,
        newest_mark_ms=max(known_mark_times, default=None),
        index_written_ms=oldest_index_write_ms(paths),
        directories_without_mark=tuple(
            directory.found_directory.path
            for directory in ledger_directories
            if directory is not None
            and directory.found_directory.marked_ms is not None
            and not directory.found_directory.marks
        ),
    )


def oldest_index_write_ms(paths: BookiePaths) -> int | None:
    """Return the oldest of the times of RocksDB's last write to each index directory, in ms.

    Return None if none of these times is known.
    """
    index_directories = [
        paths.directory_by_path[path].found_directory
        for path in paths.index_paths
        if path in paths.directory_by_path
    ]
    return min(
        (
            directory.index_written_ms
            for directory in index_directories
            if directory.index_written_ms is not None
        ),
        default=None,
    )


def _journal_times(paths: BookiePaths) -> list[tuple[str, tuple[JournalTime, ...]]]:
    """Return (name of the lastMark file, journal files with their last write times) for each journal."""
    journals = [paths.directory_by_path.get(path) for path in paths.journal_paths]
    return [
        (
            mark_name(journal_number, len(journals)),
            () if journal is None else journal.found_directory.journal_times,
        )
        for journal_number, journal in enumerate(journals)
    ]


def _find_gap_reasons(bookie_id: str, paths: BookiePaths, instance_id: str | None) -> Iterator[str]:
    if not paths.journal_paths:
        yield "no VERSION file lists the journal directories of this bookie"
    if paths.journals_differ:
        yield "the VERSION files of this bookie list different journal directories"
    for path in paths.ledger_paths:
        # The greatest mark may be in the missing directory.
        if path not in paths.directory_by_path:
            yield f"ledger directory {path} (its lastMark is needed): {paths.reason_by_path[path]}"
    for path in paths.journal_paths:
        directory = paths.directory_by_path.get(path)
        gap_reason = (
            paths.reason_by_path[path]
            if directory is None
            else _find_directory_fault(bookie_id, directory, instance_id)
        )
        if gap_reason is not None:
            yield f"journal directory {path}: {gap_reason}"


def _find_directory_fault(bookie_id: str, directory: OwnedDirectory, instance_id: str | None) -> str | None:
    path, cookie = directory.found_directory.path, directory.cookie
    if not directory.found_directory.has_current:
        return f"{path} has no subdirectory current/"
    if cookie is None:
        return f"{path} has no readable VERSION file: {directory.version_damage}"
    if cookie.bookie_id != bookie_id:
        return f"the VERSION file of {path} has bookie id {cookie.bookie_id}"
    if directory.place_bookie_id not in (None, bookie_id):
        return f"{path} is at the path of bookie {directory.place_bookie_id}"
    if None not in (instance_id, cookie.instance_id) and cookie.instance_id != instance_id:
        return f"the VERSION file of {path} belongs to another cluster, {cookie.instance_id}"
    return None
