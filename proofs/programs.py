"""The proving programs: the claim of each, its times, and the day of its last complete run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("programs.toml")
PAGE = ROOT / "docs" / "proofs.md"

_TEXT = """\
# Proving programs

Each program in `proofs/` tests a claim about the auditor with data that the auditor did not make.
`python -m proofs.NAME` runs a program. Exit code 1 means that the claim is false. CONTRIBUTING.md lists what
each program needs, and [truth.md](truth.md) shows the results. `python3 run.py test --all` and `.ci/run` run
the short forms. Times are wall-clock times on two cores.

"""

_END = """\

`python -m proofs > docs/proofs.md` writes this page from `proofs/programs.toml`. After a complete run of a
program, enter the run's date and duration in that file.
"""


@dataclass(frozen=True)
class Program:
    """One program. ``whole`` is the time of a complete run, ``short`` that of the form that the tests run.

    ``last_run`` is the day of the last complete run (ISO 8601). ``partly`` names later runs of a part.
    """

    name: str
    proves: str
    whole: str
    short: str
    last_run: str
    partly: str = ""

    @property
    def row(self) -> str:
        """The program's row of docs/proofs.md."""
        last = f"{self.last_run}; {self.partly}" if self.partly else self.last_run
        return f"| `{self.name}` | {self.proves} | {self.whole} | {self.short} | {last} |"


def programs() -> list[Program]:
    """Return the rows of the table."""
    return [Program(**row) for row in tomllib.loads(TABLE.read_text("utf-8"))["program"]]


def page() -> str:
    """Return the text of docs/proofs.md."""
    head = ["program", "claim", "complete run", "short form", "last complete run"]
    lines = [
        f"| {' | '.join(head)} |",
        "| --- | --- | --- | --- | --- |",
        *(program.row for program in programs()),
    ]
    return _TEXT + "\n".join(lines) + "\n" + _END
