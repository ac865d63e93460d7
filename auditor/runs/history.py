"""The history of a directory of runs, and the run that a new one is compared with. No Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auditor.errors import RunError, RunUsageError
from auditor.model.history import NOT_COMPARED, RunSummary
from auditor.model.report import Cluster, Report
from auditor.runs.reader import RunReader
from auditor.runs.siblings import is_file, oldest_first, reports, siblings
from auditor.sources.file_systems import parent_of, run_files
from auditor.tables.changes import CHANGED

_CHANGES = f"{CHANGED}/_SUCCESS"


def history(directory: str | Path) -> tuple[RunSummary, ...]:
    """The finished runs right below ``directory``, a path or a URI, the oldest first.

    Only their reports are read, one after the other. One that cannot be read is left out;
    `unreadable_reports` names it.

    Raises:
        RunError: no such directory, or one that cannot be listed.
    """
    return oldest_first(
        RunSummary.of(path, report) for path, report in reports(directory) if isinstance(report, Report)
    )


def unreadable_reports(directory: str | Path) -> tuple[str, ...]:
    """Why the reports right below ``directory`` that cannot be read cannot, a sentence each.

    Raises: as `history`.
    """
    return tuple(str(report) for _, report in reports(directory) if isinstance(report, RunError))


def comparable_run(path: str | Path) -> RunReader:
    """A finished run with its table changes, which comparing begins with.

    Raises:
        RunError: no finished run, one that an older version of this program wrote, or without that table.
    """
    run = RunReader(path)
    files, base = run_files(str(path))
    if not is_file(files, f"{base}/{_CHANGES}"):
        raise RunUsageError(f"{path}: it has no {CHANGED}, so it cannot be compared; audit again")
    return run


@dataclass(frozen=True, slots=True)
class Previous:
    """The run that a new one is compared with, None where there is none; and what a reader should know."""

    run: RunSummary | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsBeside:
    """The finished runs of a cluster beside another run, the oldest first; and what a reader should know."""

    runs: tuple[RunSummary, ...]
    notes: tuple[str, ...]

    def newest(self, finished: int) -> Previous:
        """The newest that ended by ``finished``, ms, and can be compared with."""
        notes = list(self.notes)
        for run in reversed([run for run in self.runs if run.finished <= finished]):
            try:
                comparable_run(run.path)
            except RunError as error:
                notes.append(f"{NOT_COMPARED} with a run beside this one: {error}")
            else:
                return Previous(run, tuple(notes))
        return Previous(None, tuple(notes))


def runs_beside(out: str, cluster: Cluster) -> RunsBeside:
    """The finished runs beside ``out`` of the same cluster.

    What stands in the way of a comparison does not end an audit: a note says so.
    """
    if parent_of(out) is None:
        return RunsBeside((), (f"{NOT_COMPARED}: the run is at the top of a file system",))
    notes = []
    found = []
    try:
        for path, report in siblings(out, cluster):
            if isinstance(report, RunError):
                notes.append(f"{NOT_COMPARED} with a run beside this one: {report}")
            elif path != out:
                found.append(RunSummary.of(path, report))
    except RunError as error:
        return RunsBeside((), (f"{NOT_COMPARED} with any earlier run: {error}",))
    return RunsBeside(oldest_first(found), tuple(notes))
