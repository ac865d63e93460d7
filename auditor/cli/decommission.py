"""``bkaudit decommission``: may bookies go, by a finished run."""

from __future__ import annotations

import click

from auditor.cli import completion
from auditor.cli.options import format_option
from auditor.cli.terminal import show_text

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


class _Bytes(click.ParamType[int]):
    """A number of bytes; k, M and G are a thousand, a million and a thousand million of them."""

    name = "bytes"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that ``value`` says."""
        text = str(value).strip()
        digits = text.rstrip("kMG")
        unit = text[len(digits) :]
        if not digits.isdecimal() or unit not in _UNITS or not int(digits):
            self.fail(f"{text!r} is not a number of bytes, such as 500k or 20M", param, ctx)
        return int(digits) * _UNITS[unit]


@click.command()
@click.argument("run", metavar="RUN", shell_complete=completion.runs)
@click.argument("bookies", metavar="BOOKIE...", nargs=-1, required=True, shell_complete=completion.bookies)
@click.option("--rate", type=_Bytes(), help="Bytes that one replication worker copies a second, such as 20M.")
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
