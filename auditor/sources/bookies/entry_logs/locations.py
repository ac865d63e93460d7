"""Numbers of entries in a bookie's index by ledger and entry log, and reads of single entries.

    RocksDB locations   ledger id, entry id: i64, i64, big-endian -> location: i64
    .idx file           slot e, at byte 1024 + 8 e: location: i64
    location            entry log's id << 32 | offset of the entry; its size, i32, is before it
    entry               header of 32 bytes (`auditor.codecs.bookie.entry`), digest, body

A log may still have an old copy of an entry for which the index has a newer location. No reader uses the old
copy. So a ledger needs a log only if the index has one of the ledger's entries in that log.

The program looks up about `MAX_PROBES` entries per batch in their logs, evenly spread, one per ledger and
log. It checks that these entries are where the index says (column ``probe``). Each lookup costs one small
read. For every location, the program checks whether the log is missing or truncated. This needs no lookup.

The program reads bodies only of entries that applications keep for their own bookkeeping (`read_body`), and
never of user data. It does not check an HMAC, which needs a password.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.wire import groups_of_entries
from auditor.codecs.bookie.entry import DIGEST_BYTES, decode_header, digest_matches
from auditor.codecs.bookie.index_file import HEADER_BYTES
from auditor.codecs.bookie.length_prefixed import RECORD_ID_BYTES, Longs
from auditor.errors import DecodeError, UnreadError
from auditor.model.columns import make_batch, make_schema
from auditor.model.states import Probe
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.entry_logs.log_files import LogSizes
from auditor.sources.bookies.index_files.listing import list_part
from auditor.sources.bookies.index_files.reader import CHUNK_BYTES, SLOT_BYTES, next_data_offset
from auditor.sources.bookies.parts import ROCKSDB, IndexPart
from auditor.sources.bookies.rocksdb.ledgers import KEY_BYTES, VALUE_BYTES
from auditor.sources.bookies.rocksdb.scan import Rows, open_rocksdb, scan
from auditor.sources.regular_file import open_regular

MAX_PROBES = 256
"""Largest number of entries that are looked up in their logs, per batch: one per ledger and log."""

LOCATIONS = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("logger", pa.int32(), "number of the entry logger that wrote the log, as in entry_logs"),
    (
        "log_id",
        pa.int64(),
        "entry log in the index's locations; null: this row reports an index that could not be read",
    ),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entries", pa.int64(), "number of the ledger's entries that the index has in this log"),
    ("first_offset", pa.int64(), "lowest offset of the ledger's entries in this log"),
    ("last_offset", pa.int64(), "highest offset of the ledger's entries in this log"),
    (
        "probe",
        pa.string(),
        "result of the lookup of one entry. ok. missing: there is no such log. misnamed: the name of the log "
        "has its id in decimal digits. past-end: the log ends before the entry. other: the entry is not at "
        "the offset. null: no lookup",
    ),
    ("probe_entry", pa.int64(), "the entry that was looked up"),
    ("probe_offset", pa.int64(), "offset of probe_entry according to the index"),
    ("there_ledger_id", pa.int64(), "ledger of another entry found at probe_offset; null: no other entry"),
    ("there_entry_id", pa.int64(), "id of another entry found at probe_offset; null: no other entry"),
    (
        "gone",
        pa.binary(),
        "entries, as groups, whose location is in a missing log or past the end of a log. null: no such "
        "entry",
    ),
    ("reason", pa.string(), "reason why the index could not be read"),
)
"""The columns of the table ``locations``. If a ledger and log have several rows, their numbers add up."""

_BATCH_ROWS = 65_536
_OFFSET_BITS = 32


class EntryLocations(NamedTuple):
    """Entries and their locations, as columns of the same length."""

    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs
    locations: Longs


def read_locations(
    ledger_directories: Mapping[str, Sequence[str]], part: IndexPart
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `LOCATIONS` for one part of a bookie's index. This function needs no Spark.

    Args:
        ledger_directories: The ledger directories of each bookie, in configured order. An empty string stands
            for a directory that was not found. With DbLedgerStorage, the logs of an index are in the ledger
            directory at the same position as the index directory. With other storages, they may be in any
            ledger directory. If a directory that may contain the logs was not found, no entry is looked up.
        part: The part to read. If it cannot be read, a row contains the reason.
    """
    logger, log_directories = logger_and_directories(part, ledger_directories.get(part.bookie_id, ()))
    try:
        logs = LogSizes(log_directories)
        for batch in read_location_batches(part):
            # A running bookie may have created logs since the last listing.
            logs.list_again_if_unknown(batch.locations >> _OFFSET_BITS)
            yield _sum_per_log(part.bookie_id, logger, batch, logs)
    except (OSError, UnreadError) as error:
        reason = error.reason if isinstance(error, UnreadError) else error.strerror or str(error)
        row = {"bookie_id": part.bookie_id, "logger": logger, "reason": reason}
        yield pa.RecordBatch.from_pylist([row], schema=LOCATIONS)


def logger_and_directories(part: IndexPart, ledger_directories: Sequence[str]) -> tuple[int, Sequence[str]]:
    """Return the number of a part's entry logger, and the ledger directories that contain its logs.

    If one of these directories was not found, return no directories.
    """
    if part.storage_kind != ROCKSDB:
        return 0, () if "" in ledger_directories else ledger_directories
    own_position = part.directories[0].position
    is_position_known = part.directories[0].directory_count == len(ledger_directories)
    log_directories = ledger_directories[own_position : own_position + 1] if is_position_known else ()
    return own_position, () if "" in log_directories else log_directories


def read_location_batches(part: IndexPart) -> Iterator[EntryLocations]:
    """Yield the entries in the index of a part, with their locations, in batches.

    Raises:
        OSError, UnreadError: the index cannot be read.
    """
    return _read_rocksdb_locations(part) if part.storage_kind == ROCKSDB else _read_index_file_locations(part)


def _read_rocksdb_locations(part: IndexPart) -> Iterator[EntryLocations]:
    path = f"{part.directories[0].path}/current/locations"
    with open_rocksdb(path) as database:
        for rows in scan(database, path):
            yield _valid_locations(rows)


def _valid_locations(rows: Rows) -> EntryLocations:
    """Return entries and locations of the valid ``rows``. Table ``availability`` reports invalid rows."""
    row_numbers = np.flatnonzero(rows.has_lengths(KEY_BYTES, VALUE_BYTES))
    key_pairs = rows.keys.leading_bytes(row_numbers, KEY_BYTES).view(">i8").astype(np.int64)
    locations = rows.values.leading_bytes(row_numbers, VALUE_BYTES).view(">i8").ravel().astype(np.int64)
    is_valid = (key_pairs[:, 0] >= 0) & (key_pairs[:, 1] >= 0) & (locations > 0)
    return EntryLocations(
        np.zeros(int(is_valid.sum()), np.int64),
        key_pairs[is_valid, 0],
        key_pairs[is_valid, 1],
        locations[is_valid],
    )


def _read_index_file_locations(part: IndexPart) -> Iterator[EntryLocations]:
    """Yield the entries of the used slots in index files. A batch may cover several files."""
    pending_locations: list[EntryLocations] = []
    pending_count = 0
    for files in list_part(part):
        if not isinstance(files, IndexFiles):
            continue  # the table availability reports it
        for ledger_id, path in zip(files.ledger_ids.tolist(), files.paths, strict=True):
            try:
                for first_entry, slot_array in _read_slots(path):
                    slots = np.flatnonzero(slot_array)
                    locations = slot_array[slots].astype(np.int64)
                    scope_ids, ledger_ids = (
                        np.full(len(slots), constant_id) for constant_id in (files.scope_id, ledger_id)
                    )
                    pending_locations.append(
                        EntryLocations(scope_ids, ledger_ids, slots + first_entry, locations)
                    )
                    pending_count += len(slots)
                    if pending_count >= _BATCH_ROWS:
                        yield _concatenate(pending_locations)
                        pending_locations, pending_count = [], 0
            except OSError:
                continue  # the table availability reports it
    if pending_count:
        yield _concatenate(pending_locations)


def _read_slots(path: bytes) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the slots of an index file in arrays, each with the entry id of its first slot. Skip holes.

    Yield nothing if the file ends before its first slot. Raises OSError.
    """
    with open_regular(path) as file:
        offset = HEADER_BYTES
        while (offset := next_data_offset(file.fileno(), offset)) >= 0:
            slot_bytes = os.pread(
                file.fileno(), min(CHUNK_BYTES, max(0, os.fstat(file.fileno()).st_size - offset)), offset
            )
            slot_array = np.frombuffer(slot_bytes, ">i8", len(slot_bytes) // SLOT_BYTES)
            if not len(slot_array):
                return
            yield (offset - HEADER_BYTES) // SLOT_BYTES, slot_array
            offset += slot_array.nbytes


def _concatenate(batches: Sequence[EntryLocations]) -> EntryLocations:
    return EntryLocations(*(np.concatenate(column) for column in zip(*batches, strict=True)))


def _sum_per_log(bookie_id: str, logger: int, batch: EntryLocations, logs: LogSizes) -> pa.RecordBatch:
    """Return rows of `LOCATIONS` for a batch of entries: one row per pair of a ledger and a log."""
    log_ids, offsets = batch.locations >> 32, batch.locations & 0xFFFFFFFF
    row_order = np.lexsort((offsets, log_ids, batch.ledger_ids, batch.scope_ids))
    scopes, ledgers, log_ids = (column[row_order] for column in (batch.scope_ids, batch.ledger_ids, log_ids))
    offsets, entry_ids = offsets[row_order], batch.entry_ids[row_order]
    if not len(row_order):
        return pa.RecordBatch.from_pylist([], schema=LOCATIONS)
    is_new_pair = (scopes[1:] != scopes[:-1]) | (ledgers[1:] != ledgers[:-1]) | (log_ids[1:] != log_ids[:-1])
    first_rows = np.flatnonzero(np.concatenate(([True], is_new_pair)))
    end_rows = np.append(first_rows[1:], len(row_order))
    columns = {
        "log_id": log_ids[first_rows],
        "scope_id": scopes[first_rows],
        "ledger_id": ledgers[first_rows],
        "entries": end_rows - first_rows,
        "first_offset": offsets[first_rows],
        "last_offset": offsets[end_rows - 1],
    }
    owner_columns = {"bookie_id": bookie_id, "logger": logger}
    probe_columns = _probe_logs(columns, entry_ids[first_rows], entry_ids[end_rows - 1], logs)
    if logs.has_directories and len(logs.ids):
        is_missing = np.logical_or(*logs.find_missing(log_ids, offsets))
        if is_missing.any():
            probe_columns["gone"] = _missing_entry_groups(entry_ids, is_missing, first_rows, end_rows)
    return make_batch(LOCATIONS, len(first_rows), owner_columns | columns | probe_columns)


def _missing_entry_groups(
    entry_ids: Longs, is_missing: NDArray[np.bool_], first_rows: Longs, end_rows: Longs
) -> list[bytes | None]:
    """Return the entries flagged in ``is_missing`` as BP-34 groups, by row. None for a row without any."""
    missing_groups: list[bytes | None] = [None] * len(first_rows)
    for row in np.flatnonzero(np.add.reduceat(is_missing, first_rows)).tolist():
        row_slice = slice(int(first_rows[row]), int(end_rows[row]))
        missing_groups[row] = groups_of_entries(entry_ids[row_slice][is_missing[row_slice]]).tobytes()
    return missing_groups


def _probe_logs(
    columns: Mapping[str, Longs], first_entries: Longs, last_entries: Longs, logs: LogSizes
) -> dict[str, Any]:
    """Compare locations with log sizes, and look up some entries. Return columns; {} without directories."""
    if not logs.has_directories:
        return {}
    log_ids, ledger_ids, scope_ids, lowest_offsets, highest_offsets = (
        columns[name] for name in ("log_id", "ledger_id", "scope_id", "first_offset", "last_offset")
    )
    probes: list[str | None] = [None] * len(log_ids)
    probed_entries, probed_offsets = first_entries.copy(), lowest_offsets.copy()
    found_ids = np.full((len(log_ids), 2), -1)
    log_positions = np.minimum(np.searchsorted(logs.ids, log_ids), max(0, len(logs.ids) - 1))
    log_ends = logs.sizes[log_positions] if len(logs.ids) else np.zeros(len(log_ids), np.int64)
    is_log_missing, is_beyond_end = logs.find_missing(log_ids, highest_offsets)
    for row in np.flatnonzero(is_log_missing).tolist():
        probes[row] = Probe.MISSING
        decimal_id = logs.decimal_name(int(log_ids[row]))
        if decimal_id is not None and scope_ids[row] == 0:
            expected_ids = int(ledger_ids[row]), int(first_entries[row])
            if (
                _look_up_entry(logs, decimal_id, int(lowest_offsets[row]), 1 << _OFFSET_BITS, expected_ids)[0]
                == Probe.OK
            ):
                probes[row] = Probe.MISNAMED
    for row in np.flatnonzero(is_beyond_end).tolist():
        probes[row], probed_entries[row], probed_offsets[row] = (
            Probe.PAST_END,
            last_entries[row],
            highest_offsets[row],
        )
    probed_rows = np.flatnonzero(~is_log_missing & ~is_beyond_end & (scope_ids == 0))
    row_step = max(1, -(-len(probed_rows) // MAX_PROBES))
    for row in probed_rows[::row_step].tolist():
        expected_ids = int(ledger_ids[row]), int(first_entries[row])
        probes[row], found_entry = _look_up_entry(
            logs, int(log_ids[row]), int(lowest_offsets[row]), int(log_ends[row]), expected_ids
        )
        if found_entry is not None:
            found_ids[row] = found_entry
    has_no_probe = np.array([probe is None for probe in probes])
    return {
        "probe": probes,
        "probe_entry": pa.array(probed_entries, mask=has_no_probe),
        "probe_offset": pa.array(probed_offsets, mask=has_no_probe),
        "there_ledger_id": pa.array(found_ids[:, 0], mask=found_ids[:, 0] < 0),
        "there_entry_id": pa.array(found_ids[:, 1], mask=found_ids[:, 0] < 0),
    }


def _look_up_entry(
    logs: LogSizes, log_id: int, offset: int, log_end: int, expected_ids: tuple[int, int]
) -> tuple[str, tuple[int, int] | None]:
    """Return the result of an entry's lookup, and (ledger, entry) of a wrong entry found there, or None."""
    try:
        record_numbers = logs.read_record(log_id, offset)
    except FileNotFoundError:
        return Probe.MISSING, None
    if record_numbers is None:
        return Probe.PAST_END, None
    size, *record_ids = record_numbers
    if size >= RECORD_ID_BYTES and tuple(record_ids) == expected_ids:
        return Probe.OK, None
    is_entry = size >= RECORD_ID_BYTES and offset + size <= log_end and min(record_ids) >= 0
    return Probe.OTHER, (record_ids[0], record_ids[1]) if is_entry else None


ENTRY_FORMAT_NAME = "entry"
MAX_ENTRY_BYTES = 16 << 20
"""Largest size of an entry, in bytes. A bookie accepts 5 MB by default."""

_HEADER_BYTES = 32
_LOCATION_FORMAT, _SIZE_FORMAT, _KEY_FORMAT = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">qq")


def find_location(index_path: str, storage: str, ledger_id: int, entry_id: int) -> int | None:
    """Return the location of an entry in an index, or None if the index does not contain the entry.

    Args:
        index_path: The path of a RocksDB database ``locations``, or of the ledger's index file.
        storage: The kind of index.
        ledger_id: The id of the ledger.
        entry_id: The id of the entry.

    Raises:
        UnreadError, DamagedError: the index cannot be read.
    """
    if storage == ROCKSDB:
        with open_rocksdb(index_path) as database:
            location_bytes = database.get(_KEY_FORMAT.pack(ledger_id, entry_id))
    else:
        location_bytes = _read_bytes(
            Path(index_path), HEADER_BYTES + _LOCATION_FORMAT.size * entry_id, _LOCATION_FORMAT.size
        )
    if location_bytes is None or len(location_bytes) != _LOCATION_FORMAT.size:
        return None
    return int(_LOCATION_FORMAT.unpack(location_bytes)[0]) or None


def read_body(
    directories: Sequence[str], location: int, ledger_id: int, entry_id: int, digest_type: str
) -> bytes:
    """Return the body of the entry at a location. Its log must be in one of the given ledger directories.

    Raises:
        DecodeError: the location has a different entry, or the entry does not match its digest.
        UnreadError: the entry log does not exist or cannot be read.
    """
    name = f"{location >> _OFFSET_BITS:x}.log"
    logs = [path for directory in directories if (path := Path(directory, "current", name)).exists()]
    if len(logs) != 1:
        raise UnreadError(name, f"{len(logs)} entry logs have this name; expected 1")
    entry_offset = location & (1 << _OFFSET_BITS) - 1
    (size,) = _SIZE_FORMAT.unpack(_read_exactly(logs[0], entry_offset - _SIZE_FORMAT.size, _SIZE_FORMAT.size))
    if not _HEADER_BYTES <= size <= MAX_ENTRY_BYTES:
        raise DecodeError(
            ENTRY_FORMAT_NAME, entry_offset - _SIZE_FORMAT.size, f"invalid entry size: {size} bytes"
        )
    entry_bytes = _read_exactly(logs[0], entry_offset, size)
    header = decode_header(entry_bytes)
    if (header.version, header.ledger.id, header.entry_id) != (1, ledger_id, entry_id):
        raise DecodeError(
            ENTRY_FORMAT_NAME, entry_offset, f"entry {entry_id} of ledger {ledger_id} does not begin here"
        )
    if digest_matches(entry_bytes, _HEADER_BYTES, digest_type) is False:
        raise DecodeError(
            ENTRY_FORMAT_NAME, entry_offset + _HEADER_BYTES, f"its {digest_type} digest does not match"
        )
    return entry_bytes[_HEADER_BYTES + DIGEST_BYTES[digest_type] :]


def _read_exactly(path: Path, offset: int, length: int) -> bytes:
    read_bytes = _read_bytes(path, offset, length)
    if len(read_bytes) != length:
        raise DecodeError(ENTRY_FORMAT_NAME, offset, f"{length} bytes expected, {len(read_bytes)} present")
    return read_bytes


def _read_bytes(path: Path, offset: int, length: int) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(max(0, offset))
            return file.read(length)
    except OSError as error:
        raise UnreadError(str(path), error.strerror or str(error)) from error
