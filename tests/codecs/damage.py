"""What a decoder makes of bytes that may be broken."""

from __future__ import annotations

from collections.abc import Callable

from auditor.errors import DecodeError, RuleError


def refusal(decode: Callable[[bytes], object], data: bytes) -> DecodeError | RuleError[object] | None:
    """The typed error with which ``decode`` refuses ``data``, None if it takes them; others escape."""
    try:
        decode(data)
    except (DecodeError, RuleError) as error:
        return error
    return None


def points_within(error: DecodeError | RuleError[object] | None, data: bytes) -> bool:
    """Whether an error, if there is one and it is about bytes, points into them."""
    return not isinstance(error, DecodeError) or 0 <= error.offset <= len(data)
