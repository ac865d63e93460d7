"""Text to standard output: how much of it, which findings, and for whom."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from auditor.cli.terminal import colour_words, columns, wants_colour
from auditor.cli.verbosity import say
from auditor.model.finding import Severity
from auditor.reports.plain_text import printable
from auditor.runs.selection import SelectedRun, Selection, sampled_findings

SEVERITIES = tuple(str(severity) for severity in Severity)


@dataclass(frozen=True, slots=True)
class TextChoice:
    """What of the findings text shows besides the first screen.

    ``all``: every finding, not only the report's samples; ``screen_only``: none, unless something else asks
    for them; ``suppressed``: those too that a suppression names; ``flat``: those too that a cause explains.
    """

    all: bool = False
    selection: Selection = field(default_factory=Selection)
    suppressed: bool = False
    screen_only: bool = False
    flat: bool = False

    def findings_wanted(self, terminal: bool) -> bool:
        """Whether any finding is shown: at a terminal only what was asked for, in a log the samples."""
        asked = self.all or self.suppressed or self.flat or not self.selection.everything
        return asked or not (terminal or self.screen_only)


def print_text(run: Any, wanted: TextChoice) -> None:
    """Print the report of a run, the first screen last, at a terminal or into a pipe."""
    terminal = sys.stdout.isatty()
    for part in _parts(run, wanted, terminal):
        print(colour_words(part) if wants_colour() else part)
    if not wanted.findings_wanted(terminal) and sum(run.report.counts.values()):
        say(f"every finding: bkaudit report {shlex.quote(printable(run.path))} --all")


def _parts(run: Any, wanted: TextChoice, terminal: bool) -> Iterator[str]:
    from auditor.reports import first_screen, text

    width = max(text.NARROWEST, min(columns(), text.WIDEST)) if terminal else text.UNBROKEN
    if wanted.findings_wanted(terminal):
        if wanted.all or not wanted.selection.everything:
            findings: text.OfRank = SelectedRun(run, wanted.selection).with_standings
        else:
            findings = partial(sampled_findings, run)
        flat = wanted.flat or not wanted.selection.everything
        if terminal:
            sections = text.for_terminal(run.report, findings, run.path, width, wanted.suppressed, flat)
            parts: Iterator[str] = (f"{section}\n" for section in sections)
        else:
            parts = text.for_pipe(run.report, findings, wanted.suppressed, flat)
        if (first := next(parts, None)) is not None:
            yield first
            yield from parts
        elif not wanted.selection.everything:
            say("no finding is of this choice")
        if not wanted.suppressed and (hidden := text.suppressed_note(run.report)):
            yield f"{hidden}\n"
        elif not terminal:
            yield ""
    yield first_screen.render(run.report, run.path, width)
