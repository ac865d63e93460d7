"""``bkaudit history``, ``status`` and ``diff``.

They show all runs, the newest run, and the difference between two runs.
"""

from pathlib import Path

import click

from auditor.cli import completion
from auditor.cli.defaults import runs_directory
from auditor.cli.options import format_option, runs_options
from auditor.cli.terminal import fold_width, page_width
from auditor.errors import RunError, RunUsageError
from auditor.model.report import EXIT_NOT_COVERED, Report, exit_code
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.reports.history import status_line
from auditor.runs.directory import RunDirectory, damage_error, data_time_of, fail_on_of
from auditor.runs.newest import newest_report
from auditor.sources.clock import now_ms
from auditor.sources.regular_file import read_regular


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, shell_complete=completion.paths)
@runs_options
@format_option("text", "json", "csv")
def history(directory: str | None, cluster: str | None, conf: Path | None, form: str) -> None:
    """List the finished runs in DIR (by default ./runs), oldest first, with their findings and changes."""
    from auditor.reports import history as report
    from auditor.runs import history as of_runs
    from auditor.runs.newest import check_runs_directory

    directory = directory or runs_directory(cluster, conf)
    if "://" not in directory:
        check_runs_directory(Path(directory))
    run_history = of_runs.history(directory)
    run_history.require_runs()
    for unreadable_reason in run_history.unreadable:
        click.echo(f"bkaudit: left out: {unreadable_reason}", err=True)
    if not run_history.runs and form == "text":
        click.echo(
            f"no finished run is in {directory}. To create one, run: bkaudit audit --out {directory}/NAME"
        )
        return
    if form == "text":
        click.echo(report.text(run_history.runs, fold_width()))
    else:
        click.echo({"json": report.to_json, "csv": report.to_csv}[form](run_history.runs))


_HOUR_MS = 3_600_000


@click.command()
@click.argument("runs", metavar="[RUNS]", required=False, shell_complete=completion.runs)
@runs_options
@click.option(
    "--max-age",
    type=click.FloatRange(0),
    metavar="HOURS",
    help="Exit with 3 in place of 0 if the run's oldest data is older than this, or in the future.",
)
def status(runs: str | None, cluster: str | None, conf: Path | None, max_age: float | None) -> None:
    """Print one line on the result of the newest run in RUNS (by default ./runs), or of the run RUNS itself.

    The exit code is the one with which the audit of the run ended, with the --fail-on of that audit. If this
    code is 0, but the run's oldest data is older than --max-age or in the future, the exit code is 3. It is 2
    if there is no run.
    """
    report_file = newest_report(runs or runs_directory(cluster, conf))
    try:
        report = Report.from_json(read_regular(report_file))
    except OSError as error:
        raise damage_error(str(report_file), error.strerror or error) from error
    except RunUsageError as error:
        raise RunUsageError(f"{report_file}: {error}") from error
    except RunError as error:
        raise damage_error(str(report_file), error) from error
    current_time_ms, run = now_ms(), report_file.parent
    data_time = data_time_of(report, str(run), lambda name: read_regular(run / name))
    status_code = exit_code(report, *fail_on_of(str(run), lambda name: read_regular(run / name)))
    click.echo(status_line(report, str(run), current_time_ms, data_time))
    is_ahead_of_clock = max(data_time, report.run.scan_time) - current_time_ms > MAX_CLOCK_AHEAD_MS
    if (
        status_code == 0
        and max_age is not None
        and (is_ahead_of_clock or current_time_ms - data_time > max_age * _HOUR_MS)
    ):
        status_code = EXIT_NOT_COVERED
    raise click.exceptions.Exit(status_code)


@click.command()
@click.argument("old", shell_complete=completion.runs)
@click.argument("new", shell_complete=completion.runs)
@format_option("text", "json", "jsonl", "markdown")
def diff(old: str, new: str, form: str) -> None:
    """List what is new, worse, better or fixed in the finished run NEW, compared with the run OLD.

    Findings that NEW did not check again do not count as fixed, and are listed separately. The form jsonl
    has every changed finding, one on each line.
    """
    from auditor.reports import diff as report
    from auditor.runs.damage import require_tables, translate_damage
    from auditor.runs.history import RunDifference

    with translate_damage(old, new):
        for run in (old, new):
            require_tables(RunDirectory(run), ("bookies", "verdicts"))
        difference = RunDifference(old, new)
        if form == "jsonl":
            for line in report.jsonl(difference.changes()):
                click.echo(line)
            for warning in difference.summary.warnings:
                click.echo(f"bkaudit: {warning}", err=True)
            return
        sampled_changes = report.sample_changes(difference.changes())
        if form == "text":
            click.echo(report.text(difference.summary, sampled_changes, page_width()))
        else:
            render_difference = {"json": report.to_json, "markdown": report.markdown}[form]
            click.echo(render_difference(difference.summary, sampled_changes))
