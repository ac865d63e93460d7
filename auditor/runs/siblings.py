"""The finished runs of a directory, and those that are siblings: of one cluster, in one directory. No Spark.

A run that is being written, or was given up, has no report.json yet: it is no part of any history.
Directories may lie on any file system that pyarrow knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from auditor.errors import RunError, RunUsageError
from auditor.model.history import OfCluster, RunSummary, cluster_key
from auditor.model.report import Report
from auditor.model.run_facts import REPORT
from auditor.runs.reader import RunReader
from auditor.sources.file_systems import child_of, parent_of, run_files


def same_cluster(one: OfCluster, other: OfCluster) -> bool:
    """Whether both have the same instance id; where neither has one, the same metadata URI."""
    return cluster_key(one) == cluster_key(other)


def siblings(path: str, cluster: OfCluster) -> Iterator[tuple[str, Report | RunError]]:
    """Every finished run of ``cluster`` in the directory that the run at ``path`` lies in, itself included.

    They come by name, each with its path and its report. Of a report that cannot be read nobody knows the
    cluster: it comes with the reason. A run at the top of a file system has none.

    Raises: as `reports`.
    """
    parent = parent_of(path)
    for each, report in () if parent is None else reports(parent):
        if isinstance(report, RunError) or same_cluster(report.cluster, cluster):
            yield each, report


def sibling_runs(path: str, cluster: OfCluster) -> tuple[RunSummary, ...]:
    """Those of `siblings` whose report can be read, the oldest first.

    Raises: as `reports`.
    """
    return oldest_first(
        RunSummary.of(each, report) for each, report in siblings(path, cluster) if isinstance(report, Report)
    )


def reports(directory: str | Path) -> Iterator[tuple[str, Report | RunError]]:
    """Every finished run right below a directory by path, and its report, or why that cannot be read.

    Raises:
        RunError: no such directory, or one that cannot be listed.
    """
    for path in finished_runs(directory):
        try:
            yield path, RunReader(path).report
        except RunError as error:
            yield path, error


def finished_runs(directory: str | Path) -> list[str]:
    """The directories right below ``directory`` that have a report, by name.

    Raises: as `reports`.
    """
    return directories_with(REPORT, directory)


def directories_with(file: str, directory: str | Path, missing: bool = False) -> list[str]:
    """The directories right below ``directory`` that have ``file``, by name.

    None where there is no directory, if it may be ``missing``.

    Raises: as `reports`.
    """
    import pyarrow as pa
    from pyarrow import fs

    files, base = run_files(str(directory))
    found = []
    try:
        for info in files.get_file_info(fs.FileSelector(base, allow_not_found=missing)):
            if info.type == fs.FileType.Directory and is_file(files, f"{info.path}/{file}"):
                found.append(child_of(directory, info.base_name))
    except (OSError, pa.ArrowException) as error:
        raise RunUsageError(f"{directory}: {error}") from error
    return sorted(found)


def oldest_first(runs: Iterable[RunSummary]) -> tuple[RunSummary, ...]:
    """Runs by the time at which they were finished."""
    return tuple(sorted(runs, key=lambda run: (run.finished, run.path)))


def is_file(files: Any, path: str) -> bool:
    """Whether there is a file, in a directory that may be somebody else's."""
    from pyarrow import fs

    try:
        return bool(files.get_file_info(path).type == fs.FileType.File)
    except PermissionError:
        return False


def last_complete(path: str, report: Report) -> int | None:
    """When the newest complete run of the same cluster was done, of the run at ``path`` and those beside it.

    Milliseconds since 1970; None where none of them is complete. Later runs do not count.

    Raises:
        RunError: the directory that the run lies in cannot be listed.
    """
    if report.complete:
        return report.run.finished
    return max((run.finished for run in runs_before(path, report) if run.complete), default=None)


def runs_before(path: str, report: Report) -> list[RunSummary]:
    """The runs of the same cluster beside the run at ``path`` that were done before it, the oldest first.

    Raises: as `last_complete`.
    """
    mine = RunSummary.of(path, report)
    beside = sibling_runs(path, report.cluster)
    return [run for run in beside if run.name != mine.name and run.finished <= mine.finished]
