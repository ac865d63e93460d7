"""How a dump begins and ends: a first line that promises a last one, and a last one that counts the rest.

    {"begin": {"time": 1795237656507}}
    ...                          records, one per line
    {"end": {"nodes": 116}}      as many as there are records

``time`` is when the dump was begun, in ms, and may be left out. Both lines may be left out, as the earliest
dumps do. A dump with the first and without the last is cut. One with neither may be cut at the end of any
line, so that nothing is proved by not being in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

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
    return _line({BEGIN: {TIME: time}})


def last_line(records: int) -> bytes:
    """The last line of a dump of so many records."""
    return _line({END: {NODES: records}})


def _line(frame: dict[str, dict[str, int]]) -> bytes:
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


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
            said = f"{promised} records are promised, {self.records} are there"
            self.faults.append((offset, f"cut, or not as it was made: {said}"))
        self.ended = True

    def finish(self, offset: int) -> None:
        """The file ends here."""
        if self.begun and not self.ended:
            self.faults.append((offset, "cut: the last line, which the first one promises, is not there"))
