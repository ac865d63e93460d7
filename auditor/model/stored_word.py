"""Base of enumerations whose words are stored in tables of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from auditor.errors import UnknownWordError


class StoredWord(StrEnum):
    """An enumeration whose members are words in tables of a run; it refuses any other word.

    Raises:
        UnknownWordError: a word that is no member.

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
