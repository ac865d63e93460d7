"""The journal tail of a bookie: the entries after its marks, which may not be in its index yet.

A bookie replays each journal from the greatest mark for that journal in its ledger directories. So the
bookie still has the entries after that mark. A journal entry before the mark does not prove that the bookie
still has the entry. The entry was in the index once, but the index may have lost it.

The tail is complete if three conditions hold: (1) Every journal directory belongs to the bookie. (2) The file
that the mark names still exists. (3) No file is damaged. A file that ends inside a record does not count as
damaged, because the bookie's replay would also end there.

A bookie with ``journalWriteData=false`` writes the master keys of ledgers to its journal, but never an
entry. Its tail does not show which entries have not reached the index yet. So the program needs proof that
the bookie does write entries to its journal. A tail that contains entries is a proof. A tail without any
records is a proof only if the journal contains entries before the mark. There is no proof if the tail
contains only master keys, or if the journal contains no records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.fold import ledger_sets
from auditor.codecs.availability.groups import GROUP, GroupBatch, Longs
from auditor.codecs.bookie.last_mark import LastMark
from auditor.codecs.byte_column import binary_array
from auditor.errors import DecodeError
from auditor.model.columns import make_batch, make_schema
from auditor.model.states import ReplayError, TailState
from auditor.sources.bookies.availability import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from auditor.sources.bookies.index_files.listing import check_versions
from auditor.sources.bookies.journal.files import (
    ENTRY_RECORDS,
    MASTER_KEY_RECORDS,
    JournalDirectory,
    JournalEntries,
    JournalFile,
    find_record_kind,
    list_journals,
    read_entries,
)
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.clock import now_ms

NO_ENTRIES_REASON = "the journal has master keys but no entries: journalWriteData=false"
NO_RECORDS_REASON = (
    "the journal has no records: it is unknown whether the bookie writes entries to it (journalWriteData)"
)

SCHEMA = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    (
        "scope_id",
        pa.int64(),
        "BP-35 scope of the ledger, always 0 for stock servers; null if ledger_id is null",
    ),
    (
        "ledger_id",
        pa.int64(),
        "ledger with entries after the mark; null: this row is about a journal directory",
    ),
    (
        "groups",
        pa.binary(),
        "entries of the ledger after the mark: BP-34 groups of 24 bytes, without the header of a BP-34 list",
    ),
    (
        "state",
        pa.string(),
        "ok, gap or gone; the last two only for a journal directory. gap: some entries after the mark are "
        "unknown. gone: the journal file of the mark is missing",
    ),
    ("reason", pa.string(), "reason for a state other than ok"),
    ("offset", pa.int64(), "byte offset of the fault in the file; null if unknown"),
    ("path", pa.string(), "the journal directory, or the faulty file; null in a ledger's row"),
    ("mark_file_id", pa.int64(), "journal file id in the mark (not a time)"),
    ("mark_offset", pa.int64(), "offset in the mark"),
    ("read_at", pa.int64(), "time when reading began, in ms"),
    ("modified", pa.int64(), "time of the last change of the newest file read, in ms; null: there was none"),
    ("files", pa.int32(), "number of files from the mark on"),
    ("files_below", pa.int32(), "number of files before the mark's file, which the bookie would not replay"),
    ("entries", pa.int64(), "number of entry records after the mark"),
    (
        "replay_error",
        pa.string(),
        "error that ends the bookie's replay at the faulty file: invalid-record, short-record, "
        "invalid-padding, invalid-version or invalid-name. null: the replay continues, or this is unknown",
    ),
)
"""The table ``journal_tails``."""


@dataclass(frozen=True, slots=True)
class JournalTailPart:
    """The work of one task: the journals of a bookie. ``trouble`` is the reason not to read them, or None."""

    bookie_id: str
    directories: tuple[JournalDirectory, ...]
    trouble: str | None = None


@dataclass(slots=True)
class _JournalDirectoryTail:
    """The result of reading one journal.

    ``reason``, ``path``, ``offset`` and ``replay_error`` describe the first fault of the journal.
    """

    directory: JournalDirectory | None
    reason: str | None = None
    path: str | None = None
    offset: int | None = None
    replay_error: ReplayError | None = None
    modified: int | None = None
    lacks_mark_file: bool = False
    files_from_mark: list[JournalFile] = field(default_factory=list)
    files_before_mark: list[JournalFile] = field(default_factory=list)
    entries_by_file: list[JournalEntries] = field(default_factory=list)

    @property
    def entries(self) -> int:
        return sum(len(file_entries.entry_ids) for file_entries in self.entries_by_file)

    def record_fault(
        self,
        reason: str,
        path: str | None = None,
        offset: int | None = None,
        replay_error: ReplayError | None = None,
    ) -> None:
        if self.reason is None:
            self.reason, self.offset, self.replay_error = reason, offset, replay_error
            self.path = path or self.path


def to_json(parts: Sequence[JournalTailPart]) -> str:
    """Return the parts as JSON text, to pass them in one option of a Spark data source.

    >>> part = JournalTailPart("bk1", (JournalDirectory("/j", "ab", 5, 9),))
    >>> from_json(to_json([part]))[0].directories[0].path
    '/j'
    """
    return json.dumps([asdict(part) for part in parts])


def from_json(json_text: str) -> list[JournalTailPart]:
    """Return the parts in the text that `to_json` wrote."""
    return [
        JournalTailPart(
            part["bookie_id"],
            tuple(JournalDirectory(**directory) for directory in part["directories"]),
            part["trouble"],
        )
        for part in json.loads(json_text)
    ]


def read_tail(part: JournalTailPart) -> Iterator[pa.RecordBatch]:
    """Yield one bookie's journal entries after lastMark as rows of `SCHEMA`. This needs no Spark.

    The result has a row per ledger, and then a row per journal directory.
    """
    start_ms = now_ms()
    if part.trouble is not None:
        yield _rows_batch(
            [_directory_row(part.bookie_id, _JournalDirectoryTail(None, part.trouble), start_ms)]
        )
        return
    journals = [_read_directory(directory) for directory in part.directories]
    if (unproved_entries_reason := _find_unproved_entries_reason(journals)) is not None:
        for journal in journals:
            journal.record_fault(unproved_entries_reason)
    yield from _ledger_rows(
        part.bookie_id,
        [file_entries for directory_tail in journals for file_entries in directory_tail.entries_by_file],
    )
    yield _rows_batch([_directory_row(part.bookie_id, journal, start_ms) for journal in journals])


def _read_directory(directory: JournalDirectory) -> _JournalDirectoryTail:
    journal = _JournalDirectoryTail(directory, path=directory.path)
    directories = [IndexDirectory(directory.path, directory.version_sha256)]
    for version_gap in check_versions(directories):
        journal.record_fault(version_gap.reason, version_gap.path)
        return journal
    mark = LastMark(directory.mark_file_id, directory.mark_offset)
    try:
        files = list_journals(directory.path)
    except OSError as error:
        journal.record_fault(_error_text(error))
        return journal
    except ValueError as error:
        journal.record_fault(str(error), replay_error=ReplayError.INVALID_NAME)
        return journal
    journal.files_before_mark = [file for file in files if file.id < mark.file_id]
    journal.files_from_mark = [file for file in files if file.id >= mark.file_id]
    if mark.file_id > 0 and (not journal.files_from_mark or journal.files_from_mark[0].id != mark.file_id):
        journal.lacks_mark_file = True
        journal.record_fault(f"{mark.file_name} is missing; the bookie would replay the journal from it")
    for file in journal.files_from_mark:
        _read_file(journal, file, mark.offset if file.id == mark.file_id else 0)
    for version_change in check_versions(directories):
        journal.record_fault(version_change.reason, version_change.path)
    return journal


def _read_file(journal: _JournalDirectoryTail, file: JournalFile, first_byte: int) -> None:
    try:
        modified_ms = Path(file.path).stat().st_mtime_ns // 1_000_000
        journal.modified = max(modified_ms, journal.modified or 0)
        file_entries = read_entries(file.path, first_byte)
    except OSError as error:
        journal.record_fault(_error_text(error), file.path)
        return
    except DecodeError as error:
        journal.record_fault(error.reason, file.path, error.offset)
        return
    journal.entries_by_file.append(file_entries)
    if file_entries.damage is not None:
        journal.record_fault(
            file_entries.damage.reason, file.path, file_entries.damage.offset, file_entries.replay_error
        )


def _find_unproved_entries_reason(journals: Sequence[_JournalDirectoryTail]) -> str | None:
    """Return the reason why there is no proof that the bookie writes entries to its journals.

    Return None if there is a proof.
    """
    if any(journal.entries for journal in journals):
        return None
    if any(file_entries.master_keys for journal in journals for file_entries in journal.entries_by_file):
        return NO_ENTRIES_REASON
    # Search all files whole, newest first: an entry before the mark is proof too.
    files = sorted(
        {file for journal in journals for file in (*journal.files_from_mark, *journal.files_before_mark)},
        reverse=True,
    )
    for file in files:
        try:
            record_kind = find_record_kind(file.path)
        except (OSError, DecodeError):
            continue  # a file before the mark may be deleted at any time
        if record_kind == ENTRY_RECORDS:
            return None
        if record_kind == MASTER_KEY_RECORDS:
            return NO_ENTRIES_REASON
    return NO_RECORDS_REASON


def _error_text(error: OSError) -> str:
    return error.strerror or str(error)


def _ledger_rows(bookie_id: str, journal_entries: Sequence[JournalEntries]) -> Iterator[pa.RecordBatch]:
    """Yield one row per ledger. A row contains the ledger's entries from all journals together."""
    if not journal_entries:
        return
    scope_ids, ledger_ids, entry_ids = (
        np.concatenate(column) for column in list(zip(*journal_entries, strict=True))[:3]
    )
    for scope_id in np.unique(scope_ids).tolist():
        is_in_scope = scope_ids == scope_id
        yield from _rows_of_scope(
            bookie_id, scope_id, *ledger_sets(ledger_ids[is_in_scope], entry_ids[is_in_scope])
        )


def _rows_of_scope(
    bookie_id: str, scope_id: int, ledger_ids: Longs, ledger_entry_sets: GroupBatch
) -> Iterator[pa.RecordBatch]:
    group_bytes, group_ends = ledger_entry_sets.tobytes(), ledger_entry_sets.offsets * GROUP.itemsize
    first_row = 0
    while first_row < len(ledger_ids):
        last_fitting_row = (
            int(np.searchsorted(group_ends, group_ends[first_row] + MAX_BATCH_BYTES, "right")) - 1
        )
        end_row = min(first_row + MAX_BATCH_ROWS, max(last_fitting_row, first_row + 1), len(ledger_ids))
        groups = binary_array(
            group_bytes[group_ends[first_row] : group_ends[end_row]],
            group_ends[first_row : end_row + 1] - group_ends[first_row],
        )
        columns = {
            "bookie_id": bookie_id,
            "scope_id": scope_id,
            "ledger_id": ledger_ids[first_row:end_row],
            "groups": groups,
            "state": TailState.OK,
        }
        yield make_batch(SCHEMA, end_row - first_row, columns)
        first_row = end_row


def _directory_row(bookie_id: str, journal: _JournalDirectoryTail, start_ms: int) -> dict[str, Any]:
    mark_position = journal.directory
    return {
        "bookie_id": bookie_id,
        "groups": b"",
        "state": TailState.NO_FILE
        if journal.lacks_mark_file
        else TailState.GAP
        if journal.reason
        else TailState.OK,
        "reason": journal.reason,
        "offset": journal.offset,
        "path": journal.path,
        "mark_file_id": mark_position.mark_file_id if mark_position else None,
        "mark_offset": mark_position.mark_offset if mark_position else None,
        "read_at": start_ms,
        "modified": journal.modified,
        "files": len(journal.files_from_mark),
        "files_below": len(journal.files_before_mark),
        "entries": journal.entries,
        "replay_error": journal.replay_error,
    }


def _rows_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
