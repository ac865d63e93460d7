"""A diagnosis as text of 80 columns: what is not fine stands out by its word, and has its way out below."""

from __future__ import annotations

import textwrap
from collections import Counter

from auditor.model.doctor import Diagnosis, Line, State

WIDTH = 80
_STATE, _NAME = 11, 13
TOPICS = {
    "here": "This machine",
    "store": "The metadata store",
    "bookies": "The bookies",
    "out": "The run directory",
}


def render(diagnosis: Diagnosis) -> str:
    """Lines by topic, then what such an audit cannot see, then the counts."""
    parts = []
    for topic, title in TOPICS.items():
        lines = [line for line in diagnosis.lines if line.topic == topic]
        if lines:
            parts.append("\n".join([title, *(_line(line) for line in lines)]))
    if diagnosis.unseen:
        said = [_wrap(sentence, "  - ", "    ") for sentence in diagnosis.unseen]
        parts.append("\n".join(["What such an audit does not see", *said]))
    return "\n\n".join([*parts, _last(diagnosis)])


def _line(line: Line) -> str:
    head = f"  {line.state:<{_STATE}}{line.name:<{_NAME}}"
    shown = _wrap(line.said, head, " " * len(head))
    if line.way_out is None:
        return shown
    before = " " * (len(head) - 3) + "-> "
    return f"{shown}\n{_wrap(line.way_out, before, ' ' * len(before))}"


def _wrap(text: str, first: str, rest: str) -> str:
    # A path that is longer than a line is left whole: it is there to be copied.
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _last(diagnosis: Diagnosis) -> str:
    counts = Counter(line.state for line in diagnosis.lines)
    said = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    ends = {
        0: "An audit can look at everything that was asked about.",
        2: "An audit would be refused as wrong usage.",
        3: "An audit can be done, and would be incomplete.",
        4: "An audit would end without a result.",
    }
    return _wrap(f"{said}. {ends[diagnosis.exit_code]}", "", "")
