"""Run commands at a terminal, each in a fork of one process that has loaded them.

    python -m tests.cli.terminal_cells PLACE COLUMNS      prints JSON: the standard output of each call

The calls and the substitute for audits are those of `tests.cli.stream_cells`.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.cli.stream_cells import CASES, _run, prepare, replaced_audits

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def run_at_terminal(arguments: Sequence[str], columns: int) -> str:
    """Run a command in a fork whose standard output is a terminal of this width; return its output."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ.update(COLUMNS=str(columns), LINES="24", PAGER="cat", TERM="xterm")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        _run(arguments)
    shown = b""
    with suppress(OSError):  # the end of a terminal is EIO
        while data := os.read(terminal, 65_536):
            shown += data
    os.close(terminal)
    os.waitpid(child, 0)
    return ESCAPES.sub("", shown.decode()).replace("\r\n", "\n")


def main(place: Path, columns: int) -> None:
    """Print the output of every call."""
    prepare(place)
    (place / "new").mkdir()
    os.chdir(place)
    with replaced_audits(place):
        run_at_terminal(["plan", f"{place}/runs/1", "--out", f"{place}/plan.toml"], columns)
        shown = {
            name: run_at_terminal(
                [word.format(place=place, new=place / "new" / str(number)) for word in words], columns
            )
            for number, (name, words) in enumerate(CASES.items())
        }
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
