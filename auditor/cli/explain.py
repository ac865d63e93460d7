"""``bkaudit explain``: a page on a run, a ledger, a bookie or a topic, or the manual page of a check."""

import sys
from typing import BinaryIO

import click

from auditor.cli import completion
from auditor.cli.options import ledger_options, pass_run_path, run_argument, run_option
from auditor.cli.terminal import fold_width, page_width, show_text, takes_unicode
from auditor.errors import RunUsageError, UsageError
from auditor.model.amounts import first_names
from auditor.model.ledger_id import LedgerId


@click.group()
def explain() -> None:
    """Explain a run, one of its ledgers, bookies or topics, or a check."""


@explain.command()
@ledger_options
@run_option
@pass_run_path("bookies", "judged", "ledgers", "verdicts")
@click.option("--ascii", is_flag=True, help="Draw with ASCII characters only.")
@click.option(
    "--bookie",
    metavar="BOOKIE",
    shell_complete=completion.bookies,
    help="Show only the ledger's copy on this bookie.",
)
@click.option(
    "--availability",
    type=click.File("rb"),
    help=(
        "With --bookie: a file with a BP-34 list of the ledger's entries on this bookie. It replaces the "
        "list in the run."
    ),
)
def ledger(
    ledger_id: LedgerId, run: str, ascii: bool, bookie: str | None, availability: BinaryIO | None
) -> None:
    """Draw which entries of a ledger each bookie should hold and does hold, and say what to do.

    ID is the ledger's id, or all 128 bits (scope and id) in 32 hexadecimal digits. With --bookie, the page
    compares the entries that one bookie should hold with the entries that it holds. The latter come from the
    run, or from the BP-34 value in the file --availability.
    """
    if bookie is not None:
        show_text(_replica_page(ledger_id, run, bookie, availability))
        return
    if availability is not None:
        raise UsageError("--availability: requires --bookie. Pass the bookie whose entries the file lists")
    from auditor.notebook.run import open_run
    from auditor.reports import ledger as drawing
    from auditor.reports.advice import advice_lines
    from auditor.reports.hold_text import ledger_hold_lines
    from auditor.runs.load_bookie import find_storages
    from auditor.runs.load_ledger import findings_for_ledger

    run_view = open_run(run)
    findings = findings_for_ledger(run_view, ledger_id.id, ledger_id.scope)
    storages_by_bookie = find_storages(run_view)
    try:
        ledger_view = run_view.ledger(ledger_id.id, ledger_id.scope)
    except RunUsageError as error:
        if not findings:
            raise
        # A ledger that is not in the metadata may still have a mark, and thus a finding.
        drawing_text = str(error)
    else:
        drawing_text = drawing.render(ledger_view, not ascii and takes_unicode(), width=page_width())
    lines = advice_lines(
        findings, page_width(), run_view.report.cluster.instance_id, storages_by_bookie, run_view
    )
    hold_lines = ledger_hold_lines(run_view, ledger_id.id, ledger_id.scope, page_width())
    page_sections = [[drawing_text], hold_lines, lines or ["there are no findings about this ledger"]]
    show_text("\n\n".join("\n".join(section_lines) for section_lines in page_sections if section_lines))


def _replica_page(ledger_id: LedgerId, run: str, bookie: str, availability_file: BinaryIO | None) -> str:
    """Return the page that compares a bookie's expected entries of a ledger with the entries that it holds.

    ``availability_file`` has the BP-34 value that the bookie sent. None: use the entries that the run read.
    """
    from auditor.codecs.availability.wire import decode
    from auditor.notebook.run import open_run
    from auditor.reports.replica import replica_text

    listed_entries = None if availability_file is None else decode(availability_file.read())
    return replica_text(
        open_run(run).ledger(ledger_id.id, ledger_id.scope), bookie, listed_entries, page_width()
    )


@explain.command()
@click.argument("id", required=False, shell_complete=completion.bookies)
@run_option
@pass_run_path("bookies", "cookies", "directories", "holdings", "identities", "registrations")
def bookie(id: str | None, run: str) -> None:
    """Show a bookie's cookie, disks, registration and ledgers, and what is wrong with it.

    ID is the id of the bookie, or a prefix that no other bookie id has.
    """
    from auditor.notebook.run import open_run
    from auditor.reports import bookie as telling
    from auditor.runs.load_bookie import MAX_LISTED_BOOKIES, bookie_ids, bookie_view

    run_view = open_run(run)
    if id is None:
        raise UsageError(
            f"ID: missing. Bookies of {run}: {first_names(bookie_ids(run_view), MAX_LISTED_BOOKIES)}"
        )
    show_text(telling.render(bookie_view(run_view, id), page_width(), run_view))


@explain.command()
@click.argument("name")
@run_option
@pass_run_path("ledgers", "verdicts")
def topic(name: str, run: str) -> None:
    """Show a topic's ledgers in order, the state of each, and how far its subscriptions have read.

    NAME is tenant/namespace/topic. It ends with the partition if the topic is partitioned, and may begin
    with persistent://.
    """
    from auditor.reports.owners import topic_text
    from auditor.runs.load_topic import topic_view
    from auditor.runs.reader import RunReader

    show_text(topic_text(topic_view(RunReader(run), name), fold_width()))


@explain.command(name="run")
@run_argument
@pass_run_path("bookies", "directories", "ledgers", "verdicts")
def explain_run(run: str) -> None:
    """Explain why RUN has its verdict, what it could not check, and what to do first.

    By default, RUN is the newest run.
    """
    from auditor.notebook.run import open_run
    from auditor.reports import run as telling
    from auditor.runs.load_bookie import run_view

    show_text(telling.render(run_view(open_run(run)), page_width()))


@explain.command()
@click.argument("name", required=False, shell_complete=completion.checks)
def check(name: str | None) -> None:
    """Show the manual page of the check NAME. Without NAME, list all checks."""
    from auditor.checks import ALL_CHECKS, CHECK_BY_ID
    from auditor.checks.configuration import unknown_check
    from auditor.reports.plain_text import fold_text

    if name is None:
        width = max(len(check_of_catalogue.id) for check_of_catalogue in ALL_CHECKS)
        for listed_check in ALL_CHECKS:
            line_start = f"{listed_check.id:<{width}}  {listed_check.severity:<8}  "
            # Programs get one line for each check. At a terminal, long lines are folded.
            text_columns = page_width() if sys.stdout.isatty() else len(line_start) + len(listed_check.title)
            click.echo(
                "\n".join(fold_text(listed_check.title, text_columns, line_start, " " * len(line_start)))
            )
        return
    chosen_check = CHECK_BY_ID.get(name)
    if chosen_check is None:
        raise unknown_check(name)
    from auditor.reports.check_pages import page_text

    show_text(page_text(chosen_check, page_width()))
