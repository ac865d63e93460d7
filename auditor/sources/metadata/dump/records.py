"""The lines of a dump: the JSON objects of the records, and the first and last line.

Every record is a JSON object with the fields ``path`` (an absolute path) and ``data`` (base64). Its other
fields depend on the store. If a place could not be read when the dump was made, its record has a reason
instead of data. More znodes may exist at and below the path of such a record.

    {"path": "/ledgers/00", "unread": "its children could not be listed: not authorised to read it"}

A dump may have a first line that announces a last line, and a last line that counts the records.

    {"begin": {"time": 1795237656507}}
    ...                          records, one per line
    {"end": {"nodes": 116}}      as many as there are records

``time`` is the time when the dump was begun, in ms. It is optional. The earliest dumps have neither of
these two lines. A dump with a ``begin`` line but without an ``end`` line is cut off. A dump with neither
line could be cut off after any line. Such a dump does not prove that a missing record was missing in the
store too.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from auditor.errors import StoreError
from auditor.sources.metadata.saved_files import (
    HEAD_BYTES,
    is_binary,
    kind_of_bytes,
    open_packed,
    wrong_kind_text,
)
from auditor.sources.metadata.uri import MetadataUri

BEGIN_FIELD, END_FIELD = "begin", "end"
TIME_FIELD, NODE_COUNT_FIELD = "time", "nodes"

_MAX_TIME_MS = 2**53
"""Largest time to accept, in ms.

JSON numbers up to this limit are exact. The limit is a time in the year 287396.
"""


def is_begin_or_end(record: object) -> bool:
    """Return whether a JSON value is the first or last line of a dump rather than a record.

    >>> is_begin_or_end({"end": {"nodes": 3}}), is_begin_or_end({"path": "/a"})
    (True, False)
    """
    return (
        isinstance(record, dict) and "path" not in record and bool({BEGIN_FIELD, END_FIELD} & record.keys())
    )


def encode_first_line(time_ms: int) -> bytes:
    """Return the first line of a dump that was begun at ``time_ms``, in ms.

    >>> encode_first_line(5)
    b'{"begin":{"time":5}}\\n'
    """
    return encode_line({BEGIN_FIELD: {TIME_FIELD: time_ms}})


def encode_last_line(record_count: int) -> bytes:
    """Return the last line of a dump, for a dump with ``record_count`` records."""
    return encode_line({END_FIELD: {NODE_COUNT_FIELD: record_count}})


@dataclass
class BeginEndChecker:
    """A checker of a dump's first line, last line and number of records.

    The caller passes it the lines one by one. ``faults`` has the faults found so far, as (offset, reason).

    >>> frame = BeginEndChecker()
    >>> frame.check_line(0, {"begin": {}}); frame.count_record(14)
    >>> frame.check_line(40, {"end": {"nodes": 2}})
    >>> frame.is_complete, frame.faults
    (False, [(40, 'cut off or changed: its "end" line counts 2 records, but 1 are present')])
    """

    record_count: int = 0
    has_first_line: bool = False
    has_last_line: bool = False
    dump_time_ms: int | None = None
    faults: list[tuple[int, str]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Return whether the dump has an ``end`` line and no faults, such as a wrong number of records."""
        return self.has_last_line and not self.faults

    def count_record(self, offset: int) -> None:
        """Count a record at byte ``offset``. Records that cannot be read are counted too."""
        if self.has_last_line and not self.faults:
            self.faults.append((offset, 'a record after the "end" line of the dump'))
        self.record_count += 1

    def check_line(self, offset: int, line_record: dict[str, Any]) -> None:
        """Check a ``begin`` or ``end`` line at byte ``offset``. ``line_record`` is its JSON object."""
        if BEGIN_FIELD in line_record:
            if self.has_first_line or self.has_last_line or self.record_count:
                self.faults.append((offset, 'a "begin" line that is not the first line'))
            self.has_first_line = True
            begin_record = line_record[BEGIN_FIELD]
            time = begin_record.get(TIME_FIELD) if isinstance(begin_record, dict) else None
            if time is None:
                return
            if type(time) is int and 0 <= time < _MAX_TIME_MS:
                self.dump_time_ms = time
            else:
                self.faults.append((offset, 'a "begin" line whose time is not a number of milliseconds'))
            return
        end_record = line_record[END_FIELD]
        expected_records = end_record.get(NODE_COUNT_FIELD) if isinstance(end_record, dict) else None
        if type(expected_records) is not int:
            self.faults.append((offset, 'an "end" line without a number of nodes'))
        elif self.has_last_line:
            self.faults.append((offset, 'a second "end" line'))
        elif expected_records != self.record_count:
            counts_text = (
                f'its "end" line counts {expected_records} records, but {self.record_count} are present'
            )
            self.faults.append((offset, f"cut off or changed: {counts_text}"))
        self.has_last_line = True

    def check_end(self, offset: int) -> None:
        """Check that a dump with a ``begin`` line also had an ``end`` line.

        ``offset`` is the end of the file, in bytes.
        """
        if self.has_first_line and not self.has_last_line:
            self.faults.append(
                (offset, 'cut off: the "begin" line announces an "end" line, which is missing')
            )


LINE_LIMIT = 16 * 1024 * 1024
"""Longest line to read, in bytes. By default, servers accept requests of up to 1 or 1.5 MB."""

UNREAD_FIELD = "unread"
"""Field of a record that has a reason instead of data."""

_INT64_LIMIT = 2**63
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # a lone surrogate, which JSON allows, is not UTF-8
_MAX_REASON_CHARS = 1000  # characters; the maker of a dump may have written anything


class DamagedLineError(ValueError):
    """Raised for a line that is not a record. ``path`` is None if no path can be read from the line.

    Only the modules that read dumps handle this error.
    """

    def __init__(self, path: str | None, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class BeginEndLineError(DamagedLineError):
    """Raised for the first or last line of a dump, which is not a record.

    ``line_record`` is the JSON object in the line.
    """

    def __init__(self, line_record: dict[str, Any]) -> None:
        super().__init__(None, "no record")
        self.line_record = line_record


def decode_record(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object with a path.

    >>> decode_record(b'{"path": "/a", "x": 1}')["x"]
    1

    Raises:
        DamagedLineError: the line is not such an object, or its record has a reason instead of data.
        FrameLineError: the line is the first or last line of a dump.
    """
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedLineError(None, f"not JSON: {error}") from error
    if is_begin_or_end(record):
        raise BeginEndLineError(record)
    path = record.get("path") if isinstance(record, dict) else None
    if not isinstance(path, str) or not path.startswith("/") or _LONE_SURROGATE.search(path):
        raise DamagedLineError(None, "not a JSON object with a path")
    if UNREAD_FIELD in record:
        reason = str(record[UNREAD_FIELD])[:_MAX_REASON_CHARS].encode(errors="backslashreplace").decode()
        raise DamagedLineError(path, f"not read when the dump was made: {reason}")
    return dict(record)


def encode_line(record: dict[str, Any]) -> bytes:
    """Return the line of a record.

    >>> encode_line({"path": "/a"})
    b'{"path":"/a"}\\n'
    """
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def unread_record(path: str, reason: str) -> dict[str, Any]:
    """Return the record for a path that could not be read. The record contains ``reason``.

    When `decode_record` parses the line of this record, it raises an error with the same reason.

    >>> decode_record(encode_line(unread_record("/a", "not authorised")))
    Traceback (most recent call last):
        ...
    auditor.sources.metadata.dump.records.DamagedLineError: not read when the dump was made: not authorised
    """
    return {"path": path, UNREAD_FIELD: reason}


def base64_text(data: bytes) -> str:
    """Return bytes as base64 text. `decode_base64` decodes it."""
    return base64.b64encode(data).decode()


def decode_base64(record: dict[str, Any], name: str) -> bytes:
    """Decode the base64 text in the field ``name`` of a record, and return the bytes."""
    encoded_text = record.get(name)
    if not isinstance(encoded_text, str):
        raise DamagedLineError(record["path"], f"no {name}")
    try:
        return base64.b64decode(encoded_text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedLineError(record["path"], f"{name} is not base64: {error}") from error


def read_int64s(record: dict[str, Any], field_names: tuple[str, ...]) -> list[int]:
    """Return the values of the fields ``field_names`` of a record. All must be 64-bit integers."""
    int_values = [record.get(name) for name in field_names]
    for name, int_value in zip(field_names, int_values, strict=True):
        if type(int_value) is not int or not -_INT64_LIMIT <= int_value < _INT64_LIMIT:
            raise DamagedLineError(record["path"], f"no {name}")
    return [int(number) for number in int_values if number is not None]


def read_next_line(file: BinaryIO) -> tuple[bytes | None, int]:
    """Read the next line, and return the line and its length in bytes.

    For a line longer than `LINE_LIMIT`, return None instead of the line.
    """
    line_bytes = file.readline(LINE_LIMIT)
    line_length = len(line_bytes)
    if line_length < LINE_LIMIT or line_bytes.endswith(b"\n"):
        return line_bytes, line_length
    while len(line_bytes) == LINE_LIMIT and not line_bytes.endswith(b"\n"):
        line_bytes = file.readline(LINE_LIMIT)
        line_length += len(line_bytes)
    return None, line_length


def read_dump_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a dump, without its first and last line. Raises OSError.

    Lines that cannot be read are skipped. If the first bytes show that the file has another known format,
    the function yields nothing and reads no further.
    """
    with open_packed(path) as (file, _):
        if is_binary(kind_of_bytes(file.peek(HEAD_BYTES))):
            return
        line_length = -1
        while line_length:
            line, line_length = read_next_line(file)
            try:
                record = decode_record(line or b"")
            except DamagedLineError:
                continue
            if "modRevision" in record or "czxid" in record:
                yield record


def read_first_record(path: Path) -> dict[str, Any] | None:
    """Return the first record of a dump, or None if the file has no record. Raises OSError."""
    return next(read_dump_records(path), None)


def recognise(metadata_uri: MetadataUri) -> None:
    """Check that a file contains at least one record, as every dump does.

    Raises:
        StoreError: the file is not a dump. The message names the apparent kind of the file.
    """
    path = Path(metadata_uri.path)
    try:
        is_dump = read_first_record(path) is not None
    except OSError:
        is_dump = False
    if not is_dump:
        raise not_a_dump_error(path)


def not_a_dump_error(path: Path) -> StoreError:
    """Return the error for a file or directory that is not a dump.

    The message names the apparent kind of the file, and says what to do.
    """
    return StoreError(wrong_kind_text("a dump of metadata", path, "make one with bkaudit dump"))
