"""``bkaudit simulate`` and ``decommission``.

The first shows the data that failures would lose. The second rehearses a removal of bookies.
"""

import shlex
import sys

import click

from auditor.cli import completion
from auditor.cli.options import ScaledNumber, format_option, pass_run_path, run_argument
from auditor.cli.terminal import page_width, show_text
from auditor.errors import UsageError
from auditor.model.placement import Level, Locations
from auditor.reports.answer_table import TABLE_FORMS
from auditor.runs.reader import RunReader

_LEVEL_NAMES = [str(level) for level in Level]


@click.command()
@run_argument
@pass_run_path("bookies", "judged", "ledgers", "verdicts")
@click.option(
    "--lose",
    type=(click.Choice(_LEVEL_NAMES), str),
    multiple=True,
    metavar="LEVEL NAME[,NAME...]",
    help="Level (bookie, rack, zone or region) and name of what fails. All of them fail at the same time.",
)
@click.option(
    "--any",
    "worst_failure",
    type=(click.IntRange(1, 6), click.Choice(_LEVEL_NAMES)),
    metavar="N LEVEL",
    help="Find the N bookies, racks, zones or regions whose simultaneous failure loses the most data.",
)
@click.option(
    "--racks",
    "mapping",
    metavar="FILE",
    shell_complete=completion.paths,
    help=(
        "A file with bookie locations, in a form that --racks of `bkaudit audit` "
        "accepts. It replaces the locations in the run."
    ),
)
@click.option(
    "--mttf-days",
    type=click.FloatRange(0, min_open=True),
    default=1095.0,
    show_default=True,
    help="Mean time until a bookie fails for good. Used for the mean time to data loss.",
)
@click.option(
    "--mttr-hours",
    type=click.FloatRange(0, min_open=True),
    default=24.0,
    show_default=True,
    help="Mean time until the copies of a failed bookie exist again. Used for the mean time to data loss.",
)
@click.option(
    "--table",
    type=click.Choice(("ledgers", "topics", "namespaces", "failures")),
    help=(
        "For csv, jsonl and parquet: the table to print. By default the ledgers of the "
        "failure that --lose or --any selects; without these options, all single failures."
    ),
)
@format_option("text", "json", *TABLE_FORMS)
def simulate(
    run: str,
    lose: tuple[tuple[str, str], ...],
    worst_failure: tuple[int, str] | None,
    mapping: str | None,
    mttf_days: float,
    mttr_hours: float,
    table: str | None,
    form: str,
) -> None:
    """Show which ledgers, entries, bytes and topics a failure would lose or endanger.

    RUN is a finished audit, by default the newest run. Without --lose and --any, the command lists the
    failure of each single bookie, rack, zone and region. It also lists the worst pairs of failures, and
    shows the balance of bookies.

    The forms text and json name the first ledgers and owners (such as topics) that a failure concerns. The
    forms csv, jsonl and parquet list all of them. The command does not contact the cluster.
    """
    from auditor.reports import simulation as report
    from auditor.simulate.simulation import answer_any_domains, answer_failure, simulate_all
    from auditor.simulate.tables import simulation_table

    if lose and worst_failure:
        raise UsageError("--lose and --any: pass only one of them")
    _require_table_form(table, form)
    reader = RunReader(run)
    locations = None if mapping is None else _locations(reader, mapping)
    failure_answer = None
    if lose:
        failed_domains = [
            (Level(level), [failed_bookie for failed_bookie in name.split(",") if failed_bookie])
            for level, name in lose
        ]
        failure_answer = answer_failure(reader, failed_domains, locations)
        simulation = failure_answer.simulation
    elif worst_failure:
        simulation, failure_answer = answer_any_domains(
            reader, worst_failure[0], Level(worst_failure[1]), locations
        )
    else:
        simulation = simulate_all(reader, locations, mttf_days, mttr_hours)
    if form in TABLE_FORMS:
        TABLE_FORMS[form](simulation_table(table, reader, failure_answer, simulation), sys.stdout.buffer)
    elif form == "json":
        show_text(report.to_json(simulation))
    else:
        arguments = [option_argument for level, name in lose for option_argument in ("--lose", level, name)]
        arguments += ["--any", str(worst_failure[0]), worst_failure[1]] if worst_failure else []
        arguments += ["--racks", mapping] if mapping is not None else []
        command = shlex.join(["bkaudit", "simulate", run, *arguments])
        show_text(report.text(simulation, page_width(), command, whole_names=not sys.stdout.isatty()))


def _require_table_form(table: str | None, form: str) -> None:
    """Raise UsageError if ``form`` cannot show the table, or if Parquet would go to a terminal."""
    if table is not None and form not in TABLE_FORMS:
        raise UsageError(f"--table {table}: --format {form} is not a table. Use {', '.join(TABLE_FORMS)}")
    if form == "parquet" and sys.stdout.isatty():
        raise UsageError("--format parquet: the output is binary. Redirect standard output to a file")


def _locations(run: RunReader, racks_file: str) -> Locations:
    """Return the location of each bookie of a run. ``racks_file`` is a file that maps hosts to racks."""
    from auditor.sources.racks import locate_all, read_racks

    racks_by_host = read_racks(racks_file)
    registered_hosts = {}
    if "registrations" in run.table_names():
        registration_rows = run.table("registrations", ["bookie_id", "host", "used"]).to_pylist()
        registered_hosts = {row["bookie_id"]: row["host"] for row in registration_rows if row["used"]}
    bookie_ids = run.table("bookies", ["bookie_id"])["bookie_id"].to_pylist()
    host_by_bookie = {name: registered_hosts.get(name) for name in bookie_ids}
    return Locations(locate_all(host_by_bookie, racks_by_host), f"--racks {racks_file}")


_BYTE_COUNT_TYPE = ScaledNumber(
    "bytes", {"k": 10**3, "M": 10**6, "G": 10**9}, "a number of bytes, such as 500k or 20M"
)


@click.command()
@click.argument("run", metavar="RUN", shell_complete=completion.runs)
@click.argument("bookies", metavar="BOOKIE...", nargs=-1, required=True, shell_complete=completion.bookies)
@click.option(
    "--rate", type=_BYTE_COUNT_TYPE, help="Bytes that one replication worker copies per second, such as 20M."
)
@click.option(
    "--round-trip",
    type=click.FloatRange(0, 60_000),
    default=1.0,
    show_default=True,
    metavar="MS",
    help="Time that a bookie takes to answer a read or a write of an entry.",
)
@click.option(
    "--table",
    type=click.Choice(("ledgers", "topics")),
    help=(
        "Rows for csv, jsonl and parquet. ledgers: each ledger that must not move, and why. topics: the "
        "number of such ledgers of each topic.  [default: ledgers]"
    ),
)
@format_option("text", "json", *TABLE_FORMS)
def decommission(
    run: str, bookies: tuple[str, ...], rate: int | None, round_trip: float, table: str | None, form: str
) -> None:
    """Say whether bookies may be decommissioned, by a rehearsal of decommissionbookie on a finished run.

    The command lists each obstacle and the way out, the copies that would be made, and the records that
    would still name the bookies afterwards. The forms csv, jsonl and parquet list every ledger that may not
    move. The command does not contact the cluster.

    BOOKIE is a bookie id, or a prefix that no other bookie id has.

    Exit codes: 0 the bookies may go now; 1 they may not go yet, or not at all; 2 wrong usage; 3 the run
    knows no obstacle, but some of its inputs are missing.
    """
    from auditor.decommission.ledger_blockers import blocked_table
    from auditor.decommission.rehearse import rehearse_by_ledger
    from auditor.reports import decommission as report
    from auditor.runs.damage import check_run
    from auditor.runs.reader import RunReader

    _require_table_form(table, form)
    with check_run(run, "bookies", "cluster", "judged", "ledgers", "marks", "verdicts"):
        reader = RunReader(run)
        rehearsal, trial_table = rehearse_by_ledger(reader, bookies, rate, round_trip)
        if form in TABLE_FORMS:
            TABLE_FORMS[form](blocked_table(table, reader, trial_table), sys.stdout.buffer)
        elif form == "json":
            show_text(report.decommission_json(rehearsal))
        else:
            command = shlex.join(["bkaudit", "decommission", run, *bookies])
            show_text(report.decommission_text(rehearsal, command, page_width()))
    raise click.exceptions.Exit(rehearsal.exit_code)
