"""Helpers for tests that give a decoder damaged bytes."""

from __future__ import annotations

from collections.abc import Callable

from auditor.errors import DecodeError, RuleError


def refusal(decode: Callable[[bytes], object], data: bytes) -> DecodeError | RuleError[object] | None:
    """Return the typed error that ``decode`` raises for ``data``, or None; other exceptions propagate."""
    try:
        decode(data)
    except (DecodeError, RuleError) as error:
        return error
    return None


def points_within(error: DecodeError | RuleError[object] | None, data: bytes) -> bool:
    """Return whether the offset of an error lies within ``data``; True if there is no error or no offset."""
    return not isinstance(error, DecodeError) or 0 <= error.offset <= len(data)
