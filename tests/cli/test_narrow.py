"""At a terminal of 60 columns no text of a command is wider, except commands to copy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.reports.plain_text import columns_of
from tests.cli.stream_cells import CASES

ROOT = Path(__file__).parents[2]
COLUMNS = 60
LABEL_COLUMNS = 26
"""A label of doctor, the widest one; a word beside it may be longer than the line."""
FOR_PROGRAMS = (
    "conf show",
    "conf path",
    "decode",
    "ledger",
    "dump",
    "help --man",
    "status",
    "watch",
)
"""Output in a form that programs read, or that is one line by contract."""
NO_TEXT = ("no command", "explain topic", "encode")
"""Calls that end with an error, on standard error, or that write bytes into a file."""
COMMAND = re.compile(r"\s*((first action|all actions|to resume:)\s+)?(bkaudit|bookkeeper|spark-submit) ")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("narrow")
    command = [sys.executable, "-m", "tests.cli.terminal_cells", str(place), str(COLUMNS)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    texts: dict[str, str] = json.loads(ended.stdout)
    return texts


def wide_lines(text: str) -> list[str]:
    """Return the lines that are too wide, except commands and a label with one long word beside it."""
    return [
        line
        for line in text.splitlines()
        if columns_of(line) > COLUMNS
        and not COMMAND.match(line)
        and columns_of(line.rpartition(" ")[0].rstrip()) > LABEL_COLUMNS
    ]


TEXTS = [name for name in CASES if not name.startswith(FOR_PROGRAMS) and "--format" not in name]


def test_most_commands_print_texts_for_people() -> None:
    assert len(TEXTS) > 20
    assert {"plan show", "plan make", "explain ledger", "prune", "space", "compare"} <= {*TEXTS}


@pytest.mark.parametrize("name", TEXTS)
def test_text_fits_a_narrow_terminal(shown: dict[str, str], name: str) -> None:
    assert wide_lines(shown[name]) == []
    assert shown[name].strip() or name in NO_TEXT
