"""A sample of whole entries: whether each entry matches its digest, and a checksum of each payload.

The sample contains the first `EntrySample.first_entries` entries of every ledger, and `EntrySample.percent`
percent of all later entries. A hash of the ids of ledger and entry chooses the later entries. It chooses the
same entries on every bookie, so that copies of an entry can be compared.

Each entry of the sample has one row, with the result for each type of digest. Only the metadata of a ledger
says which type the ledger uses. For sampled entries that could not be read, there is one row per reason,
with the number of these entries.

No row contains the bytes of an entry. The row of an entry also contains a tag (a keyed hash) of the ledger's
master key. The tag does not disclose the key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.bookie import index_file, ledger_data
from auditor.codecs.bookie.entry import (
    DIGEST_BYTES,
    crc32c,
    decode_header,
    digest_matches,
    mac_key,
    master_key,
)
from auditor.codecs.bookie.length_prefixed import LENGTH_STRUCT, RECORD_ID_BYTES, Longs
from auditor.errors import DecodeError, UnreadError
from auditor.keys import index_path
from auditor.model.columns import make_schema
from auditor.model.ledger_id import LedgerId
from auditor.model.states import UncheckedReason
from auditor.sources.bookies.availability import mix_hash
from auditor.sources.bookies.entry_logs.locations import (
    MAX_ENTRY_BYTES,
    EntryLocations,
    logger_and_directories,
    read_location_batches,
)
from auditor.sources.bookies.entry_logs.log_files import LogPaths
from auditor.sources.bookies.parts import ROCKSDB, IndexPart
from auditor.sources.bookies.rocksdb.scan import look_up, open_rocksdb
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.regular_file import open_descriptor, open_regular

if TYPE_CHECKING:
    from pyrex import PyRocksDB


@dataclass(frozen=True, slots=True)
class EntrySample:
    """The size of a sample: ``first_entries`` entries of each ledger, and ``percent`` % of later entries.

    ``bytes`` limits how many bytes of entries are read for one part of an index.
    """

    first_entries: int
    percent: float
    bytes: int

    def is_in_sample(self, scope_ids: Longs, ledger_ids: Longs, entry_ids: Longs) -> NDArray[np.bool_]:
        """Return a mask of the entries that are in the sample. The limit ``bytes`` is ignored here.

        All arrays have the same length.

        >>> one = np.zeros(4, np.int64)
        >>> EntrySample(2, 0, 0).is_in_sample(one, one, np.arange(4)).tolist()
        [True, True, False, False]
        """
        is_first_entry: NDArray[np.bool_] = entry_ids < self.first_entries
        if self.percent >= 100:
            return np.ones(len(entry_ids), np.bool_)
        hash_limit = np.uint64(self.percent / 100 * 2**64)
        entry_hash = mix_hash(mix_hash(scope_ids.view(np.uint64)) ^ ledger_ids.view(np.uint64))
        entry_hash = mix_hash(entry_hash ^ entry_ids.view(np.uint64))
        return is_first_entry | (entry_hash < hash_limit)


WHOLE_ENTRIES = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("logger", pa.int32(), "number of the entry logger that wrote the log, as in entry_logs"),
    ("log_id", pa.int64(), "the log"),
    ("entry_offset", pa.int64(), "offset of the entry in the log"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger; null: this row counts entries that were not read"),
    ("entry_id", pa.int64(), "the entry"),
    ("entry_bytes", pa.int64(), "length of the entry in bytes, including header and digest"),
    ("crc32_right", pa.bool_(), "whether the entry's bytes match a CRC32 digest"),
    ("crc32c_right", pa.bool_(), "whether the entry's bytes match a CRC32C digest"),
    ("mac_right", pa.bool_(), "whether the entry's bytes match a MAC digest; null: no password was given"),
    *(
        (f"payload_{name.lower()}", pa.int64(), f"CRC-32C of the payload, if the digest type is {name}")
        for name in DIGEST_BYTES
    ),
    ("header_bytes", pa.int32(), "offset of the digest in the entry"),
    ("entries", pa.int64(), "1, or the number of entries that were not read"),
    ("reason", pa.string(), "reason why entries were not read or not checked"),
    ("there_ledger_id", pa.int64(), "ledger of another entry found at entry_offset; null: no other entry"),
    ("there_entry_id", pa.int64(), "id of another entry found at entry_offset; null: no other entry"),
    (
        "key_tag",
        pa.int64(),
        "tag of the ledger's master key in the index; equal keys have equal tags; null: no key is known",
    ),
    (
        "key_right",
        pa.bool_(),
        "whether the master key belongs to the given password; null: no password was given, or no key is "
        "known",
    ),
)
"""The columns of the rows that `read_whole_entries` yields."""

_BLOCK_BYTES = 1 << 18
_BLOCK_GAP_BYTES = 1 << 16  # entries at most this many bytes apart are read in one block
_MAX_CACHED_KEYS = 1 << 16
"""Largest number of ledgers whose tags of master keys are cached."""


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """The password of all ledgers (None if unknown), and a run's random key for hashes of master keys."""

    password: bytes | None
    tag_hash_key: bytes

    def make_key_columns(self, stored_key: bytes) -> dict[str, Any]:
        """Return the columns ``key_tag`` and ``key_right`` for a master key. Return {} for a key of zeros.

        ``key_tag`` is a hash of the key. ``key_right`` is whether the password has this key; None without a
        password. To the server, a key of zeros is no key.
        """
        if not any(stored_key):
            return {}
        key_tag = hashlib.blake2b(stored_key, key=self.tag_hash_key, digest_size=8).digest()
        matches_password = (
            None if self.password is None else hmac.compare_digest(stored_key, master_key(self.password))
        )
        return {"key_tag": int.from_bytes(key_tag, "big", signed=True), "key_right": matches_password}


class WholeEntryReader:
    """A callable that Spark tasks use to run `read_whole_entries`. It holds no open files and no passwords.

    The reader divides the byte limit of ``sample`` equally among the parts of a bookie. It holds only the
    path of the credentials file. It makes the tags of master keys with its own random key. So nobody else can
    make or compare tags.
    """

    def __init__(
        self,
        parts: Sequence[IndexPart],
        directories: Mapping[str, Sequence[str]],
        sample: EntrySample,
        credentials: str | None,
    ) -> None:
        self._tag_hash_key = token_bytes(32)
        self._part_counts = Counter(part.bookie_id for part in parts)
        self._directories = directories
        self._sample = sample
        self._credentials = credentials

    def __call__(self, part: IndexPart) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `WHOLE_ENTRIES` for one part."""
        password = read_credentials(self._credentials).ledgers.password
        secrets = Secrets(None if password is None else password.encode(), self._tag_hash_key)
        bookie_sample = replace(
            self._sample, bytes=-(-self._sample.bytes // self._part_counts[part.bookie_id])
        )
        yield from read_whole_entries(part, self._directories.get(part.bookie_id, ()), bookie_sample, secrets)


def read_whole_entries(
    part: IndexPart, ledger_directories: Sequence[str], sample: EntrySample, secrets: Secrets
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `WHOLE_ENTRIES` for one part of a bookie's index. This function needs no Spark.

    Args:
        part: The part to read. If its index cannot be read, this yields no row, because the table
            ``locations`` contains the reason.
        ledger_directories: The bookie's ledger directories in configured order. An empty string stands for
            a directory that was not found.
        sample: Which entries to read.
        secrets: The password of the ledgers, and the key for the tags.
    """
    digest_key = None if secrets.password is None else mac_key(secrets.password)
    logger, entry_log_directories = logger_and_directories(part, ledger_directories)
    logs = LogPaths(entry_log_directories)
    remaining_bytes = sample.bytes
    with suppress(OSError, UnreadError), _open_master_keys(part) as read_master_key:

        @lru_cache(_MAX_CACHED_KEYS)
        def find_key_columns(ledger: LedgerId) -> dict[str, Any]:
            with suppress(OSError, UnreadError, DecodeError):
                return secrets.make_key_columns(read_master_key(ledger))
            return {}

        for location_batch in read_location_batches(part):
            sampled_rows = np.flatnonzero(
                sample.is_in_sample(
                    location_batch.scope_ids, location_batch.ledger_ids, location_batch.entry_ids
                )
            )
            if len(sampled_rows):
                sampled_locations = EntryLocations(*(column[sampled_rows] for column in location_batch))
                rows, remaining_bytes = _entry_rows(
                    sampled_locations, logs, remaining_bytes, digest_key, find_key_columns
                )
                rows_with_owner = [{"bookie_id": part.bookie_id, "logger": logger} | row for row in rows]
                yield pa.RecordBatch.from_pylist(rows_with_owner, schema=WHOLE_ENTRIES)


@contextmanager
def _open_master_keys(part: IndexPart) -> Iterator[Callable[[LedgerId], bytes]]:
    """Yield a function that looks up the master key of a ledger in the index of a part.

    The function returns empty bytes if the index contains no key. It raises OSError, UnreadError and
    DecodeError.
    """
    if part.storage_kind != ROCKSDB:
        yield partial(_master_key_in_file, part)
        return
    path = f"{part.directories[0].path}/current/ledgers"
    with ExitStack() as exit_stack:
        database = None
        with suppress(OSError, UnreadError):
            database = exit_stack.enter_context(open_rocksdb(path))
        yield partial(_master_key_in_database, database, path)


def _master_key_in_file(part: IndexPart, ledger: LedgerId) -> bytes:
    file_path = index_path.scoped_ledger_to_path(ledger) if ledger.scope else index_path.to_path(ledger.id)
    for directory in part.directories:
        with suppress(FileNotFoundError), open_regular(f"{directory.path}/current/{file_path}") as file:
            return index_file.header_key(file.read(index_file.HEADER_BYTES))
    return b""


def _master_key_in_database(database: PyRocksDB | None, path: str, ledger: LedgerId) -> bytes:
    if database is not None and not ledger.scope:
        for key_length in sorted(ledger_data.KEY_BYTES, reverse=True):  # the longer key counts
            stored_ledger = look_up(database, path, struct.pack(">q", ledger.id).ljust(key_length, b"\0"))
            if stored_ledger is not None:
                return ledger_data.stored_key(stored_ledger)
    return b""


def _entry_rows(
    entry_locations: EntryLocations,
    logs: LogPaths,
    remaining_bytes: int,
    digest_key: bytes | None,
    find_key_columns: Callable[[LedgerId], dict[str, Any]],
) -> tuple[list[dict[str, Any]], int]:
    """Read the given entries in the order of their locations.

    Return their rows, and how many of ``remaining_bytes`` are left. When no bytes are left, no entry is read.
    Entries that are not read are counted in further rows, one for each reason.
    """
    rows: list[dict[str, Any]] = []
    skipped_counts: Counter[UncheckedReason] = Counter()
    reader = _EntryReader(logs)
    for row_number in np.argsort(entry_locations.locations, kind="stable").tolist():
        if remaining_bytes <= 0:
            skipped_counts[UncheckedReason.BUDGET] += 1
            continue
        location = int(entry_locations.locations[row_number])
        ledger = LedgerId(
            int(entry_locations.ledger_ids[row_number]), int(entry_locations.scope_ids[row_number])
        )
        try:
            entry_bytes = reader.read_entry(location >> 32, location & 0xFFFFFFFF)
        except OSError:
            skipped_counts[UncheckedReason.LOG] += 1
            continue
        remaining_bytes -= len(entry_bytes)
        row = _entry_row(
            entry_bytes, ledger, int(entry_locations.entry_ids[row_number]), digest_key
        ) | find_key_columns(ledger)
        rows.append(row | {"log_id": location >> 32, "entry_offset": location & 0xFFFFFFFF})
    reader.close()
    return [
        *rows,
        *({"entries": entry_count, "reason": reason} for reason, entry_count in skipped_counts.items()),
    ], remaining_bytes


def _entry_row(
    entry_bytes: bytes, ledger: LedgerId, entry_id: int, digest_key: bytes | None
) -> dict[str, Any]:
    """Return the row of one entry. ``entry_bytes`` are the bytes that were read at its location."""
    entry_columns = {"scope_id": ledger.scope, "ledger_id": ledger.id, "entry_id": entry_id, "entries": 1}
    try:
        header = decode_header(entry_bytes)
    except DecodeError:
        return entry_columns | {"reason": UncheckedReason.OTHER}
    if (header.ledger, header.entry_id) != (ledger, entry_id):
        stored_ids = {"there_ledger_id": header.ledger.id, "there_entry_id": header.entry_id}
        return entry_columns | {"reason": UncheckedReason.OTHER} | stored_ids
    payload_offset = header.header_bytes
    payloads = {
        f"payload_{name.lower()}": crc32c(entry_bytes[payload_offset + length :])
        for name, length in DIGEST_BYTES.items()
    }
    return entry_columns | {
        "entry_bytes": len(entry_bytes),
        "crc32_right": digest_matches(entry_bytes, payload_offset, "CRC32"),
        "crc32c_right": digest_matches(entry_bytes, payload_offset, "CRC32C"),
        "mac_right": digest_matches(entry_bytes, payload_offset, "MAC", digest_key),
        "header_bytes": payload_offset,
        **payloads,
    }


class _EntryReader:
    """A reader of single entries in logs.

    It reads the logs in blocks, so callers must request entries in the order of their locations.
    """

    def __init__(self, logs: LogPaths) -> None:
        self._logs = logs
        self._log_id: int | None = None
        self._descriptor: int | None = None
        self._block_start, self._block_bytes = 0, b""

    def read_entry(self, log_id: int, offset: int) -> bytes:
        """Return the bytes of the entry at an offset, or empty bytes if no entry can begin there.

        Raises:
            OSError: the log cannot be read.
        """
        if log_id != self._log_id:
            self._open(log_id)
        if self._descriptor is None:
            raise FileNotFoundError(f"log {log_id:x}")
        size_bytes = self._read_bytes(offset - LENGTH_STRUCT.size, LENGTH_STRUCT.size)
        size = LENGTH_STRUCT.unpack(size_bytes)[0] if len(size_bytes) == LENGTH_STRUCT.size else 0
        if not RECORD_ID_BYTES <= size <= MAX_ENTRY_BYTES:
            return b""
        entry_bytes = self._read_bytes(offset, size)
        return entry_bytes if len(entry_bytes) == size else b""

    def close(self) -> None:
        """Close the open log."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = self._log_id = None

    def _open(self, log_id: int) -> None:
        self.close()
        self._log_id, self._block_start, self._block_bytes = log_id, 0, b""
        path = self._logs.path(log_id)
        try:
            self._descriptor = None if path is None else open_descriptor(path)[0]
        except OSError:
            self._descriptor = None

    def _read_bytes(self, offset: int, length: int) -> bytes:
        assert self._descriptor is not None
        block_end = self._block_start + len(self._block_bytes)
        if not self._block_start <= offset <= offset + length <= block_end:
            # After a neighbour of the last block, further entries are likely to be near too: read more.
            is_near_last_block = bool(self._block_bytes) and 0 <= offset - block_end < _BLOCK_GAP_BYTES
            read_length = max(length, _BLOCK_BYTES if is_near_last_block else 4096)
            self._block_start, self._block_bytes = (
                offset,
                os.pread(self._descriptor, read_length, max(0, offset)),
            )
        return self._block_bytes[offset - self._block_start : offset - self._block_start + length]
