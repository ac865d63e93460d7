"""The finished runs of a directory, and the one that a new run is compared with. No Spark.

A run that is being written, or was given up, has no report.json yet: it is no part of any history.
Directories may lie on any file system that pyarrow knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.errors import RunError
from auditor.model.history import RunSummary
from auditor.model.report import Cluster, Report
from auditor.run_files import REPORT, run_files
from auditor.runs import Run, open_run
from auditor.tables.changes import CHANGED

_CHANGES = f"{CHANGED}/_SUCCESS"


def history(directory: str | Path) -> tuple[RunSummary, ...]:
    """The finished runs right below ``directory``, a path or a URI, the oldest first.

    Only their reports are read, one after the other. One that cannot be read is left out: `refused` names it.

    Raises:
        RunError: no such directory, or one that cannot be listed.
    """
    return _oldest_first(
        RunSummary.of(path, report) for path, report in reports(directory) if isinstance(report, Report)
    )


def refused(directory: str | Path) -> tuple[str, ...]:
    """Why the reports right below ``directory`` that cannot be read cannot, a sentence each.

    Raises: as `history`.
    """
    return tuple(str(report) for _, report in reports(directory) if isinstance(report, RunError))


def reports(directory: str | Path) -> Iterator[tuple[str, Report | RunError]]:
    """Every finished run right below a directory by path, and its report, or why that cannot be read.

    Raises: as `history`.
    """
    for path in finished_runs(directory):
        try:
            yield path, open_run(path).report
        except RunError as error:
            yield path, error


def finished_runs(directory: str | Path) -> list[str]:
    """The directories right below ``directory`` that have a report, by name.

    Raises: as `history`.
    """
    import pyarrow as pa
    from pyarrow import fs

    where = str(directory).rstrip("/") or "/"
    files, base = run_files(where)
    found = []
    try:
        for info in files.get_file_info(fs.FileSelector(base)):
            if info.type == fs.FileType.Directory and _is_file(files, f"{info.path}/{REPORT}"):
                found.append(f"{where.rstrip('/')}/{info.base_name}")
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{directory}: {error}") from error
    return sorted(found)


def comparable_run(path: str | Path) -> Run:
    """A finished run with its table changes, which comparing begins with.

    Raises:
        RunError: no finished run, one that an older version of this program wrote, or without that table.
    """
    run = open_run(path)
    files, base = run_files(str(path))
    if not _is_file(files, f"{base}/{_CHANGES}"):
        raise RunError(f"{path}: it has no {CHANGED}, so it cannot be compared; audit again")
    return run


@dataclass(frozen=True, slots=True)
class Previous:
    """The run that a new one is compared with, None where there is none; and what a reader should know."""

    run: RunSummary | None
    notes: tuple[str, ...]


def previous_run(out: str, cluster: Cluster, finished: int) -> Previous:
    """The newest finished run beside ``out`` of the same cluster that ended before ``finished``, ms.

    The same cluster is one with the same instance id; where it has none, with the same metadata URI.
    What stands in the way of a comparison does not end an audit: a note says so.
    """
    parent, _, _ = out.rstrip("/").rpartition("/")
    if parent.endswith(":/"):
        return Previous(None, ("a run at the top of a file system is compared with none",))
    notes = []
    candidates = []
    try:
        for path, report in reports(parent or "/"):
            if isinstance(report, RunError):
                notes.append(f"not compared with a run beside this one: {report}")
            elif path != out and report.run["finished"] <= finished and same_cluster(report.cluster, cluster):
                candidates.append(RunSummary.of(path, report))
    except RunError as error:
        return Previous(None, (f"compared with no earlier run: {error}",))
    for run in reversed(_oldest_first(candidates)):
        try:
            comparable_run(run.path)
        except RunError as error:
            notes.append(f"not compared with a run beside this one: {error}")
        else:
            return Previous(run, tuple(notes))
    return Previous(None, tuple(notes))


def _oldest_first(runs: Iterable[RunSummary]) -> tuple[RunSummary, ...]:
    return tuple(sorted(runs, key=lambda run: (run.finished, run.path)))


def same_cluster(one: Cluster, other: Cluster) -> bool:
    """Whether both have the same instance id; where neither has one, the same metadata URI."""
    if one.instance_id is None and other.instance_id is None:
        return one.metadata_uri == other.metadata_uri
    return one.instance_id == other.instance_id


def _is_file(files: Any, path: str) -> bool:
    """Whether there is a file, in a directory that may be somebody else's."""
    from pyarrow import fs

    try:
        return bool(files.get_file_info(path).type == fs.FileType.File)
    except PermissionError:
        return False
