"""Types of options, and validation of option values."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from auditor.errors import UsageError
from auditor.model.finding import Severity

NEW_FINDINGS = "new"
FailOn = Severity | Literal["new"]
"""Value of --fail-on: the lowest severity that fails an audit, or "new".

With "new", only findings of severity error or critical fail an audit: those that are new, or worse than in
the run before.
"""

YesNo = Literal["yes", "no"]
"""Value of an option that the words yes and no switch on and off."""

TextValues = str | Sequence[str]
"""Value of an option that takes one text or several; it is kept as a tuple."""

TimeValue = int | str | datetime
"""Value of an option that takes a time: ms since 1970, or ISO 8601. It is kept as milliseconds."""


@dataclass(frozen=True, slots=True)
class Option:
    """Description of an option. Its type and its default are declared elsewhere."""

    help: str
    low: float | None = None
    high: float | None = None
    pattern: str | None = None
    """Regular expression that must match the whole text."""
    pattern_note: str = ""
    """Description of the texts that ``pattern`` allows, for messages."""
    placeholder: str = ""
    """Placeholder of the value in help texts: FILE, RUN, TIME."""


def check_value(name: str, value_type: Any, option: Option, value: Any) -> Any:
    """Check the value of an option, and return it in the form in which the option is stored.

    Args:
        name: name of the option.
        value_type: type of the option.
        option: description of the option, with its bounds and pattern.
        value: the value to check.

    Raises:
        UsageError: the value has the wrong type or is out of bounds. The message names the option and the
            value.
    """
    if value is None and value_type in (str | None, TimeValue | None):
        return None
    if value_type == FailOn:
        _check_choice(name, (*Severity, NEW_FINDINGS), value)
        return NEW_FINDINGS if value == NEW_FINDINGS else Severity(value)
    if value_type == YesNo:
        return _check_choice(name, get_args(YesNo), value)
    if value_type is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{name}: {value!r} is neither true nor false")
        return value
    if value_type == TextValues:
        return _check_texts(name, option, value)
    if value_type in (str, str | None):
        return _check_text(name, option, value)
    if value_type == (TimeValue | None):
        value = _parse_moment_value(name, value)
    return _check_number(name, value_type, option, value)


def _check_choice(name: str, choices: Collection[str], value: Any) -> Any:
    if value not in choices:
        raise UsageError(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return value


def _check_text(name: str, option: Option, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name}: {value!r} is empty or not a string")
    if option.pattern is not None and not re.fullmatch(option.pattern, value):
        raise UsageError(f"{name}: {value!r} is not {option.pattern_note}")
    return value


def _check_texts(name: str, option: Option, value: Any) -> tuple[str, ...]:
    # Options files and callers of earlier releases pass one text, or None.
    texts = (value,) if isinstance(value, str) else value or ()
    if not isinstance(texts, (list, tuple)):
        raise UsageError(f"{name}: {value!r} is neither a string nor a list of strings")
    return tuple(_check_text(name, option, text) for text in texts)


def _check_number(name: str, value_type: Any, option: Option, value: Any) -> int | float:
    is_whole = value_type is not float
    # Python counts True as an int; in an options file it is not a number.
    if isinstance(value, bool) or not isinstance(value, int if is_whole else (int, float)):
        raise UsageError(f"{name}: {value!r} is not a {'whole number' if is_whole else 'number'}")
    max_value = _MAX_LONG if option.high is None else option.high
    # Written so that NaN, which compares with nothing, is out of bounds as well.
    if option.low is not None and not value >= option.low:
        raise UsageError(f"{name}: {value} is below {option.low:g}")
    if not value <= max_value:
        raise UsageError(f"{name}: {value} is above {max_value:g}")
    return value if is_whole else float(value)


def _parse_moment_value(name: str, value: Any) -> Any:
    """Convert a time to milliseconds. Any other value is returned unchanged, for the next check to refuse."""
    if isinstance(value, str) and not value.isdecimal():
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise UsageError(
                f"{name}: {value!r} is not a time; use milliseconds since 1970, or ISO 8601"
            ) from error
    if isinstance(value, datetime):
        zoned_time = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(zoned_time.timestamp() * 1000)
    return int(value) if isinstance(value, str) else value


_MAX_LONG = 2**63 - 1
