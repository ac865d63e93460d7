"""What can be said before a first run: what is there, what is missing, and what the run will not see.

One line a question. The exit code is the best that an audit with these sources could end with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from auditor.model.exit_code import CLEAN, NOT_COVERED, UNREACHABLE, USAGE

SCHEMA = "bookkeeper-auditor/doctor/1"

PRECEDENCE = (USAGE, UNREACHABLE, NOT_COVERED, CLEAN)
"""Of several exit codes the first is taken, as an audit does."""


class State(StrEnum):
    """How one question was answered."""

    OK = "ok"
    WARN = "warn"  # an audit can be done, and knows less or takes longer
    FAIL = "fail"  # an audit would end here
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Line:
    """One question and its answer; ``way_out`` says what to do where the answer is not ``ok``.

    ``exit_code`` is what an audit would end with at best, because of this alone.
    """

    topic: str  # here, store, bookies or out
    name: str
    state: State
    said: str
    way_out: str | None = None
    exit_code: int = CLEAN


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All lines, in the order of an audit; ``unseen`` are sentences on what such an audit cannot see."""

    lines: tuple[Line, ...]
    unseen: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """
        >>> Diagnosis((Line("store", "access", State.FAIL, "no answer", None, UNREACHABLE),), ()).exit_code
        4
        """
        codes = {line.exit_code for line in self.lines}
        return next((code for code in PRECEDENCE if code in codes), CLEAN)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        lines = [asdict(line) | {"state": str(line.state)} for line in self.lines]
        return {
            "schema": SCHEMA,
            "exit_code": self.exit_code,
            "lines": lines,
            "unseen": list(self.unseen),
        }
