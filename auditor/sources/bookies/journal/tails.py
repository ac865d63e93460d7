"""The journal tail of a bookie: the entries after its marks, which may not be in its index yet.

A bookie replays its journals from the greatest mark of its ledger directories. So the bookie has the entries
after the mark. Entries before the mark prove nothing: they were in the index once, and the index may have
lost them. The tail is complete only if three conditions hold: every journal directory is the bookie's, the
file that the mark names still exists, and no file is damaged. A file that ends inside a record is sound: a
restart would end there too.

A bookie with ``journalWriteData=false`` writes ledgers' master keys to its journal, and never an entry. So a
tail cannot always prove that an entry is not in the journal. A tail that has entries proves it. A tail
without records proves it if the journal has entries before the mark. A tail with master keys alone, or a
journal without records, does not prove it.
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
from auditor.model.columns import rows_of_columns, schema_of
from auditor.model.states import ReplayError, TailState
from auditor.sources.bookies.availability import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from auditor.sources.bookies.index_files.listing import check_versions
from auditor.sources.bookies.journal.files import (
    ENTRIES,
    MASTER_KEYS,
    JournalDirectory,
    JournalEntries,
    JournalFile,
    first_records,
    list_journals,
    read_entries,
)
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.clock import now_ms

NO_DATA = "the journal has master keys and no entries: journalWriteData=false"
NO_RECORDS = "the journal has no records: unknown whether entries are written to it (journalWriteData)"

SCHEMA = schema_of(
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
        "the ledger's entries after the mark: BP-34 groups of 24 bytes, without the header of a BP-34 list",
    ),
    (
        "state",
        pa.string(),
        "ok; for a journal directory also gap: some entries after the mark are not known; or gone: the "
        "journal file of the mark is missing",
    ),
    ("reason", pa.string(), "reason for a state other than ok"),
    ("offset", pa.int64(), "byte of the file at fault; null if not known"),
    ("path", pa.string(), "the journal directory, or the file at fault; null in a ledger's row"),
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
        "error that ends the bookie's replay at the file at fault: invalid-record, short-record, "
        "invalid-padding, invalid-version or invalid-name; null: the replay goes on, or is not known",
    ),
)
"""The table ``journal_tails``."""


@dataclass(frozen=True, slots=True)
class TailPart:
    """The work of one task: the journals of a bookie, or the reason (``trouble``) not to read them."""

    bookie_id: str
    directories: tuple[JournalDirectory, ...]
    trouble: str | None = None


@dataclass(slots=True)
class _DirectoryTail:
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
    tail: list[JournalFile] = field(default_factory=list)
    below: list[JournalFile] = field(default_factory=list)
    pieces: list[JournalEntries] = field(default_factory=list)

    @property
    def entries(self) -> int:
        return sum(len(piece.entry_ids) for piece in self.pieces)

    def wrong(
        self,
        reason: str,
        path: str | None = None,
        offset: int | None = None,
        replay_error: ReplayError | None = None,
    ) -> None:
        if self.reason is None:
            self.reason, self.offset, self.replay_error = reason, offset, replay_error
            self.path = path or self.path


def to_json(parts: Sequence[TailPart]) -> str:
    """Return parts as one option of a data source.

    >>> from_json(to_json([TailPart("bk1", (JournalDirectory("/j", "ab", 5, 9),))]))[0].directories[0].path
    '/j'
    """
    return json.dumps([asdict(part) for part in parts])


def from_json(text: str) -> list[TailPart]:
    """Return the parts in the text that `to_json` wrote."""
    return [
        TailPart(
            part["bookie_id"],
            tuple(JournalDirectory(**directory) for directory in part["directories"]),
            part["trouble"],
        )
        for part in json.loads(text)
    ]


def read_tail(part: TailPart) -> Iterator[pa.RecordBatch]:
    """Yield rows of `SCHEMA` for one bookie: one per ledger, then one per journal directory.

    It needs no Spark.
    """
    start_ms = now_ms()
    if part.trouble is not None:
        yield _batch([_summary(part.bookie_id, _DirectoryTail(None, part.trouble), start_ms)])
        return
    journals = [_read_directory(directory) for directory in part.directories]
    if (data_doubt := _data_doubt(journals)) is not None:
        for journal in journals:
            journal.wrong(data_doubt)
    yield from _ledger_rows(
        part.bookie_id, [piece for part_journal in journals for piece in part_journal.pieces]
    )
    yield _batch([_summary(part.bookie_id, journal, start_ms) for journal in journals])


def _read_directory(directory: JournalDirectory) -> _DirectoryTail:
    journal = _DirectoryTail(directory, path=directory.path)
    directories = [IndexDirectory(directory.path, directory.version_sha256)]
    for version_gap in check_versions(directories):
        journal.wrong(version_gap.reason, version_gap.path)
        return journal
    mark = LastMark(directory.mark_file_id, directory.mark_offset)
    try:
        files = list_journals(directory.path)
    except OSError as error:
        journal.wrong(_error_text(error))
        return journal
    except ValueError as error:
        journal.wrong(str(error), replay_error=ReplayError.INVALID_NAME)
        return journal
    journal.below = [file for file in files if file.id < mark.file_id]
    journal.tail = [file for file in files if file.id >= mark.file_id]
    if mark.file_id > 0 and (not journal.tail or journal.tail[0].id != mark.file_id):
        journal.lacks_mark_file = True
        journal.wrong(f"{mark.file_name} is missing; the bookie would replay the journal from it")
    for file in journal.tail:
        _read_file(journal, file, mark.offset if file.id == mark.file_id else 0)
    for after in check_versions(directories):
        journal.wrong(after.reason, after.path)
    return journal


def _read_file(journal: _DirectoryTail, file: JournalFile, start: int) -> None:
    try:
        changed_ms = Path(file.path).stat().st_mtime_ns // 1_000_000
        journal.modified = max(changed_ms, journal.modified or 0)
        piece = read_entries(file.path, start)
    except OSError as error:
        journal.wrong(_error_text(error), file.path)
        return
    except DecodeError as error:
        journal.wrong(error.reason, file.path, error.offset)
        return
    journal.pieces.append(piece)
    if piece.damage is not None:
        journal.wrong(piece.damage.reason, file.path, piece.damage.offset, piece.replay_error)


def _data_doubt(journals: Sequence[_DirectoryTail]) -> str | None:
    """Return why a tail without entries does not prove that the bookie wrote none.

    Returns None if the tail proves it, or has entries.
    """
    if any(journal.entries for journal in journals):
        return None
    if any(piece.master_keys for journal in journals for piece in journal.pieces):
        return NO_DATA
    # Search all files, newest first: also the part of the mark's own file before the mark.
    files = sorted({file for journal in journals for file in (*journal.tail, *journal.below)}, reverse=True)
    for file in files:
        try:
            record_kind = first_records(file.path)
        except (OSError, DecodeError):
            continue  # a file before the mark may be deleted at any time
        if record_kind == ENTRIES:
            return None
        if record_kind == MASTER_KEYS:
            return NO_DATA
    return NO_RECORDS


def _error_text(error: OSError) -> str:
    return error.strerror or str(error)


def _ledger_rows(bookie_id: str, pieces: Sequence[JournalEntries]) -> Iterator[pa.RecordBatch]:
    """Yield one row per ledger, from all journals together."""
    if not pieces:
        return
    scopes, ledgers, entries = (np.concatenate(column) for column in list(zip(*pieces, strict=True))[:3])
    for scope_id in np.unique(scopes).tolist():
        is_of_scope = scopes == scope_id
        yield from _rows_of_scope(
            bookie_id, scope_id, *ledger_sets(ledgers[is_of_scope], entries[is_of_scope])
        )


def _rows_of_scope(
    bookie_id: str, scope_id: int, ids: Longs, entry_sets: GroupBatch
) -> Iterator[pa.RecordBatch]:
    data, ends = entry_sets.tobytes(), entry_sets.offsets * GROUP.itemsize
    start = 0
    while start < len(ids):
        last_full_row = int(np.searchsorted(ends, ends[start] + MAX_BATCH_BYTES, "right")) - 1
        end = min(start + MAX_BATCH_ROWS, max(last_full_row, start + 1), len(ids))
        groups = binary_array(data[ends[start] : ends[end]], ends[start : end + 1] - ends[start])
        columns = {
            "bookie_id": bookie_id,
            "scope_id": scope_id,
            "ledger_id": ids[start:end],
            "groups": groups,
            "state": TailState.OK,
        }
        yield rows_of_columns(SCHEMA, end - start, columns)
        start = end


def _summary(bookie_id: str, journal: _DirectoryTail, start_ms: int) -> dict[str, Any]:
    mark = journal.directory
    return {
        "bookie_id": bookie_id,
        "groups": b"",
        "state": TailState.GONE
        if journal.lacks_mark_file
        else TailState.GAP
        if journal.reason
        else TailState.OK,
        "reason": journal.reason,
        "offset": journal.offset,
        "path": journal.path,
        "mark_file_id": mark.mark_file_id if mark else None,
        "mark_offset": mark.mark_offset if mark else None,
        "read_at": start_ms,
        "modified": journal.modified,
        "files": len(journal.tail),
        "files_below": len(journal.below),
        "entries": journal.entries,
        "replay_error": journal.replay_error,
    }


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
