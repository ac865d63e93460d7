"""``bkaudit report`` and ``space``: the report of a finished run, and the contents of its entry logs."""

from datetime import UTC, datetime
from functools import partial

import click

from auditor.cli import completion
from auditor.cli.options import format_option, named_ledgers, pass_run_path, run_argument
from auditor.cli.output import SEVERITIES, Output, TextChoice, flat_option, outputs, outputs_option, show
from auditor.cli.terminal import fold_width
from auditor.errors import UsageError
from auditor.model.report_source import OWNER_LEVELS, OwnerLevel
from auditor.model.space import SPACE_GROUPINGS, SpaceGrouping
from auditor.reports.forms import FORMS
from auditor.runs.directory import RunDirectory
from auditor.runs.selection import SelectedRun, Selection, require_known

LISTING_FORMS = ("text", "jsonl", "csv", "parquet")
"""Forms that can show a selection of findings. Other forms always show the whole run."""

MESSAGE_FORMS = ("plain", "slack")
"""Forms for a message to the person on call. --since-last requires one of these forms."""

CHANGE_WORDS = ("new", "worse", "better", "same")


@click.command()
@run_argument
@pass_run_path("bookies", "verdicts")
@outputs_option
@click.option(
    "--since-last",
    is_flag=True,
    help="Print a message with the new, worse and fixed findings since the last complete run.",
)
@click.option(
    "--by",
    type=click.Choice(OWNER_LEVELS),
    help="Show totals of ledgers, bytes, leaks and findings by owner.",
)
@click.option(
    "--leaks", is_flag=True, help="List the ledgers without an owner; those to check first are at the top."
)
@click.option(
    "--accept",
    metavar="FINGERPRINT",
    help="Print an entry for a suppressions file that accepts this finding.",
)
@click.option(
    "--all", "all_findings", is_flag=True, help="Print every finding, not only samples for each check."
)
@click.option(
    "--severity", multiple=True, type=click.Choice(SEVERITIES), help="Print only findings of this severity."
)
@click.option(
    "--check",
    shell_complete=completion.checks,
    multiple=True,
    metavar="ID",
    help="Print only findings of this check; * and ? are wildcards.",
)
@click.option(
    "--bookie",
    shell_complete=completion.bookies,
    multiple=True,
    metavar="ID",
    help="Print only findings about this bookie; * and ? are wildcards.",
)
@click.option(
    "--ledger",
    multiple=True,
    metavar="ID",
    help=("Print only findings about this ledger: an id, or 32 hex digits."),
)
@click.option(
    "--topic",
    multiple=True,
    metavar="NAME",
    help="Print only findings about ledgers of this topic; * and ? are wildcards.",
)
@click.option(
    "--change",
    multiple=True,
    type=click.Choice(CHANGE_WORDS),
    help="Print only findings with this change since the previous run.",
)
@flat_option
@click.option(
    "--show-suppressed",
    is_flag=True,
    help=("For text: also print suppressed findings. Without it, they are only counted."),
)
def report(
    run: str,
    forms: tuple[str, ...],
    since_last: bool,
    by: OwnerLevel | None,
    leaks: bool,
    accept: str | None,
    all_findings: bool,
    severity: tuple[str, ...],
    check: tuple[str, ...],
    bookie: tuple[str, ...],
    ledger: tuple[str, ...],
    topic: tuple[str, ...],
    change: tuple[str, ...],
    flat: bool,
    show_suppressed: bool,
) -> None:
    """Show the report of the finished run RUN in any form. By default, RUN is the newest run.

    At a terminal, the form text is one screen. With --all or a selection, the findings are printed before
    this screen. In a pipe, samples of the findings are printed before it, one on each line. The forms
    jsonl, csv, html, sarif and parquet have every finding.

    If an option that selects findings is repeated, a finding must match one of its values. It must also
    match every other such option. --since-last requires the form plain or slack.
    """
    forms = forms or (MESSAGE_FORMS[:1] if since_last else ())
    if since_last and not {form.partition("=")[0] for form in forms} <= {*MESSAGE_FORMS}:
        raise UsageError(f"--since-last: requires --format {' or '.join(MESSAGE_FORMS)}")
    if by is not None:
        if forms:
            raise UsageError("--by: prints its own table. Omit --format")
        from auditor.reports import owners
        from auditor.runs.owners import OwnerTotals
        from auditor.runs.reader import RunReader

        click.echo(owners.totals_text(OwnerTotals(RunReader(run)).totals_of(by), by, fold_width()))
        return
    if leaks:
        _print_leaks(run, forms)
        return
    if accept is not None:
        _print_acceptance(run, accept)
        return
    from auditor.notebook.run import open_run
    from auditor.runs.damage import require_whole_findings

    report_outputs = outputs(forms, run)
    if all_findings:
        _require_complete_forms(report_outputs)
    selection = Selection(severity, check, bookie, named_ledgers(ledger), topic, change)
    run_view = open_run(run)
    require_whole_findings(RunDirectory(run))
    if not selection.matches_everything:
        _require_listing_forms(report_outputs, selection)
        require_known(run_view, selection)
    selected_run = run_view if selection.matches_everything else SelectedRun(run_view, selection)
    show(
        selected_run,
        report_outputs,
        TextChoice(all_findings, selection, show_suppressed, explained_findings=flat),
    )


def _print_leaks(run: str, forms: tuple[str, ...]) -> None:
    """Print the leaks of a run in one form. A leak is a ledger without an owner, such as a topic.

    Raises:
        UsageError: more than one form is given, or the form cannot show leaks.
    """
    from auditor.reports.owners import LEAK_FORMS, leaks_text
    from auditor.runs.owners import Leaks
    from auditor.runs.reader import RunReader

    form = forms[0] if forms else "text"
    if len(forms) > 1 or form not in LEAK_FORMS:
        raise UsageError(
            f"--leaks: requires exactly one --format ({', '.join(LEAK_FORMS)}), and writes to standard output"
        )
    run_view = RunReader(run)
    leaks = Leaks(run_view)
    format_listing = partial(leaks_text, width=fold_width()) if form == "text" else LEAK_FORMS[form]
    for text_part in format_listing(leaks.totals(), leaks, run_view.report.run.scan_time):
        click.echo(text_part, nl=False)


def _print_acceptance(run: str, fingerprint: str) -> None:
    """Print the entry for a suppressions file that accepts a finding of a run.

    Raises:
        UsageError: the run has no finding with this fingerprint.
    """
    from auditor.reports.finding_text import suppression_entry
    from auditor.runs.reader import RunReader
    from auditor.runs.selection import finding_by_fingerprint

    finding = finding_by_fingerprint(RunReader(run), fingerprint)
    click.echo(suppression_entry(finding, datetime.now(UTC).date()))


def _require_complete_forms(report_outputs: tuple[Output, ...]) -> None:
    """Raise UsageError if a form cannot list every finding, which --all requires."""
    complete_forms = [name for name, form in FORMS.items() if form.is_complete]
    for output in report_outputs:
        if output.form not in complete_forms:
            forms_text = f"{', '.join(complete_forms[:-1])} and {complete_forms[-1]}"
            raise UsageError(f"--all: --format {output.form} does not list every finding; {forms_text} do")


def _require_listing_forms(report_outputs: tuple[Output, ...], selection: Selection) -> None:
    """Raise UsageError if a form cannot show a selection, or if a selected check does not exist."""
    for output in report_outputs:
        if output.form not in LISTING_FORMS:
            raise UsageError(
                f"--format {output.form}: always shows the whole run. A selection requires "
                f"{', '.join(LISTING_FORMS)}"
            )
    if selection.checks:
        from auditor.checks import CHECK_BY_ID

        for check_pattern in selection.checks:
            if not any(Selection(checks=(check_pattern,)).matches_check(id) for id in CHECK_BY_ID):
                raise UsageError(
                    f"--check {check_pattern}: no check has that id; bkaudit explain check lists all ids"
                )


@click.command()
@run_argument
@pass_run_path("bookies", "ledgers", "registrations")
@click.option(
    "--by",
    type=click.Choice(SPACE_GROUPINGS),
    default="bookie",
    show_default=True,
    help="Show byte totals for each bookie, ledger, application (named in the ledgers' custom metadata) or "
    "ledger age.",
)
@click.option(
    "--top",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Number of ledgers or applications to list, the largest first. One more line sums up all others.",
)
@format_option("text", "json", "csv")
def space(run: str, by: SpaceGrouping, top: int, form: str) -> None:
    """Show what fills each bookie's entry logs, and which steps free the most bytes.

    Each step is shown with its command and its risk. RUN is a finished audit with --entry-logs, by default
    the newest run. The command does not contact the cluster, and frees nothing.
    """
    from auditor.reports import space as report
    from auditor.runs.load_space import space_view
    from auditor.runs.reader import RunReader

    view = space_view(RunReader(run), by, top)
    if form == "text":
        click.echo(report.text(view, fold_width()))
    else:
        click.echo({"json": report.to_json, "csv": report.to_csv}[form](view))
