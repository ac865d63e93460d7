"""``bkaudit simulate``, ``decommission``: what a failure would cost, and whether bookies may go."""

import click

from auditor.cli import completion
from auditor.cli.options import ScaledNumber, chosen_run, format_option, run_argument
from auditor.cli.terminal import show_text
from auditor.errors import UsageError
from auditor.model.placement import Level, Locations
from auditor.runs.reader import RunReader

_LEVELS = [str(level) for level in Level]


@click.command()
@run_argument
@chosen_run
@click.option(
    "--lose",
    type=(click.Choice(_LEVELS), str),
    multiple=True,
    metavar="LEVEL NAME[,NAME...]",
    help="What fails: bookie, rack, zone or region, and its name. All that is given fails at once.",
)
@click.option(
    "--any",
    "together",
    type=(click.IntRange(1, 6), click.Choice(_LEVELS)),
    metavar="N LEVEL",
    help="The worst N bookies, racks, zones or regions that can fail at once.",
)
@click.option(
    "--racks",
    "mapping",
    metavar="FILE",
    shell_complete=completion.paths,
    help="Where bookies stand, in place of what the run was made with: as for `bkaudit audit`.",
)
@click.option(
    "--mttf-days",
    type=click.FloatRange(0, min_open=True),
    default=1095.0,
    show_default=True,
    help="Mean time until a bookie fails for good, for the mean time to data loss.",
)
@click.option(
    "--mttr-hours",
    type=click.FloatRange(0, min_open=True),
    default=24.0,
    show_default=True,
    help="Mean time until its copies are made again, for the same.",
)
@format_option("text", "json")
def simulate(
    run: str,
    lose: tuple[tuple[str, str], ...],
    together: tuple[int, str] | None,
    mapping: str | None,
    mttf_days: float,
    mttr_hours: float,
    form: str,
) -> None:
    """Say what a failure would cost: ledgers, entries, bytes and topics that would be lost or endangered.

    RUN is a finished audit, by default the newest run. Without --lose and --any every single failure is
    listed, with the worst pairs and how evenly bookies are loaded. Nothing is asked of the cluster.
    """
    from auditor.reports import simulation as report
    from auditor.simulate.simulation import simulate_all, simulate_any, simulate_failure

    if lose and together:
        raise UsageError("--lose and --any: give one of them")
    reader = RunReader(run)
    locations = None if mapping is None else _locations(reader, mapping)
    if lose:
        lost = [(Level(level), [part for part in name.split(",") if part]) for level, name in lose]
        found = simulate_failure(reader, lost, locations)
    elif together:
        found = simulate_any(reader, together[0], Level(together[1]), locations)
    else:
        found = simulate_all(reader, locations, mttf_days, mttr_hours)
    show_text({"text": report.text, "json": report.to_json}[form](found))


def _locations(run: RunReader, mapping: str) -> Locations:
    """The mapping of a file, for the bookies of a run."""
    from auditor.sources.racks import locate_all, read_racks

    said = read_racks(mapping)
    hosts = {}
    if "registrations" in run.table_names():
        rows = run.table("registrations", ["bookie_id", "host", "used"]).to_pylist()
        hosts = {row["bookie_id"]: row["host"] for row in rows if row["used"]}
    names = run.table("bookies", ["bookie_id"])["bookie_id"].to_pylist()
    return Locations(locate_all({name: hosts.get(name) for name in names}, said), f"--racks {mapping}")


_BYTES = ScaledNumber("bytes", {"k": 10**3, "M": 10**6, "G": 10**9}, "a number of bytes, such as 500k or 20M")


@click.command()
@click.argument("run", metavar="RUN", shell_complete=completion.runs)
@click.argument("bookies", metavar="BOOKIE...", nargs=-1, required=True, shell_complete=completion.bookies)
@click.option("--rate", type=_BYTES, help="Bytes that one replication worker copies a second, such as 20M.")
@click.option(
    "--round-trip",
    type=click.FloatRange(0, 60_000),
    default=1.0,
    show_default=True,
    metavar="MS",
    help="How long a bookie takes to answer a read or a write of an entry.",
)
@format_option("text", "json")
def decommission(run: str, bookies: tuple[str, ...], rate: int | None, round_trip: float, form: str) -> None:
    """Say whether bookies may be decommissioned: a rehearsal of decommissionbookie on a finished run.

    It says what keeps them and the way out, what is copied where, and what names them afterwards. Nothing is
    asked of the cluster. BOOKIE is an id, or how one id alone begins.

    Exit codes: 0 they may go now; 1 not yet, or not as things are; 2 wrong usage; 3 nothing that was seen is
    in the way, but not all that counts was seen.
    """
    from auditor.decommission.rehearse import rehearse
    from auditor.reports import decommission as report
    from auditor.runs.damage import damage_named
    from auditor.runs.reader import RunReader

    render = {"text": report.decommission_text, "json": report.decommission_json}[form]
    with damage_named(run):
        found = rehearse(RunReader(run), bookies, rate, round_trip)
        show_text(render(found))
    raise click.exceptions.Exit(found.exit_code)
