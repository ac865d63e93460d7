"""One line of a dump: found in a file, as a JSON object, and its fields.

Every line is an object with ``path`` (absolute) and ``data`` (base64); what else it has depends on the store.
What whoever made the dump could not read has a reason instead: at and below that path more may exist.

    {"path": "/ledgers/00", "unread": "its children could not be listed: not authorised to read it"}

A dump may say how it begins and ends: a first line that promises a last one, and a last one that counts the
rest.

    {"begin": {"time": 1795237656507}}
    ...                          records, one per line
    {"end": {"nodes": 116}}      as many as there are records

``time`` is when the dump was begun, in ms, and may be left out. Both lines may be left out, as the earliest
dumps do. A dump with the first and without the last is cut. One with neither may be cut at the end of any
line, so that nothing is proved by not being in it.
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
from auditor.sources.metadata.saved_files import HEAD, is_binary, kind_of_bytes, not_a, open_packed
from auditor.sources.metadata.uri import MetadataUri

BEGIN, END = "begin", "end"
TIME, NODES = "time", "nodes"

_LATEST = 2**53
"""Milliseconds that JSON's numbers hold; no clock is there before the year 287396."""


def is_frame(record: object) -> bool:
    """Whether a JSON value is a first or last line, not a record.

    >>> is_frame({"end": {"nodes": 3}}), is_frame({"path": "/a"})
    (True, False)
    """
    return isinstance(record, dict) and "path" not in record and bool({BEGIN, END} & record.keys())


def first_line(time: int) -> bytes:
    """The first line of a dump that was begun at ``time``, in ms.

    >>> first_line(5)
    b'{"begin":{"time":5}}\\n'
    """
    return line_of({BEGIN: {TIME: time}})


def last_line(records: int) -> bytes:
    """The last line of a dump of so many records."""
    return line_of({END: {NODES: records}})


@dataclass
class Frame:
    """What one pass over a dump saw of its frame; ``faults`` are (offset, reason).

    >>> frame = Frame()
    >>> frame.line(0, {"begin": {}}); frame.record(14); frame.line(40, {"end": {"nodes": 2}})
    >>> frame.complete, frame.faults
    (False, [(40, 'cut, or not as it was made: 2 records are promised, 1 are there')])
    """

    records: int = 0
    begun: bool = False
    ended: bool = False
    time: int | None = None
    faults: list[tuple[int, str]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all that was saved is there, and nothing else."""
        return self.ended and not self.faults

    def record(self, offset: int) -> None:
        """Count a record, one that cannot be read too."""
        if self.ended and not self.faults:
            self.faults.append((offset, "it lies behind the last line of the dump"))
        self.records += 1

    def line(self, offset: int, frame: dict[str, Any]) -> None:
        """Take note of a first or a last line."""
        if BEGIN in frame:
            if self.begun or self.ended or self.records:
                self.faults.append((offset, "a first line, and lines before it"))
            self.begun = True
            first = frame[BEGIN]
            time = first.get(TIME) if isinstance(first, dict) else None
            if time is None:
                return
            if type(time) is int and 0 <= time < _LATEST:
                self.time = time
            else:
                self.faults.append((offset, "a first line whose time is not a number of milliseconds"))
            return
        end = frame[END]
        promised = end.get(NODES) if isinstance(end, dict) else None
        if type(promised) is not int:
            self.faults.append((offset, "a last line that does not count nodes"))
        elif self.ended:
            self.faults.append((offset, "a second last line"))
        elif promised != self.records:
            counts = f"{promised} records are promised, {self.records} are there"
            self.faults.append((offset, f"cut, or not as it was made: {counts}"))
        self.ended = True

    def finish(self, offset: int) -> None:
        """The file ends here."""
        if self.begun and not self.ended:
            self.faults.append((offset, "cut: the last line, which the first one promises, is not there"))


LINE_LIMIT = 16 * 1024 * 1024
"""Bytes in one line. Servers take 1 to 1.5 MB in a request; one told otherwise may hold more."""

UNREAD = "unread"
"""The field of a record that has a reason instead of data."""

_NUMBER_LIMIT = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")  # one without its other half, which JSON can have, is no text
_REASON_LIMIT = 1000  # characters: whoever made a dump may have written anything


class DamagedLineError(ValueError):
    """A line that is not a record; ``path`` where it says so much. Never leaves the dumps' modules."""

    def __init__(self, path: str | None, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class FrameLineError(DamagedLineError):
    """A first or last line (`auditor.sources.metadata.dump.records`), which is not a record."""

    def __init__(self, frame: dict[str, Any]) -> None:
        super().__init__(None, "no record")
        self.frame = frame


def json_record(line: bytes) -> dict[str, Any]:
    """A line as a JSON object with a path.

    >>> json_record(b'{"path": "/a", "x": 1}')["x"]
    1
    """
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedLineError(None, f"not JSON: {error}") from error
    if is_frame(record):
        raise FrameLineError(record)
    path = record.get("path") if isinstance(record, dict) else None
    if not isinstance(path, str) or not path.startswith("/") or _SURROGATE.search(path):
        raise DamagedLineError(None, "not a JSON object with a path")
    if UNREAD in record:
        reason = str(record[UNREAD])[:_REASON_LIMIT].encode(errors="backslashreplace").decode()
        raise DamagedLineError(path, f"not read when the dump was made: {reason}")
    return dict(record)


def line_of(record: dict[str, Any]) -> bytes:
    """A record as a line.

    >>> line_of({"path": "/a"})
    b'{"path":"/a"}\\n'
    """
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def unread_record(path: str, reason: str) -> dict[str, Any]:
    """The record of what could not be read.

    >>> json_record(line_of(unread_record("/a", "not authorised")))
    Traceback (most recent call last):
        ...
    auditor.sources.metadata.dump.records.DamagedLineError: not read when the dump was made: not authorised
    """
    return {"path": path, UNREAD: reason}


def base64_text(data: bytes) -> str:
    """Bytes as `base64_of` reads them."""
    return base64.b64encode(data).decode()


def base64_of(record: dict[str, Any], name: str) -> bytes:
    """The bytes of a field in base64."""
    text = record.get(name)
    if not isinstance(text, str):
        raise DamagedLineError(record["path"], f"no {name}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedLineError(record["path"], f"{name} is not base64: {error}") from error


def int64s_of(record: dict[str, Any], names: tuple[str, ...]) -> list[int]:
    """The values of fields that are 64-bit numbers."""
    numbers = [record.get(name) for name in names]
    for name, number in zip(names, numbers, strict=True):
        if type(number) is not int or not -_NUMBER_LIMIT <= number < _NUMBER_LIMIT:
            raise DamagedLineError(record["path"], f"no {name}")
    return [int(number) for number in numbers if number is not None]


def next_line(file: BinaryIO) -> tuple[bytes | None, int]:
    """The next line and its length; None instead of a line that passes the limit."""
    piece = file.readline(LINE_LIMIT)
    length = len(piece)
    if length < LINE_LIMIT or piece.endswith(b"\n"):
        return piece, length
    while len(piece) == LINE_LIMIT and not piece.endswith(b"\n"):
        piece = file.readline(LINE_LIMIT)
        length += len(piece)
    return None, length


def records_of(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that are records of a dump, without its frame. Raises OSError.

    A file that is known to be of another format is not read to its end.
    """
    with open_packed(path) as (file, _):
        if is_binary(kind_of_bytes(file.peek(HEAD))):
            return
        length = -1
        while length:
            line, length = next_line(file)
            try:
                record = json_record(line or b"")
            except DamagedLineError:
                continue
            if "modRevision" in record or "czxid" in record:
                yield record


def first_record(path: Path) -> dict[str, Any] | None:
    """The first line of a file that is a record of a dump; None where none is. Raises OSError."""
    return next(records_of(path), None)


def recognise(parsed: MetadataUri) -> None:
    """Read a file until it is known to be a dump.

    Raises:
        StoreError: it is none, and what it seems to be.
    """
    path = Path(parsed.path)
    try:
        is_dump = first_record(path) is not None
    except OSError:
        is_dump = False
    if not is_dump:
        raise no_dump(path)


def no_dump(path: Path) -> StoreError:
    """The error of a file, or a directory, that is not a dump: what it seems to be, and the way out."""
    return StoreError(not_a("a dump of metadata", path, "bkaudit dump makes one"))
