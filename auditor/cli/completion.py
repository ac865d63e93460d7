"""Shell completion of runs, checks, report forms, clusters and bookies.

Each function returns the values that begin with ``word_start``, the word that the user has typed so far.
Other modules are imported only inside the functions, that is, after the user has pressed Tab.
"""

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Completions = list[str] | list[CompletionItem]


def runs(context: click.Context, parameter: click.Parameter, word_start: str) -> Completions:
    """Return the matching finished runs (`run_names`). If there are none, complete directories."""
    return run_names(context, word_start) or directories(context, parameter, word_start)


def earlier_runs(context: click.Context, parameter: click.Parameter, word_start: str) -> Completions:
    """Return the matching values of --since, which are finished runs and ``last``.

    If there are none, complete directories.
    """
    from auditor.model.options import LAST_RUN

    completed_names = run_names(context, word_start) + ([LAST_RUN] if LAST_RUN.startswith(word_start) else [])
    return completed_names or directories(context, parameter, word_start)


def run_names(context: click.Context, word_start: str) -> list[str]:
    """Return the paths of finished runs that begin with ``word_start``.

    Two directories are searched: the directory of runs, and the directory in ``word_start``. The directory
    of runs is the cluster's, or else $BKAUDIT_RUNS, or else ./runs.
    """
    from auditor.cli.defaults import runs_directory
    from auditor.errors import UsageError

    try:
        cluster_runs = Path(runs_directory(context.params.get("cluster"), _conf_of_context(context)))
    except UsageError:
        return []
    typed_directory = (
        Path(word_start) if word_start.endswith("/") else Path(word_start or f"{cluster_runs}/").parent
    )
    run_paths = {
        str(report.parent)
        for directory in {typed_directory, cluster_runs}
        for report in directory.glob("*/report.json")
    }
    return sorted(run_path for run_path in run_paths if run_path.startswith(word_start))


def paths(_: click.Context, __: click.Parameter, word_start: str) -> list[CompletionItem]:
    """Let the shell complete files and directories."""
    return [CompletionItem(word_start, type="file")]


def directories(_: click.Context, __: click.Parameter, word_start: str) -> list[CompletionItem]:
    """Let the shell complete directories."""
    return [CompletionItem(word_start, type="dir")]


def checks(_: click.Context, __: click.Parameter, word_start: str) -> list[str]:
    """Return the ids of checks."""
    from auditor.checks import CHECK_BY_ID

    return sorted(check_id for check_id in CHECK_BY_ID if check_id.startswith(word_start))


def check_lists(_: click.Context, __: click.Parameter, word_start: str) -> list[str]:
    """Return completions of the last id in a comma-separated list of check ids."""
    from auditor.checks import CHECK_BY_ID

    earlier_ids, comma, last_id = word_start.rpartition(",")
    return sorted(
        f"{earlier_ids}{comma}{check_id}" for check_id in CHECK_BY_ID if check_id.startswith(last_id)
    )


def forms(_: click.Context, __: click.Parameter, word_start: str) -> list[str]:
    """Return the report forms, which are the values of --format."""
    from auditor.reports.forms import FORMS

    return sorted(form for form in FORMS if form.startswith(word_start))


def bookies(context: click.Context, _: click.Parameter, word_start: str) -> list[str]:
    """Return the bookie ids of the run that the command line names, or else of the newest run."""
    from auditor.cli.defaults import newest_run, runs_directory
    from auditor.errors import AuditorError
    from auditor.runs.reader import RunReader

    try:
        run = context.params.get("run")
        run = run or newest_run(runs_directory(context.params.get("cluster"), _conf_of_context(context)))
        bookie_table = RunReader(run).table("bookies", ["bookie_id"])
    except AuditorError:
        return []
    return sorted(
        bookie_id for bookie_id in bookie_table["bookie_id"].to_pylist() if bookie_id.startswith(word_start)
    )


def policies(context: click.Context, parameter: click.Parameter, word_start: str) -> Completions:
    """Return the placement policies, which are values of --placement. If none matches, complete files."""
    from auditor.model.placement import Policy

    return [str(policy) for policy in Policy if policy.startswith(word_start)] or paths(
        context, parameter, word_start
    )


def clusters(context: click.Context, _: click.Parameter, word_start: str) -> list[str]:
    """Return the clusters in the file that --conf or BKAUDIT_CONF names."""
    from auditor.cli.defaults import cluster_names

    return [name for name in cluster_names(_conf_of_context(context)) if name.startswith(word_start)]


def _conf_of_context(context: click.Context) -> Path | None:
    from auditor.cli.defaults import CONF_VARIABLE

    conf = context.params.get("conf") or os.environ.get(CONF_VARIABLE)
    return Path(conf) if conf else None
