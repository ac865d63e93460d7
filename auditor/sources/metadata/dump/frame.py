"""How a dump begins and ends: a first line that promises a last one, and a last one that counts the rest.

    {"begin": {}}
    ...                          records, one per line
    {"end": {"nodes": 116}}      as many as there are records

Both may be left out, as the earliest dumps do. A dump with the first and without the last is cut. One with
neither may be cut at the end of any line, so that nothing is proved by not being in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BEGIN, END = "begin", "end"


def is_frame(record: object) -> bool:
    """Whether a JSON value is a first or last line, not a record.

    >>> is_frame({"end": {"nodes": 3}}), is_frame({"path": "/a"})
    (True, False)
    """
    return isinstance(record, dict) and "path" not in record and bool({BEGIN, END} & record.keys())


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
            return
        end = frame[END]
        promised = end.get("nodes") if isinstance(end, dict) else None
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
