"""Diagnosis before a first run: questions with their answers, as values and as text.

Each question has one line. If the answer is not ``ok``, the line below says what to do. The exit code is the
best one with which an audit of the same sources could end.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from auditor.model.report import EXIT_CLEAN, EXIT_NOT_COVERED, EXIT_UNREACHABLE, EXIT_USAGE
from auditor.reports.plain_text import wrap_words

SCHEMA = "bookkeeper-auditor/doctor/1"

EXIT_CODES_BY_PRECEDENCE = (EXIT_USAGE, EXIT_UNREACHABLE, EXIT_NOT_COVERED, EXIT_CLEAN)
"""Exit codes by precedence. The diagnosis ends with the first of these codes that any of its lines has."""


class AnswerState(StrEnum):
    """Kind of the answer to a question."""

    OK = "ok"
    WARN = "warn"  # an audit can run, but finds less or takes longer
    FAIL = "fail"  # an audit would end with an error
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One question and its answer.

    ``way_out`` says what to do. It is None if nothing has to be done. ``exit_code`` is the best exit code
    with which an audit could end, given this answer.
    """

    topic: str  # here, store, owners, bookies or out
    name: str
    state: AnswerState
    said: str
    way_out: str | None = None
    exit_code: int = EXIT_CLEAN


class Topic(NamedTuple):
    """Subject of questions. For each kind of answer, it has a method that makes a line."""

    topic: str

    def ok(self, name: str, answer: str) -> AnswerLine:
        """Return a line whose answer needs no action."""
        return AnswerLine(self.topic, name, AnswerState.OK, answer)

    def warn(
        self, name: str, answer: str, way_out: str | None = None, exit_code: int = EXIT_CLEAN
    ) -> AnswerLine:
        """Return a line on a problem that does not prevent an audit."""
        return AnswerLine(self.topic, name, AnswerState.WARN, answer, way_out, exit_code)

    def fail(self, name: str, answer: str, way_out: str | None, exit_code: int) -> AnswerLine:
        """Return a line on a problem that prevents an audit."""
        return AnswerLine(self.topic, name, AnswerState.FAIL, answer, way_out, exit_code)

    def not_asked(
        self, name: str, answer: str, way_out: str | None = None, exit_code: int = EXIT_CLEAN
    ) -> AnswerLine:
        """Return a line on a question that was not asked. ``answer`` is the reason."""
        return AnswerLine(self.topic, name, AnswerState.NOT_ASKED, answer, way_out, exit_code)


MACHINE_TOPIC, STORE_TOPIC, OWNERS_TOPIC, BOOKIES_TOPIC, RUN_TOPIC = map(
    Topic, ("here", "store", "owners", "bookies", "out")
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All questions with their answers, in the order in which an audit would meet the questions.

    ``unseen_facts`` has sentences on facts that an audit of the same sources cannot see.
    """

    lines: tuple[AnswerLine, ...]
    unseen_facts: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """Return the exit code of the diagnosis.

        It is the first code in `EXIT_CODES_BY_PRECEDENCE` that one of the lines has. It is `EXIT_CLEAN` if no
        line has such a code.

        >>> line = AnswerLine("store", "access", AnswerState.FAIL, "no answer", None, EXIT_UNREACHABLE)
        >>> Diagnosis((line,), ()).exit_code
        4
        """
        exit_codes = {line.exit_code for line in self.lines}
        return next(
            (exit_code for exit_code in EXIT_CODES_BY_PRECEDENCE if exit_code in exit_codes), EXIT_CLEAN
        )

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as plain values for JSON."""
        lines = [asdict(line) | {"state": str(line.state)} for line in self.lines]
        return {
            "schema": SCHEMA,
            "exit_code": self.exit_code,
            "lines": lines,
            "unseen": list(self.unseen_facts),
        }


WIDTH = 80
_STATE_COLUMNS, _NAME_COLUMNS = 11, 13
_TOPIC_TITLES = {
    MACHINE_TOPIC: "This machine",
    STORE_TOPIC: "The metadata store",
    OWNERS_TOPIC: "The owners of ledgers",
    BOOKIES_TOPIC: "The bookies",
    RUN_TOPIC: "The run directory",
}


def render(diagnosis: Diagnosis, width: int = WIDTH) -> str:
    """Return the page: lines by topic, facts that an audit cannot see, and the number of lines by state."""
    page_blocks = []
    for (topic,), title in _TOPIC_TITLES.items():
        lines = [line for line in diagnosis.lines if line.topic == topic]
        if lines:
            page_blocks.append("\n".join([title, *(_line_text(line, width) for line in lines)]))
    if diagnosis.unseen_facts:
        sentences = [_wrap_text(sentence, width, "  - ", "    ") for sentence in diagnosis.unseen_facts]
        page_blocks.append("\n".join(["What such an audit cannot see", *sentences]))
    return "\n\n".join([*page_blocks, _verdict_line(diagnosis, width)])


def _line_text(line: AnswerLine, width: int) -> str:
    line_head = f"  {line.state:<{_STATE_COLUMNS}}{line.name:<{_NAME_COLUMNS}}"
    answer_text = _wrap_text(line.said, width, line_head, " " * len(line_head))
    if line.way_out is None:
        return answer_text
    arrow_indent = " " * (len(line_head) - 3) + "-> "
    return f"{answer_text}\n{_wrap_text(line.way_out, width, arrow_indent, ' ' * len(arrow_indent))}"


def _wrap_text(text: str, width: int, first_indent: str, later_indent: str) -> str:
    # A path that is longer than a line is not broken, so that a user can copy it.
    return "\n".join(wrap_words(text, width, first_indent, later_indent))


def _verdict_line(diagnosis: Diagnosis, width: int) -> str:
    counts = Counter(line.state for line in diagnosis.lines)
    counts_text = ", ".join(f"{counts[state]} {state}" for state in AnswerState if counts[state])
    verdict_by_exit_code = {
        0: "An audit can read every source that was checked.",
        2: "An audit with these options would be refused as wrong usage.",
        3: "An audit can run, but would be incomplete.",
        4: "An audit with these options would end without a result.",
    }
    return _wrap_text(f"{counts_text}. {verdict_by_exit_code[diagnosis.exit_code]}", width, "", "")
