"""Reports to where ``--format`` says: the first to standard output, others to files.

    --format text                        standard output
    --format text --format html          the second to RUN/report.html
    --format openmetrics=/var/a.prom     a file, replaced as a whole; nothing to standard output

Everything else that commands say goes to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from auditor.cli import completion
from auditor.cli.terminal import output_errors
from auditor.cli.text import TextChoice, print_text
from auditor.cli.verbosity import say
from auditor.errors import AuditorError, UsageError
from auditor.model.report_source import ReportSource
from auditor.model.run_facts import REPORT
from auditor.reports.forms import FORMS
from auditor.runs.whole_file import write_whole

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = tuple(FORMS)


@dataclass(frozen=True)
class Output:
    """One report that is asked for: its form, and the file; without a file it goes to standard output."""

    form: str
    file: str | None = None


def flat_option(command: Command) -> Command:
    """--flat."""
    return click.option(
        "--flat",
        is_flag=True,
        help="text: list the findings that one cause explains too; else they are counted.",
    )(command)


def outputs_option(command: Command) -> Command:
    """--format FORM[=FILE], as often as wanted."""
    return click.option(
        "--format",
        "forms",
        metavar="FORM[=FILE]",
        multiple=True,
        shell_complete=completion.forms,
        help=f"How to report: {', '.join(FORMATS)}; as often as wanted. Without FILE the first goes to "
        "standard output, each further one to RUN/report.ENDING.  [default: text]",
    )(command)


def outputs(forms: Sequence[str], run: str) -> tuple[Output, ...]:
    """What ``--format`` asks for, of the run at ``run``, checked before any work is done.

    >>> [output.file for output in outputs(["text", "csv", "sarif=a.sarif"], "runs/1")]
    [None, 'runs/1/report.csv', 'a.sarif']

    Raises:
        UsageError: no such form, a file that two forms share, or one whose directory cannot be written.
    """
    found: list[Output] = []
    for text in forms or ("text",):
        name, named, file = text.partition("=")
        if name not in FORMS:
            raise UsageError(f"--format {text}: there are {', '.join(FORMS)}; FORM=FILE writes a file")
        form = FORMS[name]
        if named:
            _writable(text, file, Path(run).absolute())
            found.append(Output(name, file))
        elif form.binary or any(output.file is None for output in found):
            found.append(Output(name, f"{run.rstrip('/')}/report.{form.ending}"))
        else:
            found.append(Output(name))
    files = [os.path.realpath(output.file) for output in found if output.file is not None]
    if twice := next((file for file in files if files.count(file) > 1), None):
        raise UsageError(f"--format: {twice} is named twice")
    return tuple(found)


def _writable(option: str, file: str, run: Path) -> None:
    path = Path(file).absolute()
    if not file or path.is_dir():
        raise UsageError(f"--format {option}: name a file after '='")
    if path == run / REPORT:
        raise UsageError(f"--format {option}: the run keeps its own report there")
    if path.parent == run and not run.exists():
        return  # the audit makes it
    if not path.parent.is_dir():
        raise UsageError(f"--format {option}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--format {option}: the directory {path.parent} cannot be written")


def show(run: ReportSource, wanted: Iterable[Output], text: TextChoice = TextChoice()) -> None:  # noqa: B008
    """Write the report of a run in every form that is wanted; ``text`` says how much of it a terminal gets.

    Raises:
        UsageError: files could not be written; all others were.
    """
    failed = []
    for output in wanted:
        if output.file is None:
            with output_errors():
                _print(run, output.form, text)
        elif output.file != f"{run.path.rstrip('/')}/{REPORT}":  # which the audit has written
            try:
                write_whole(output.file, partial(FORMS[output.form].write, run))
            except OSError as error:
                failed.append(f"{output.file}: {error.strerror or error}")
            except AuditorError as error:
                failed.append(f"{output.file}: {error}")
            else:
                say(f"wrote {output.file}")
    if failed:
        raise UsageError(f"--format: not written: {'; '.join(failed)}")


def _print(run: ReportSource, form: str, text: TextChoice) -> None:
    if form == "text":
        print_text(run, text)
        return
    out = sys.stdout.buffer
    FORMS[form].write(run, out)
    out.flush()
