"""Completion in a real bash: the test types, presses Tab, and reads the screen."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.made_runs import made_run

GETTING_STARTED = Path(__file__).parents[2] / "docs" / "getting-started.md"
LIMIT_S = 60.0
"""A Tab starts Python anew, on a machine that may be busy."""


class Bash:
    """An interactive bash at a terminal of its own."""

    def __init__(self, directory: Path) -> None:
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("needs bash")
        scripts = str(Path(sys.executable).parent)
        environment = {
            "PATH": f"{scripts}:{os.environ['PATH']}", "HOME": str(directory), "PS1": "$ ", "TERM": "dumb",
            "INPUTRC": str(directory / "inputrc"), "COLUMNS": "200",
        }  # fmt: skip
        (directory / "inputrc").write_text("set enable-bracketed-paste off\nset bell-style none\n")
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            os.chdir(directory)
            os.execve(bash, [bash, "--norc", "--noprofile", "-i"], environment)

    def type(self, keys: str, until: str) -> str:
        """Press keys; return the screen after them once it matches ``until``."""
        os.write(self._terminal, keys.encode())
        screen, end = "", time.monotonic() + LIMIT_S
        while not re.search(until, screen):
            remaining_s = end - time.monotonic()
            if remaining_s <= 0 or not select.select([self._terminal], [], [], remaining_s)[0]:
                raise AssertionError(f"{keys!r}: no {until!r} in {screen!r}")
            screen += os.read(self._terminal, 4096).decode().replace("\r", "").replace("\x07", "")
        return screen

    def run(self, line: str) -> None:
        """Enter a line and wait until it is done."""
        self.type(f"{line}; echo d''one\n", "done\n")

    def complete(self, begun: str, until: str) -> str:
        """Type, press Tab and discard the line; return the screen."""
        screen = self.type(f"{begun}\t", until)
        self.run("\x05\x15:")  # to the end of the line, and all of it away
        return screen

    def close(self) -> None:
        os.write(self._terminal, b"exit\n")
        while select.select([self._terminal], [], [], LIMIT_S)[0]:
            try:
                os.read(self._terminal, 4096)
            except OSError:  # the other end is closed
                break
        os.close(self._terminal)
        os.waitpid(self._process, 0)


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bash]:
    folder = tmp_path_factory.mktemp("home")
    rows: list[dict[str, Any]] = [{"bookie_id": "bk1.example:3181"}]
    made_run(folder / "runs" / "20261121T050749Z", bookies=rows)
    (folder / "mine.toml").write_text('[clusters.prod-eu]\nmetadata = "dump:///a"\n')
    shell = Bash(folder)
    for line in startup_lines():
        shell.run(line)
    yield shell
    shell.close()


def startup_lines() -> list[str]:
    """Return the lines that the documents tell bash users to put into the startup file."""
    section = GETTING_STARTED.read_text("utf-8").partition("## Completion")[2].partition("\n## ")[0]
    lines = [line.strip().partition("  #")[0] for line in section.splitlines() if line.startswith("    ")]
    return [line for line in lines if "zsh" not in line and "fish" not in line]


def test_documented_startup_lines_are_the_expected_lines() -> None:
    assert [line.partition(" ")[0] for line in startup_lines()] == [
        "eval",
        "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}",
    ]


@pytest.mark.parametrize(
    ("begun", "completed"),
    [
        ("bkaudit expl", "explain "),
        ("bkaudit explain check entry-los", "entry-lost "),
        ("bkaudit report ", "runs/20261121T050749Z "),
        ("bkaudit report runs/x --format jso", "json"),
        ("bkaudit explain bookie bk", "bk1.example:3181 "),
        ("bkaudit explain bookie bk1.example:3", "bk1.example:3181 "),
        ("bkaudit audit --conf mine.toml --cluster pro", "prod-eu "),
        ("bkaudit audit --conf mi", "mine.toml"),
        ("bkaudit audit --bookies mi", "mine.toml"),
        ("bkaudit ledger show --cred", "--credentials "),
    ],
)
def test_bash_completes_the_typed_command(bash: Bash, begun: str, completed: str) -> None:
    whole = begun[: begun.rindex(" ") + 1] + completed
    bash.complete(begun, re.escape(whole))
