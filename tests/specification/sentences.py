"""The decorator that names the sentence of BookKeeper's proposals that a test checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


def sentence(number: str) -> Callable[[Test], Test]:
    """Name the sentence of SENTENCES.md that a test checks; `test_sentences` reads the name."""

    def decorate(test: Test) -> Test:
        return test

    assert number
    return decorate
