"""Texts of the program follow the writing guide, as far as a program can check it."""

from __future__ import annotations

import pytest

from tests.messages import FAULTS, Message, messages

MIN_TEXTS = 1_000
"""The program has more texts; fewer mean that the search no longer sees them."""


@pytest.fixture(scope="module")
def texts() -> list[Message]:
    return [*messages()]


def test_search_finds_the_texts(texts: list[Message]) -> None:
    assert len(texts) > MIN_TEXTS


@pytest.mark.parametrize("rule", FAULTS)
def test_texts_follow_the_writing_guide(texts: list[Message], rule: str) -> None:
    broken = [f"{text.module}:{text.line}: {text.text}" for text in texts if FAULTS[rule](text.text)]
    assert not broken, "\n".join((f"{rule}:", *broken))
