"""``bkaudit plan``: makes a repair plan from a finished run, shows a plan, and checks its conditions."""

import shlex
from pathlib import Path

import click

from auditor.cli import completion
from auditor.cli.defaults import defaults
from auditor.cli.options import (
    conf_option,
    credentials_option,
    format_option,
    options_from_flags,
    pass_run_path,
    run_argument,
    source_options,
)
from auditor.cli.terminal import page_width, show_text
from auditor.cli.verbosity import say
from auditor.errors import UsageError
from auditor.model.plan import RepairPlan


class _PlanGroup(click.Group):
    """Group that calls the subcommand ``make`` if the first word is not a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["make", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_PlanGroup)
def plan() -> None:
    """Plan the repair of a run's findings. bkaudit never applies a plan.

    `bkaudit plan RUN` is short for `bkaudit plan make RUN`.
    """


@plan.command()
@run_argument
@pass_run_path("bookies", "cookies", "ledgers", "marks", "verdicts")
@click.option(
    "--out",
    metavar="PLAN.toml",
    shell_complete=completion.paths,
    help="File for the plan; long ledger lists go to files beside it. Without it, the plan is only shown.",
)
@format_option("text", "markdown", "json")
def make(run: str, out: str | None, form: str) -> None:
    """Plan the repair of RUN's findings, as steps in order, each with its commands and conditions.

    A step is refused if one of the run's holds (rules that forbid actions) forbids it. If the run's data is
    more than 24 hours old, every dangerous step is refused.

    By default, RUN is the newest run. `bkaudit plan RUN` does the same. The command does not contact the
    cluster, and applies nothing.
    """
    from auditor.plan.plan_file import make_plan, write_plan
    from auditor.runs.reader import RunReader

    if out is not None and Path(out).exists():
        raise UsageError(f"--out {out}: already exists. Choose another file")
    repair_plan = make_plan(RunReader(run))
    if out is not None:
        for file in write_plan(repair_plan, out):
            say(f"wrote {file}")
    _show_plan(repair_plan, form)
    if out is None:
        say("no file was written; add --out PLAN.toml to write the plan to a file")
    else:
        run_option = "" if _is_running_store(repair_plan.metadata_uri) else " --run NEWER"
        say(f"before each step, run: bkaudit plan check {shlex.quote(out)}{run_option}")


@plan.command()
@click.argument("file", metavar="PLAN.toml", shell_complete=completion.paths)
@format_option("text", "markdown", "json")
def show(file: str, form: str) -> None:
    """Show a plan as text for a terminal, as Markdown for a ticket, or as JSON.

    A plan expires 24 hours after the scan that it is based on. The page of an expired plan begins with a
    warning.
    """
    from auditor.plan.plan_file import read_plan

    _show_plan(read_plan(file), form)


@plan.command()
@click.argument("file", metavar="PLAN.toml", shell_complete=completion.paths)
@click.option(
    "--run",
    metavar="NEWER",
    shell_complete=completion.runs,
    help="A finished run that is newer than the plan's.",
)
@source_options
@conf_option
@credentials_option
@format_option("text", "markdown", "json")
def check(
    file: str,
    run: str | None,
    metadata: str | None,
    cluster: str | None,
    conf: Path | None,
    credentials: str | None,
    form: str,
) -> None:
    """Check every condition of a plan in a newer run (--run) or in the metadata store (--metadata).

    Without either option, the command asks the store that --cluster or BKAUDIT_METADATA names, or else the
    store that the plan's run read. A store does not know which entries bookies hold. Conditions on these
    entries therefore stay unknown.

    Exit codes: 0 every step is still true or done; 1 a step is no longer true; 2 wrong usage; 3 a condition
    is unknown; 4 the store cannot be reached.
    """
    from auditor.plan.answers import read_run_state, read_store_state
    from auditor.plan.plan_file import read_plan
    from auditor.plan.step_checks import check_plan, planned_ledger_ids
    from auditor.reports import plan as report
    from auditor.runs.damage import check_run
    from auditor.sources.clock import now_ms
    from auditor.sources.metadata.stores import store_options

    repair_plan = read_plan(file)
    if run is not None and metadata is not None:
        raise UsageError("--run and --metadata: pass only one of them")
    if run is not None:
        with check_run(run, "bookies", "cluster", "cookies", "ledgers", "verdicts"):
            store_facts = read_run_state(run, planned_ledger_ids(repair_plan), repair_plan.scan_time)
    else:
        store_uri = defaults(metadata, (), cluster, conf).metadata
        if not store_uri and not _is_running_store(repair_plan.metadata_uri):
            raise UsageError(
                f"{repair_plan.metadata_uri}: a saved store does not have the current state. "
                "Pass --run NEWER or --metadata URI"
            )
        store_uri = store_uri or repair_plan.metadata_uri
        options = store_options(options_from_flags(conf, {"credentials": credentials}))
        store_facts = read_store_state(store_uri, planned_ledger_ids(repair_plan), options)
    plan_check = check_plan(repair_plan, store_facts, now_ms())
    if form == "text":
        click.echo(report.check_text(plan_check, page_width()))
    else:
        click.echo({"markdown": report.check_markdown, "json": report.check_json}[form](plan_check))
    raise click.exceptions.Exit(plan_check.exit_code)


def _is_running_store(store_uri: str) -> bool:
    """Return whether a URI names a running store, which has the current state, rather than a snapshot."""
    from auditor.sources.metadata.uri import parse_metadata_uri

    return bool(parse_metadata_uri(store_uri).hosts)


def _show_plan(repair_plan: RepairPlan, form: str) -> None:
    from auditor.reports import plan as report
    from auditor.sources.clock import now_ms

    if form == "text":
        show_text(report.plan_text(repair_plan, now_ms(), page_width()))
    else:
        show_text({"markdown": report.plan_markdown, "json": report.plan_json}[form](repair_plan, now_ms()))
