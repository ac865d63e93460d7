"""Options that choose the forms and files of a report, and the findings in its text form.

    --format text                        standard output
    --format text --format html          text to standard output, html to RUN/report.html
    --format openmetrics=/var/a.prom     the file /var/a.prom, replaced atomically, and no standard output

All other messages of commands go to standard error.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from auditor.cli import completion
from auditor.cli.terminal import colour_words, terminal_columns, wants_colour
from auditor.cli.verbosity import say
from auditor.errors import AuditorError, FileSystemError, RunError, UsageError
from auditor.model.finding import Severity
from auditor.model.report_source import ReportSource
from auditor.model.run_facts import REPORT
from auditor.reports.forms import FORMS, write_parts
from auditor.reports.plain_text import printable
from auditor.runs.selection import SelectedRun, Selection, sampled_findings
from auditor.runs.whole_file import write_whole

SEVERITIES = tuple(str(severity) for severity in Severity)


@dataclass(frozen=True, slots=True)
class TextChoice:
    """Choice of the findings that the text form shows in addition to the first screen.

    Attributes:
        all_findings: Whether to show every finding, not only those sampled in the report.
        selection: Filter of the findings to show.
        suppressed_findings: Whether to show suppressed findings too.
        first_screen_only: Whether a pipe gets only the first screen, as a terminal does. If another field
            asks for findings, they are shown anyway.
        explained_findings: Whether to list the findings that a cause (one event behind several findings)
            explains. If False, the text has only the number of these findings.
    """

    all_findings: bool = False
    selection: Selection = field(default_factory=Selection)
    suppressed_findings: bool = False
    first_screen_only: bool = False
    explained_findings: bool = False

    def shows_findings(self, is_terminal: bool) -> bool:
        """Return whether to show findings.

        At a terminal, findings are shown only if an option asks for them. In a pipe, they are always shown.
        With ``first_screen_only``, a pipe follows the rule for a terminal.

        Args:
            is_terminal: Whether standard output is a terminal.
        """
        asks_for_findings = (
            self.all_findings
            or self.suppressed_findings
            or self.explained_findings
            or not self.selection.matches_everything
        )
        return asks_for_findings or not (is_terminal or self.first_screen_only)

    @property
    def shows_suppressed(self) -> bool:
        """Return whether suppressed findings are listed."""
        return self.suppressed_findings or self.all_findings

    @property
    def shows_explained(self) -> bool:
        """Return whether to list findings that a cause (one event) explains, and not only their number."""
        return self.explained_findings or self.all_findings or not self.selection.matches_everything


def print_text(run: Any, choice: TextChoice) -> None:
    """Print the report of a run as text, at a terminal or into a pipe. The first screen comes last."""
    is_terminal = sys.stdout.isatty()
    for part in _text_parts(run, choice, is_terminal):
        print(colour_words(part) if wants_colour() else part)
    if not choice.shows_findings(is_terminal) and sum(run.report.counts.values()):
        say(f"for all findings: bkaudit report {shlex.quote(printable(run.path))} --all")


def _text_parts(run: Any, choice: TextChoice, is_terminal: bool) -> Iterator[str]:
    from auditor.reports import first_screen, text

    width = (
        max(text.MIN_WIDTH, min(terminal_columns(), text.MAX_WIDTH)) if is_terminal else text.UNLIMITED_WIDTH
    )
    if choice.shows_findings(is_terminal):
        if choice.all_findings or not choice.selection.matches_everything:
            findings: text.FindingsOfRank = SelectedRun(run, choice.selection).with_statuses
        else:
            findings = partial(sampled_findings, run)
        shown_kinds = (choice.shows_suppressed, choice.shows_explained)
        if is_terminal:
            sections = text.terminal_sections(run.report, findings, run.path, width, *shown_kinds)
            parts: Iterator[str] = (f"{section}\n" for section in sections)
        else:
            parts = text.pipe_lines(run.report, findings, *shown_kinds)
        if (first_part := next(parts, None)) is not None:
            yield first_part
            yield from parts
        elif not choice.selection.matches_everything:
            say("no findings match the selection")
        if not choice.shows_suppressed and (suppressed_note := text.suppressed_note(run.report)):
            yield f"{suppressed_note}\n"
        elif not is_terminal:
            yield ""
    yield first_screen.render(run.report, run.path, width)


Command = TypeVar("Command", bound=Callable[..., Any])

FORM_NAMES = tuple(FORMS)


@dataclass(frozen=True)
class Output:
    """A requested form of a report, and the file to write. If ``file`` is None, use standard output."""

    form: str
    file: str | None = None


def flat_option(command: Command) -> Command:
    """Add --flat."""
    return click.option(
        "--flat",
        is_flag=True,
        help="For text: also list findings with a common cause. Without it, they are only counted.",
    )(command)


def outputs_option(command: Command) -> Command:
    """Add --format FORM[=FILE], which a user may repeat."""
    return click.option(
        "--format",
        "forms",
        metavar="FORM[=FILE]",
        multiple=True,
        shell_complete=completion.forms,
        help=f"Form of the report: {', '.join(FORM_NAMES)}. May be repeated. Without FILE the first goes to "
        "standard output, further ones go to RUN/report.ENDING.  [default: text]",
    )(command)


def outputs(forms: Sequence[str], run: str) -> tuple[Output, ...]:
    """Return the forms and files that ``--format`` requests for the run at ``run``.

    The function also checks them, so that a wrong option fails before the command does any work.

    >>> [output.file for output in outputs(["text", "csv", "sarif=a.sarif"], "runs/1")]
    [None, 'runs/1/report.csv', 'a.sarif']

    Raises:
        UsageError: a form does not exist, two forms share a file, or a file's directory cannot be written.
    """
    chosen_outputs: list[Output] = []
    for form_option in forms or ("text",):
        name, separator, file = form_option.partition("=")
        if name not in FORMS:
            raise UsageError(
                f"--format {form_option}: no such form. Forms: {', '.join(FORMS)}; FORM=FILE writes a file"
            )
        form = FORMS[name]
        if separator:
            _require_writable(form_option, file, Path(run).absolute())
            chosen_outputs.append(Output(name, file))
        elif form.is_binary or any(output.file is None for output in chosen_outputs):
            chosen_outputs.append(Output(name, f"{run.rstrip('/')}/report.{form.ending}"))
        else:
            chosen_outputs.append(Output(name))
    file_paths = [os.path.realpath(output.file) for output in chosen_outputs if output.file is not None]
    if repeated_file := next((file for file in file_paths if file_paths.count(file) > 1), None):
        raise UsageError(f"--format: {repeated_file} was given twice")
    return tuple(chosen_outputs)


def _require_writable(form_option: str, file: str, run: Path) -> None:
    path = Path(file).absolute()
    if not file or path.is_dir():
        raise UsageError(f"--format {form_option}: write a file name after '='")
    if path == run / REPORT:
        raise UsageError(f"--format {form_option}: the run's own report has this path. Choose another file")
    if path.parent == run and not run.exists():
        return  # the audit will make the directory
    if not path.parent.is_dir():
        raise UsageError(f"--format {form_option}: no such directory: {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--format {form_option}: the directory {path.parent} is not writable")


def show(run: ReportSource, report_outputs: Iterable[Output], text_choice: TextChoice = TextChoice()) -> None:
    """Write the report of a run in every requested form.

    If a file cannot be written, the other reports are still written.

    Args:
        run: The finished run.
        report_outputs: Forms and files.
        text_choice: Choice of findings for the text form.

    Raises:
        FileSystemError: a file could not be written.
        RunError: the run is too damaged for some of the reports.
        UsageError: some reports could not be made for another reason.
    """
    failure_texts = []
    error_types: set[type[AuditorError]] = set()
    for output in report_outputs:
        if output.file is None:
            _print_form(run, output.form, text_choice)
        elif output.file != f"{run.path.rstrip('/')}/{REPORT}":  # the audit has written this file
            try:
                write_whole(output.file, partial(_write_form, run, output.form, text_choice))
            except OSError as error:
                failure_texts.append(f"{output.file}: {error.strerror or error}")
                error_types.add(FileSystemError)
            except AuditorError as error:
                failure_texts.append(f"{output.file}: {error}")
                is_damaged_run = error.exit_code == RunError.exit_code
                error_types.add(RunError if is_damaged_run else UsageError)
            else:
                say(f"wrote {output.file}")
    if failure_texts:
        error_type = next(
            listed_type
            for listed_type in (FileSystemError, RunError, UsageError)
            if listed_type in error_types
        )
        raise error_type(f"--format: not written: {'; '.join(failure_texts)}")


def _write_form(run: ReportSource, form: str, choice: TextChoice, output_stream: BinaryIO) -> None:
    """Write a report to a file. The text form is the same as in a pipe."""
    if form == "text":
        parts = _text_parts(run, replace(choice, first_screen_only=False), is_terminal=False)
        write_parts(output_stream, (f"{part}\n" for part in parts))
    else:
        FORMS[form].write(run, output_stream)


def _print_form(run: ReportSource, form: str, text_choice: TextChoice) -> None:
    if form == "text":
        print_text(run, text_choice)
        return
    output_stream = sys.stdout.buffer
    FORMS[form].write(run, output_stream)
    output_stream.flush()
