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

Each program below `proofs/` compares the auditor with something that it did not make: real bookies, real
brokers, the bytes of other programs, or its own run without the damage. It ends with 1 if the claim is false.
`python -m proofs.NAME` runs one, and `--help` lists its options. CONTRIBUTING.md says what each needs.
The results are in [truth.md](truth.md).

`python3 run.py test --all` runs the short form of each, and so does `.ci/run`. Times are by the clock on two
cores, unless the row says otherwise. Short forms were timed on 2026-11-26, in a run of all tests with other
work beside it. A program that has no time was never timed as a whole.

"""

_END = """\

The rows are `proofs/programs.toml`, and `python -m proofs > docs/proofs.md` writes this page. Whoever runs a
whole program changes its row. A row is not older than the results in truth.md (`proofs/test_programs.py`).
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
    head = ["program", "what it proves", "all of it", "short form", "last run of all"]
    lines = [
        f"| {' | '.join(head)} |",
        "| --- | --- | --- | --- | --- |",
        *(program.row for program in programs()),
    ]
    return _TEXT + "\n".join(lines) + "\n" + _END
