"""Texts of the program follow the writing guide, as far as a program can check it."""

from __future__ import annotations

import pytest

from tests.messages import FAULTS, Message, is_prose, messages, texts_of

pytestmark = pytest.mark.files

MIN_TEXTS = 1_000
"""The program has more texts; fewer mean that the search no longer sees them."""


@pytest.fixture(scope="module")
def texts() -> list[Message]:
    return [*messages()]


def test_search_finds_the_texts(texts: list[Message]) -> None:
    assert len(texts) > MIN_TEXTS


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ('@click.option("--bookie", metavar="B", help="Show one bookie.")\ndef show(): ...', "--bookie"),
        ('DISKS = make_schema(("path", pa.string(), "the first directory"))', "disks.path"),
        ('class Facts(TypedDict):\n    since: Annotated[int, about("start of the run")]', "Facts.since"),
        ('_TEXTS = {Cause.NOT_LISTED: "the listing lacks them"}', "not-listed"),
        ('_TEXTS = {"bkaudit_gaps": "places not read"}', "bkaudit_gaps"),
        ('@check(Severity.NOTE)\ndef stray_file(tables):\n    return f"{name} has files"', "stray-file"),
        ('def show():\n    print("nothing was found")', ""),
    ],
)
def test_text_has_the_label_that_a_reader_sees(source: str, label: str) -> None:
    assert [text_label for _, text_label, _ in texts_of(source)] == [label]


def test_columns_options_fields_and_checks_of_the_program_have_labels(texts: list[Message]) -> None:
    """The search knows the program's functions by their names, so a renamed one would lose its labels."""
    labels = {text.label for text in texts}
    assert {"sources.scope_proved", "--bookie-id", "RunFacts.bookies_listed", "stray-file"} - labels == set()


def test_literals_without_prose_are_few(texts: list[Message]) -> None:
    assert not any(map(is_prose, ("bkaudit diff A B", "{name}: {path}, {time}", "state in ('ok', 'cut')")))
    assert sum(not is_prose(text.text) for text in texts) < len(texts) / 4


@pytest.mark.parametrize("rule", FAULTS)
def test_texts_follow_the_writing_guide(texts: list[Message], rule: str) -> None:
    broken = [f"{text.module}:{text.line}: {text.text}" for text in texts if FAULTS[rule](text.text)]
    assert not broken, "\n".join((f"{rule}:", *broken))
