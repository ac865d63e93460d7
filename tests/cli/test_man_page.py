"""The manual page: every command and option, in roff that groff, man and whatis read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.cli.man_page import EXIT_CODE_TEXTS, _roff_line, man_page
from auditor.errors import AuditorError
from tests.cli.test_help import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "bkaudit.1"


def plain(page: str) -> str:
    """Return the text of a page without roff's escapes."""
    for escaped, char in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\(dq", '"'), (r"\e", "\\")):
        page = page.replace(escaped, char)
    return page


def test_help_prints_the_installed_manual_page() -> None:
    """Run `python -m auditor.cli.man_page` to renew the page."""
    printed = CliRunner().invoke(main, ["help", "--man"], prog_name="bkaudit")
    assert (printed.exit_code, printed.stdout) == (0, PAGE.read_text("utf-8"))


@pytest.mark.parametrize("words", COMMANDS)
def test_the_page_has_each_command_with_its_options(words: str) -> None:
    text = plain(man_page())
    [section] = re.findall(rf"(?ms)^\.SS bkaudit {re.escape(words)}$(.*?)(?=^\.S[SH] )", text)
    names = {option for parameter in COMMANDS[words].params for option in parameter.opts if option[0] == "-"}
    shown = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", section))
    assert names <= shown


def test_the_page_has_every_exit_code() -> None:
    classes, codes = [AuditorError], set()
    while classes:
        error = classes.pop()
        classes += error.__subclasses__()
        codes.add(error.exit_code)
    assert codes <= set(EXIT_CODE_TEXTS)


@pytest.mark.parametrize("text", [".PP", "'quoted", "a \\ b", "-x", "é"])
def test_text_is_never_read_as_a_roff_request(text: str) -> None:
    line = _roff_line(text)
    assert line.isascii()
    assert line[0] not in ".'"
    assert "\\" not in line.replace("\\e", "").replace("\\-", "").replace("\\&", "").replace(
        "\\(aq", ""
    ).replace("\\[u00E9]", "")


def test_manual_page_uses_only_known_roff_requests() -> None:
    requests = {line.split()[0] for line in man_page().splitlines() if line[:1] in (".", "'")}
    assert requests <= {'.\\"', ".TH", ".SH", ".SS", ".PP", ".TP", ".IP", ".B", ".nf", ".fi"}


if which("groff"):

    def test_groff_reads_the_page_without_a_warning() -> None:
        command = ["groff", "-man", "-Tutf8", "-ww", "-rLL=78n", "-P-c", str(PAGE)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        text = re.sub(".\b", "", done.stdout)
        assert "audit Apache BookKeeper clusters from their metadata and disks" in " ".join(text.split())
        assert "dump:///FILE.jsonl?root=/ledgers" in text
        assert re.search(r"(?m)^ +bkaudit report runs/A --all \| grep -w 'ledger 42'$", text)


if which("lexgrog"):

    def test_whatis_finds_the_name_and_description() -> None:
        done = subprocess.run(["lexgrog", str(PAGE)], capture_output=True, text=True, check=True)
        assert "bkaudit - audit Apache BookKeeper clusters from their metadata and disks" in done.stdout
