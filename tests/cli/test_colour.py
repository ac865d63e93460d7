"""Colour and the pager at a terminal."""

from __future__ import annotations

import os
import sys

import pytest

from auditor.cli.terminal import colour_words, show_text, wants_colour
from auditor.reports import text
from tests.reports.samples import report


class Terminal:
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "has_colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_used_only_on_a_terminal_that_allows_it(
    environment: dict[str, str], has_colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert not wants_colour()
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert wants_colour() is has_colour


@pytest.mark.parametrize(("lines", "paged"), [(23, False), (24, True)])
def test_text_longer_than_the_terminal_goes_through_the_pager(
    lines: int, paged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, shown = "\n".join(["line"] * lines), []
    monkeypatch.setenv("LESS", "R")
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    monkeypatch.setattr("click.echo_via_pager", lambda text: shown.append(("pager", text)))
    monkeypatch.setattr("click.echo", lambda text: shown.append(("screen", text)))
    show_text(text)
    assert shown == [("screen", text)], "into a pipe it goes as it is"
    monkeypatch.setattr(sys, "stdout", Terminal())
    show_text(text)
    assert shown[1:] == [("pager", f"{text}\n") if paged else ("screen", text)]
    assert os.environ["LESS"] == "R", "the reader's own choice stays"


def test_severities_and_the_verdict_are_coloured_and_names_are_not() -> None:
    shown = colour_words(text.render(report()))
    assert "\x1b[31m\x1b[1mdata lost\x1b[0m                    1   entry-lost 1" in shown
    assert "\x1b[31mbelow ack quorum\x1b[0m             3   below" in shown
    assert "entry-lost (\x1b[31m\x1b[1mcritical\x1b[0m; 1)" in shown
    assert shown.count("\x1b[31m\x1b[1mNOT HEALTHY\x1b[0m: ") == 1
    assert "\x1b" not in shown.replace("\x1b[31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert colour_words("an error of bookie error-1:3181") == "an error of bookie error-1:3181"
