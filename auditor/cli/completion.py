"""Shell completion of runs, checks, report forms, clusters and bookies.

A function returns the values that continue ``begun``, the word typed so far. It loads modules only when it is
called, that is at the first Tab.
"""

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Completions = list[str] | list[CompletionItem]


def runs(context: click.Context, parameter: click.Parameter, begun: str) -> Completions:
    """Return the finished runs (`run_names`). If none matches, complete directories."""
    return run_names(context, begun) or directories(context, parameter, begun)


def earlier_runs(context: click.Context, parameter: click.Parameter, begun: str) -> Completions:
    """Return the values of --since: finished runs and ``last``. If none matches, complete directories."""
    from auditor.model.options import LAST

    names = run_names(context, begun) + ([LAST] if LAST.startswith(begun) else [])
    return names or directories(context, parameter, begun)


def run_names(context: click.Context, begun: str) -> list[str]:
    """Return the finished runs in the directory of runs and in the directory that is typed so far.

    The directory of runs is the cluster's, or ./runs.
    """
    from auditor.cli.defaults import runs_directory
    from auditor.errors import UsageError

    try:
        cluster_runs = Path(runs_directory(context.params.get("cluster"), _conf(context)))
    except UsageError:
        return []
    above = Path(begun) if begun.endswith("/") else Path(begun or f"{cluster_runs}/").parent
    run_paths = {
        str(report.parent) for place in {above, cluster_runs} for report in place.glob("*/report.json")
    }
    return sorted(path for path in run_paths if path.startswith(begun))


def paths(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Let the shell complete files and directories."""
    return [CompletionItem(begun, type="file")]


def directories(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Let the shell complete directories."""
    return [CompletionItem(begun, type="dir")]


def checks(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the ids of checks."""
    from auditor.checks import BY_ID

    return sorted(id for id in BY_ID if id.startswith(begun))


def check_lists(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return completions of a list of check ids that are separated by commas. They complete the last id."""
    from auditor.checks import BY_ID

    before, comma, last = begun.rpartition(",")
    return sorted(f"{before}{comma}{id}" for id in BY_ID if id.startswith(last))


def forms(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the values of --format, the forms of a report."""
    from auditor.reports.forms import FORMS

    return sorted(form for form in FORMS if form.startswith(begun))


def bookies(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the ids of the bookies of a run: the run in the command line, or else the newest run."""
    from auditor.cli.defaults import newest_run, runs_directory
    from auditor.errors import AuditorError
    from auditor.runs.reader import RunReader

    try:
        run = context.params.get("run")
        run = run or newest_run(runs_directory(context.params.get("cluster"), _conf(context)))
        table = RunReader(run).table("bookies", ["bookie_id"])
    except AuditorError:
        return []
    return sorted(id for id in table["bookie_id"].to_pylist() if id.startswith(begun))


def policies(context: click.Context, parameter: click.Parameter, begun: str) -> Completions:
    """Return the values of --placement, names of policies. If none matches, complete files."""
    from auditor.model.placement import Policy

    return [str(policy) for policy in Policy if policy.startswith(begun)] or paths(context, parameter, begun)


def clusters(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the clusters in the file that --conf or BKAUDIT_CONF names."""
    from auditor.cli.defaults import cluster_names

    return [name for name in cluster_names(_conf(context)) if name.startswith(begun)]


def _conf(context: click.Context) -> Path | None:
    from auditor.cli.defaults import CONF

    conf = context.params.get("conf") or os.environ.get(CONF)
    return Path(conf) if conf else None
