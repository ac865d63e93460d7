"""``bkaudit prune``: removal of old runs by the retention rules of restic."""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from auditor.cli import completion
from auditor.cli.defaults import runs_directory
from auditor.cli.options import options_from_flags, runs_options
from auditor.cli.terminal import fold_width
from auditor.cli.verbosity import say
from auditor.errors import UsageError
from auditor.model.amounts import format_time, plural, size
from auditor.reports.plain_text import fold_text

_LOCK_PATTERN = ".bkaudit-*.lock"
_RUN_COUNT_TYPE = click.IntRange(0)


@click.command()
@click.argument("runs", metavar="[RUNS]", required=False, shell_complete=completion.paths)
@runs_options
@click.option("--keep-last", type=_RUN_COUNT_TYPE, default=0, metavar="N", help="Keep the newest N runs.")
@click.option(
    "--keep-daily",
    type=_RUN_COUNT_TYPE,
    default=0,
    metavar="N",
    help="Keep the newest run of each of N days.",
)
@click.option(
    "--keep-weekly",
    type=_RUN_COUNT_TYPE,
    default=0,
    metavar="N",
    help="Keep the newest run of each of N weeks.",
)
@click.option(
    "--keep-monthly",
    type=_RUN_COUNT_TYPE,
    default=0,
    metavar="N",
    help="Keep the newest run of each of N months.",
)
@click.option(
    "--suppressions",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help=(
        "A suppressions file whose baseline runs are kept. The suppressions file in --conf also "
        "counts. May be repeated."
    ),
)
@click.option("--yes", is_flag=True, help="Remove the runs. Without it, they are only listed.")
def prune(
    runs: str | None,
    cluster: str | None,
    conf: Path | None,
    keep_last: int,
    keep_daily: int,
    keep_weekly: int,
    keep_monthly: int,
    suppressions: tuple[str, ...],
    yes: bool,
) -> None:
    """List the finished runs in RUNS (by default ./runs) that the retention rules do not keep.

    With --yes, remove these runs and the lock files that no process holds.

    Some runs are never removed: the newest run and the newest complete run of each cluster, and the runs that
    suppressions name as baselines. The run that the option `since` in the file of options names is not
    removed either. Unfinished runs, damaged runs and other files stay too.
    """
    from auditor.runs.history import history
    from auditor.runs.newest import check_runs_directory
    from auditor.runs.siblings import RetentionRules, decide_retention, remove_run, run_bytes, runs_in_use

    runs = runs or runs_directory(cluster, conf)
    retention_rules = RetentionRules(keep_last, keep_daily, keep_weekly, keep_monthly)
    if retention_rules == RetentionRules():
        raise UsageError(
            "no retention rule was given. Pass --keep-last, --keep-daily, --keep-weekly or --keep-monthly"
        )
    if "://" not in runs:
        check_runs_directory(Path(runs))
    run_history = history(runs)
    run_history.require_runs()
    for reason in run_history.unreadable:
        click.echo(f"bkaudit: kept: {reason}", err=True)
    run_decisions = decide_retention(
        run_history.runs, retention_rules, runs_in_use(options_from_flags(conf, {}), suppressions, runs)
    )
    freed_bytes = 0
    for decision in run_decisions:
        run = decision.run
        reasons_text = f" ({', '.join(decision.reasons)})" if decision.reasons else ""
        decision_text = "keep" if reasons_text else "remove"
        _print_line(f"{decision_text:<9}  {format_time(run.finished)}  {run.name}{reasons_text}")
        if not reasons_text:
            freed_bytes += run_bytes(run.path)
            if yes:
                remove_run(run.path)
    lock_count = 0 if "://" in runs else _count_idle_locks(Path(runs), yes)
    removed_count = sum(not decision.reasons for decision in run_decisions)
    outcome_text = "removed" if yes else "would be removed. Pass --yes to remove them"
    run_text = f"{plural(removed_count, 'run')} of {len(run_decisions):,}, {size(freed_bytes)}"
    _print_line(f"{run_text}, and {plural(lock_count, 'lock')} {outcome_text}")


def _print_line(line: str) -> None:
    """Print a line, folded to the width of the terminal."""
    width = fold_width()
    click.echo(
        line if width is None else "\n".join(fold_text(line.replace("  ", "\0 "), width, later_indent="    "))
    )


def _count_idle_locks(runs_path: Path, is_removing: bool) -> int:
    """Return the number of lock files that no process holds. If ``is_removing`` is True, delete them.

    This function holds each lock while it deletes the lock's file.
    """
    idle_count = 0
    for file in sorted(runs_path.glob(_LOCK_PATTERN)):
        descriptor = os.open(file, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock_time = datetime.fromtimestamp(file.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            say(f"{file.name} has been locked since {lock_time}")
        else:
            idle_count += 1
            if is_removing:
                file.unlink()
        finally:
            os.close(descriptor)
    return idle_count
