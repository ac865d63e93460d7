"""Words that a shell completes: runs, checks, forms, bookies. Nothing is loaded before Tab asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[str] | list[CompletionItem]"]


def runs(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Directories of finished runs below ./runs, or below the directory whose name was begun."""
    above = Path(begun) if begun.endswith("/") else Path(begun or "runs/").parent
    places = {above, Path("runs")}
    found = {str(report.parent) for place in places for report in place.glob("*/report.json")}
    return sorted(each for each in found if each.startswith(begun))


def checks(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Ids of checks."""
    from auditor.checks import BY_ID

    return sorted(id for id in BY_ID if id.startswith(begun))


def forms(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Forms of a report."""
    from auditor.reports.forms import FORMS

    return sorted(form for form in FORMS if form.startswith(begun))


def bookies(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Ids of the bookies of the run that the command names, or of the newest in ./runs."""
    from auditor.cli.defaults import newest_run
    from auditor.errors import AuditorError
    from auditor.runs.reader import RunReader

    try:
        table = RunReader(context.params.get("run") or newest_run()).table("bookies", ["bookie_id"])
    except AuditorError:
        return []
    return sorted(id for id in table["bookie_id"].to_pylist() if id.startswith(begun))


def clusters(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Clusters of the file that --conf or BKAUDIT_CONF names."""
    from auditor.cli.defaults import CONF, cluster_names

    conf = context.params.get("conf") or os.environ.get(CONF)
    return [name for name in cluster_names(Path(conf) if conf else None) if name.startswith(begun)]
