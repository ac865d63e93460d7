"""The finished runs of one cluster in a directory, and the decision which of them to keep. No Spark is used.

A run without report.json is unfinished or abandoned, and belongs to no history. Directories may be on any
file system that pyarrow supports. The retention options are those of restic:

    keep_last 3       keep the three newest runs
    keep_daily 7      keep the newest run of each day, for the last seven days that have a run
    keep_weekly 4     likewise for the last four weeks that have a run
    keep_monthly 6    likewise for the last six months that have a run

Some runs are always kept: the newest run and the newest complete run of each cluster, the run that --since
names, and baselines of suppressions. A baseline is a run whose findings a suppression accepts. Days and weeks
are in UTC.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath

from auditor.errors import RunError
from auditor.findings.suppress import read_suppressions
from auditor.model.arrow import fs
from auditor.model.history import ClusterIdentity, RunSummary, cluster_key
from auditor.model.options import LAST_RUN, AuditOptions
from auditor.model.report import Report
from auditor.model.run_facts import REPORT
from auditor.runs.run_index import run_summaries
from auditor.sources.file_systems import child_of, parent_of, run_files


def are_same_cluster(first_run: ClusterIdentity, second_run: ClusterIdentity) -> bool:
    """Return whether two runs have the same instance id or, if neither has one, the same metadata URI."""
    return cluster_key(first_run) == cluster_key(second_run)


def find_siblings(
    path: str, cluster: ClusterIdentity, renew_index: bool = False
) -> Iterator[tuple[str, RunSummary | RunError]]:
    """Yield the path and summary of each finished run of ``cluster`` in the directory of the run at ``path``.

    Runs are in the order of their names, and include the run itself. An unreadable report may belong to any
    cluster. Its run is therefore included, with the error in place of the summary. A run in the root of a
    file system has no siblings.

    Args:
        path: A run, whose directory is searched.
        cluster: The cluster whose runs are returned.
        renew_index: Whether to update the index of runs (`run_summaries`).

    Raises:
        RunError: the directory cannot be listed.
    """
    directory_path = parent_of(path)
    for run, summary in () if directory_path is None else run_summaries(directory_path, renew_index):
        if isinstance(summary, RunError) or are_same_cluster(summary, cluster):
            yield run, summary


def summarize_siblings(path: str, cluster: ClusterIdentity) -> tuple[RunSummary, ...]:
    """Return the summaries of the sibling runs with a readable report, the oldest run first.

    Raises:
        RunError: the directory cannot be listed.
    """
    return sort_by_finish(
        summary for _, summary in find_siblings(path, cluster) if isinstance(summary, RunSummary)
    )


def sort_by_finish(runs: Iterable[RunSummary]) -> tuple[RunSummary, ...]:
    """Return the runs sorted by their finish time."""
    return tuple(sorted(runs, key=lambda run: (run.finished, run.path)))


def find_last_complete(path: str, report: Report) -> int | None:
    """Return the end of the newest complete run up to the run at ``path``, in ms since 1970.

    This may be the run itself. None if no such run is complete. Only runs of the same cluster count.

    Raises:
        RunError: the directory of the run cannot be listed.
    """
    if report.complete:
        return report.run.finished
    return max((run.finished for run in runs_before(path, report) if run.complete), default=None)


def runs_before(path: str, report: Report) -> list[RunSummary]:
    """Return the runs of the same cluster that finished before the run at ``path``, the oldest first.

    Raises:
        RunError: the directory of the run cannot be listed.
    """
    own_summary = RunSummary.from_report(path, report)
    summaries = summarize_siblings(path, report.cluster)
    return [run for run in summaries if run.name != own_summary.name and run.finished <= own_summary.finished]


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Number of runs to keep by each retention rule. 0 switches a rule off."""

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """A run with the reasons to keep it. A run without a reason may be removed."""

    run: RunSummary
    reasons: tuple[str, ...]


_PERIOD_FORMATS: tuple[tuple[str, str], ...] = (
    ("daily", "%Y-%m-%d"),
    ("weekly", "%G-W%V"),
    ("monthly", "%Y-%m"),
)


def decide_retention(
    runs: Iterable[RunSummary], retention_rules: RetentionRules, uses_by_run: Mapping[str, str] | None = None
) -> list[RetentionDecision]:
    """Return whether to keep each run, and why, the oldest run first.

    The rules apply to each cluster separately.

    Args:
        runs: The runs.
        retention_rules: The retention rules.
        uses_by_run: Reasons to keep certain runs, by the path of the run (`runs_in_use`). None: there are
            no such runs.
    """
    sorted_runs = sort_by_finish(runs)
    reasons_by_path: dict[str, list[str]] = {run.path: [] for run in sorted_runs}
    for cluster_runs_key in dict.fromkeys(map(cluster_key, sorted_runs)):
        newest_first = [run for run in reversed(sorted_runs) if cluster_key(run) == cluster_runs_key]
        _add_rule_reasons(newest_first, retention_rules, reasons_by_path)
    for run in sorted_runs:
        if uses_by_run and run.path in uses_by_run:
            reasons_by_path[run.path].append(uses_by_run[run.path])
    return [RetentionDecision(run, tuple(reasons_by_path[run.path])) for run in sorted_runs]


def _add_rule_reasons(
    newest_first: Sequence[RunSummary], retention_rules: RetentionRules, reasons: dict[str, list[str]]
) -> None:
    for run in newest_first[: max(1, retention_rules.last)]:
        reasons[run.path].append("last" if retention_rules.last else "the newest")
    for run in [run for run in newest_first if run.complete][:1]:
        reasons[run.path].append("the newest complete run")
    for rule_name, period_format in _PERIOD_FORMATS:
        kept_periods: set[str] = set()
        for run in newest_first:
            run_period = datetime.fromtimestamp(run.finished / 1000, UTC).strftime(period_format)
            if run_period not in kept_periods and len(kept_periods) < getattr(retention_rules, rule_name):
                kept_periods.add(run_period)
                reasons[run.path].append(rule_name)


def runs_in_use(options: AuditOptions, files: Iterable[str], directory: str) -> dict[str, str]:
    """Return the paths of the runs of ``directory`` that must not be removed, each with the reason.

    They are the run whose data ``options.since`` reuses, and the baselines of suppressions. A baseline is a
    run whose findings a suppression accepts. Baselines of expired suppressions are included.

    Args:
        options: Options of the audits, with a file of suppressions.
        files: Further files of suppressions.
        directory: The directory of runs.
    """
    suppression_files = () if options.suppressions is None else (options.suppressions,)
    uses_by_path = {} if options.since == LAST_RUN else {options.since: "the option since names this run"}
    for file in (*files, *suppression_files):
        for suppression in read_suppressions(Path(file).absolute()):
            uses_by_path[suppression.baseline] = "the baseline of a suppression"
    parent_location = _absolute_location(directory)
    reasons_by_location = {
        _absolute_location(run): use_reason
        for run, use_reason in uses_by_path.items()
        if run and _is_local(run) == _is_local(directory)
    }
    return {
        child_of(directory, path.name): use_reason
        for (file_system_type, path), use_reason in reasons_by_location.items()
        if (file_system_type, path.parent) == parent_location
    }


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def _absolute_location(path: str) -> tuple[str, PurePath]:
    """Return the type of the file system of ``path``, and the canonical path in that file system."""
    files, base_path = run_files(path)
    return files.type_name, Path(base_path).resolve() if _is_local(path) else PurePath(base_path)


def run_bytes(path: str) -> int:
    """Return the total size of the files of a run, in bytes."""
    files, base_path = run_files(path)
    return sum(
        file_info.size or 0 for file_info in files.get_file_info(fs.FileSelector(base_path, recursive=True))
    )


def remove_run(path: str) -> None:
    """Delete a finished run.

    Its report is deleted first, so that an interrupted deletion leaves no run that looks finished.
    """
    files, base_path = run_files(path)
    files.delete_file(f"{base_path}/{REPORT}")
    files.delete_dir(base_path)
