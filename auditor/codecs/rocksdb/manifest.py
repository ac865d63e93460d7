"""What a RocksDB database consists of: its MANIFEST, a log of version edits (`auditor.codecs.rocksdb.log`).

An edit is a row of fields, each a tag (varint) and its value; strings have a varint length before them:

    1    comparator: string               2    log number: varint      3    next file number: varint
    4    last sequence: varint            5    level: varint, key: string
    6    deleted file: level, number      9    previous log number    10   least log number to keep
    7    new file: level, number, bytes, least key, greatest key
    100  the same, then least and greatest sequence number
    102  level, number, path, then as 100
    103  as 100, then fields of tag and string up to tag 1; bit 6 of a tag says that it must be understood
    200  column family: varint  201  its name: string  202  dropped  203  greatest  300  edits that follow
    8192 bit: passed over by its length if it is unknown, except where these have none:
    8196, 8199 log file added: in the old form without a length          8197, 8200 log files deleted before

Edits are applied in order; within one, files are deleted before files are added. A log file below the log
number of the default column family, or the least to keep, holds nothing that is not in a table. Only the
default column family counts: DbLedgerStorage has no other.
C++: ``db/version_edit.cc``, ``db/wal_edit.cc``, ``db/version_edit_handler.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.codecs.protobuf.wire import varint
from auditor.codecs.rocksdb.log import Record, records
from auditor.errors import DecodeError

COMPARATOR = b"leveldb.BytewiseComparator"

_VARINT = (3, 203, 300)
_COMPARATOR, _LOG_NUMBER, _LAST_SEQUENCE, _CURSOR, _DELETED, _PREVIOUS, _LEAST_LOG = 1, 2, 4, 5, 6, 9, 10
_NEW, _NEW_2, _NEW_3, _NEW_4 = 7, 100, 102, 103
_FAMILY, _FAMILY_NAME, _FAMILY_DROP = 200, 201, 202
_LOG_ADDED_OLD, _LOG_DELETED_OLD, _LOG_ADDED, _LOG_DELETED = 8196, 8197, 8199, 8200
_MAY_BE_PASSED = 1 << 13
_END, _MUST_BE_KNOWN, _PATH = 1, 1 << 6, 65
_SYNCED_BYTES = 2


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table file (``<number>.sst``), its length, and where in the MANIFEST the edit is that added it."""

    number: int
    bytes: int
    offset: int


@dataclass(slots=True)
class Manifest:
    """The state that a MANIFEST ends with.

    ``log_number``: the least log file that counts. ``last_sequence``: at least the greatest sequence number
    in the tables. ``logs``: bytes that were synced of the log files it keeps account of (few databases do).
    """

    log_number: int = 0
    last_sequence: int = 0
    tables: dict[int, TableFile] = field(default_factory=dict)
    logs: dict[int, int] = field(default_factory=dict)


def decode(data: bytes, what: str = "MANIFEST") -> Manifest:
    """Read a MANIFEST.

    Raises:
        DecodeError: as `records`; or for an edit that is cut or has a field that must be known and is not.

    >>> decode(b"").log_number
    0
    """
    manifest = Manifest()
    for record in records(data, what):
        _Edit(record, what).apply(manifest)
    return manifest


class _Edit:
    """One edit, read to its end before it is applied: the column family may come last."""

    def __init__(self, record: Record, what: str) -> None:
        self._data, self._offset, self._what = record.payload, record.offset, what
        self._at = 0
        self._family = 0
        self._numbers: dict[int, int] = {}
        self._deleted: list[int] = []
        self._added: list[TableFile] = []
        self._logs: dict[int, int] = {}
        self._logs_before = 0
        while self._at < len(self._data):
            self._field(self._varint())

    def apply(self, manifest: Manifest) -> None:
        # Tables and log numbers of other families say nothing of the default one.
        if self._family == 0:
            manifest.log_number = max(manifest.log_number, self._numbers.get(_LOG_NUMBER, 0))
            for number in self._deleted:
                manifest.tables.pop(number, None)
            manifest.tables.update((table.number, table) for table in self._added)
        # These two are the whole database's, whichever family the edit is of.
        manifest.log_number = max(manifest.log_number, self._numbers.get(_LEAST_LOG, 0))
        manifest.last_sequence = max(manifest.last_sequence, self._numbers.get(_LAST_SEQUENCE, 0))
        for number, synced in self._logs.items():
            manifest.logs[number] = max(synced, manifest.logs.get(number, 0))
        for number in [number for number in manifest.logs if number < self._logs_before]:
            del manifest.logs[number]

    def _field(self, tag: int) -> None:
        if tag in (_LOG_NUMBER, _LAST_SEQUENCE, _PREVIOUS, _LEAST_LOG):
            self._numbers[tag] = self._varint()
        elif tag in _VARINT:
            self._varint()
        elif tag == _COMPARATOR:
            if (name := self._string()) != COMPARATOR:
                raise self._error(f"keys in the order of {name[:80]!r}")
        # Where the next compaction of a level begins: no file depends on it.
        elif tag == _CURSOR:
            self._varint()
            self._string()
        elif tag == _DELETED:
            self._varint()
            self._deleted.append(self._varint())
        elif tag in (_NEW, _NEW_2, _NEW_3, _NEW_4):
            self._new_file(tag)
        elif tag == _FAMILY:
            self._family = self._varint()
        elif tag == _FAMILY_NAME:
            self._string()
        elif tag in (_LOG_ADDED, _LOG_ADDED_OLD):
            self._log_added(prefixed=tag == _LOG_ADDED)
        elif tag in (_LOG_DELETED, _LOG_DELETED_OLD):
            if tag == _LOG_DELETED:
                self._varint()
            self._logs_before = self._varint()
        elif tag & _MAY_BE_PASSED:
            self._string()
        elif tag != _FAMILY_DROP:
            raise self._error(f"unknown tag {tag}")

    def _new_file(self, tag: int) -> None:
        # The level. Which files there are is asked here, not where in the tree they are.
        self._varint()
        number = self._varint()
        if tag == _NEW_3:
            self._varint()
        size = self._varint()
        self._string()
        self._string()
        if tag != _NEW:
            self._varint()
            self._varint()
        if tag == _NEW_4:
            while (custom := self._varint()) != _END:
                # Of the fields that must be known, a path can be passed over: a bookie has only one.
                if custom & _MUST_BE_KNOWN and custom != _PATH:
                    raise self._error(f"unknown field {custom} of a new file")
                self._string()
        self._added.append(TableFile(number, size, self._offset))

    def _log_added(self, prefixed: bool) -> None:
        if prefixed:
            self._varint()
        number = self._varint()
        while (tag := self._varint()) != _END:
            if tag != _SYNCED_BYTES:
                raise self._error(f"unknown field {tag} of a log file")
            self._logs[number] = self._varint()

    def _varint(self) -> int:
        read = varint(self._data, self._at, len(self._data))
        if read is None:
            raise self._error("a number that is cut")
        value, self._at = read
        return value

    def _string(self) -> bytes:
        length = self._varint()
        if length > len(self._data) - self._at:
            raise self._error("a string that is cut")
        self._at += length
        return self._data[self._at - length : self._at]

    def _error(self, reason: str) -> DecodeError:
        """An edit may be written in fragments, so its beginning is the place to name."""
        return DecodeError(self._what, self._offset, f"{reason}, {self._at} bytes into an edit")
