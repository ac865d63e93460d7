"""Base class of enumerations whose values are stored as words in the tables of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from auditor.errors import UnknownWordError


class StoredWord(StrEnum):
    """An enumeration whose values are words in the tables of a run. It rejects all other words.

    Raises:
        UnknownWordError: the word is not a value of the enumeration.

    >>> class Colour(StoredWord):
    ...     RED = "red"
    >>> Colour("red")
    <Colour.RED: 'red'>
    >>> Colour("blue")
    Traceback (most recent call last):
    auditor.errors.UnknownWordError: 'blue' is not one of: red
    """

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise UnknownWordError(f"{value!r} is not one of: {', '.join(cls)}")
