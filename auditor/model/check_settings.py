"""Constants of checks, each with its default, unit, bounds and the reason for the default.

The fields of `CheckSettings` declare each constant once. A user can change values in the table ``constants``
of the file that ``--check-settings`` names. A check declares the constants that it uses in ``settings`` of
its decorator. In earlier versions the constants were fixed. The defaults are those fixed values, so they give
the same findings.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypedDict, get_args, get_type_hints

from auditor.errors import UsageError
from auditor.model.finding_words import CheckId
from auditor.model.json_shape import Count, about

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class StricterDirection(StrEnum):
    """Direction in which a constant can differ from its default without hiding dangers from checks."""

    ANY = "any"  # no hold depends on it
    LOWER = "lower"
    HIGHER = "higher"
    DEFAULT = "default"  # any other value may find fewer


@dataclass(frozen=True, slots=True)
class Constant:
    """Description of a constant, without its default.

    ``stricter_side`` is the safe direction. With a value on this side of the default, the check does not find
    fewer dangers. With any other value, it may overlook a danger for which an action must be forbidden. The
    gate, which permits or refuses actions, then refuses every action that this check could forbid.
    """

    unit: str
    reason: str
    low: int
    high: int
    stricter_side: StricterDirection = StricterDirection.ANY


class CheckConstant(TypedDict):
    """A constant of checks: its value in this run, its default, its unit, and the reason for the default."""

    name: str
    value: Count
    default: Count
    unit: str
    reason: str


class ChosenChecks(TypedDict):
    """The choice of checks in a run, and the constants of all checks.

    ``not_run`` are checks that were left out. ``unheld`` also has the checks that may overlook a danger.
    """

    not_run: Annotated[
        list[CheckId], about("checks that were left out; nothing is known about their subjects")
    ]
    unheld: Annotated[
        list[CheckId],
        about(
            "the checks in not_run, and checks with a constant that may hide dangers; actions that these "
            "checks could forbid are refused"
        ),
    ]
    constants: list[CheckConstant]


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The constants of all checks. All values are whole numbers.

    >>> CheckSettings(stuck_hours=48).stuck_limit_ms
    172800000

    >>> CheckSettings(stuck_hours=0)
    Traceback (most recent call last):
    auditor.errors.UsageError: stuck_hours: 0 is below the minimum of 1 (unit: hours)

    Raises:
        UsageError: a value has the wrong type or is out of bounds. The message names the constant and the
            value.
    """

    stuck_hours: Annotated[
        int,
        Constant(
            "hours",
            "Replication workers and recovery finish within hours. A day leaves time for an outage.",
            1,
            8_760,
        ),
    ] = 24
    lock_minutes: Annotated[
        int,
        Constant(
            "minutes",
            "Garbage collection locks a ledger only briefly. A worker that gives up on a ledger keeps "
            "its lock for 5 minutes.",
            10,
            10_080,
        ),
    ] = 60
    empty_directories: Annotated[
        int,
        Constant(
            "directories",
            "A worker that stops half-way leaves a few empty directories. Only large numbers of them "
            "slow down listings.",
            1,
            1_000_000,
        ),
    ] = 100
    check_overdue_days: Annotated[
        int,
        Constant("days", "The auditor checks all ledgers every 7 days by default.", 1, 3_650),
    ] = 30
    recovery_delay_hours: Annotated[
        int,
        Constant(
            "hours",
            "lostBookieRecoveryDelay bridges restarts and maintenance, which rarely take a day.",
            1,
            8_760,
        ),
    ] = 24
    open_days: Annotated[
        int,
        Constant(
            "days",
            "Pulsar rolls ledgers over within 4 hours. Other writers keep a ledger open for days, rarely for "
            "a month.",
            1,
            3_650,
        ),
    ] = 30
    orphan_share_percent: Annotated[
        int,
        Constant(
            "percent of a bookie's ledgers",
            "Retention rules of applications delete a few percent of the ledgers between two garbage "
            "collections. If more ledgers lack metadata, metadata may be lost.",
            0,
            100,
            StricterDirection.LOWER,
        ),
    ] = 5
    least_orphans: Annotated[
        int,
        Constant(
            "ledgers",
            "A new bookie has so few ledgers that a handful of deletions is a large share.",
            1,
            1_000_000,
            StricterDirection.LOWER,
        ),
    ] = 100
    vanished_block_ids: Annotated[
        int,
        Constant(
            "ids",
            "A leaf of the ledger tree in ZooKeeper has 10,000 ids. If it is lost, all of them are lost.",
            100,
            100_000_000,
            StricterDirection.DEFAULT,
        ),
    ] = 10_000
    vanished_ledgers: Annotated[
        int,
        Constant(
            "ledgers",
            "If a block of ids has fewer ledgers, their application may have deleted all of them.",
            1,
            1_000_000,
            StricterDirection.LOWER,
        ),
    ] = 100
    large_orphan_share_percent: Annotated[
        int,
        Constant(
            "percent of a bookie's ledgers",
            "On a bookie with few ledgers, even such a large share is only a reason to doubt the metadata.",
            0,
            100,
            StricterDirection.LOWER,
        ),
    ] = 20
    least_unexplained: Annotated[
        int,
        Constant(
            "ledgers",
            "A new cluster that creates and deletes a few ledgers is healthy.",
            1,
            1_000_000,
            StricterDirection.LOWER,
        ),
    ] = 5
    content_margin: Annotated[
        int,
        Constant(
            "ledgers that match another bookie for each ledger that matches this bookie",
            "Replacement of ensemble members leaves a few ledgers that match another bookie.",
            1,
            1_000_000,
            StricterDirection.LOWER,
        ),
    ] = 10
    id_spread: Annotated[
        int,
        Constant(
            "ids for each listed ledger",
            "Ids from the id generator are close together. An application that chooses its ids spreads them.",
            1,
            1_000_000_000,
            StricterDirection.HIGHER,
        ),
    ] = 1_000
    stuck_passes: Annotated[
        int,
        Constant(
            "intervals of garbage collection",
            "After one interval, the next collection may be due but not run yet.",
            1,
            1_000,
        ),
    ] = 2
    compaction_intervals: Annotated[
        int,
        Constant(
            "intervals of compaction",
            "After one interval, the next compaction may be due but not run yet.",
            1,
            1_000,
        ),
    ] = 2

    def __post_init__(self) -> None:
        for name, constant in constants().items():
            _check_value(name, constant, getattr(self, name))

    @classmethod
    def from_values(cls, values: Mapping[str, Any], table_name: str) -> CheckSettings:
        """Return settings from the table ``constants`` of a file. Messages call the table ``table_name``.

        Raises:
            UsageError: a name is not that of a constant, or a value is invalid. For a wrong name, the message
                suggests the most similar constant.
        """
        for name in values:
            if name not in constants():
                raise UsageError(f"{table_name}: {name}: no such constant; {suggest_name(name, constants())}")
        try:
            return cls(**values)
        except UsageError as error:
            raise UsageError(f"{table_name}: {error}") from error

    @property
    def stuck_limit_ms(self) -> int:
        """``stuck_hours`` in milliseconds."""
        return self.stuck_hours * _HOUR_MS

    @property
    def stuck_duration_text(self) -> str:
        """``stuck_hours`` in words, as findings print it.

        >>> CheckSettings().stuck_duration_text, CheckSettings(stuck_hours=48).stuck_duration_text
        ('a day', '48 hours')
        """
        return "a day" if self.stuck_hours == 24 else f"{self.stuck_hours} hours"

    @property
    def check_overdue_ms(self) -> int:
        """``check_overdue_days`` in milliseconds."""
        return self.check_overdue_days * _DAY_MS

    @property
    def open_limit_ms(self) -> int:
        """``open_days`` in milliseconds."""
        return self.open_days * _DAY_MS

    def find_loose_constants(self) -> tuple[str, ...]:
        """Return the names of constants with which a check may find fewer dangers than with the defaults.

        >>> CheckSettings(least_orphans=50, orphan_share_percent=50).find_loose_constants()
        ('orphan_share_percent',)
        """
        return tuple(name for name in constants() if not self._is_at_least_as_strict(name))

    def _is_at_least_as_strict(self, name: str) -> bool:
        value, default = getattr(self, name), default_value(name)
        match constants()[name].stricter_side:
            case StricterDirection.ANY:
                return True
            case StricterDirection.LOWER:
                return bool(value <= default)
            case StricterDirection.HIGHER:
                return bool(value >= default)
            case _:
                return bool(value == default)


@cache
def constants() -> dict[str, Constant]:
    """Return the description of every constant, by name, in order of declaration."""
    hints = get_type_hints(CheckSettings, include_extras=True)
    return {setting.name: get_args(hints[setting.name])[1] for setting in fields(CheckSettings)}


@cache
def default_value(name: str) -> int:
    """Return the default of a constant."""
    return int(getattr(CheckSettings(), name))


def suggest_name(name: str, names: Collection[str]) -> str:
    """Return a text that suggests a correct name: the one in ``names`` most similar to ``name``.

    If no name is similar, the text lists all names.

    >>> names = ["open_days", "stuck_hours"]
    >>> suggest_name("open_day", names), suggest_name("x", names)
    ('did you mean open_days?', 'valid names: open_days, stuck_hours')
    """
    close_names = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close_names[0]}?" if close_names else f"valid names: {', '.join(names)}"


def _check_value(name: str, constant: Constant, value: Any) -> None:
    # Python counts True as an int; in a file it is not a number.
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name}: {value!r} is not a whole number")
    if value < constant.low:
        raise UsageError(f"{name}: {value} is below the minimum of {constant.low} (unit: {constant.unit})")
    if value > constant.high:
        raise UsageError(f"{name}: {value} is above the maximum of {constant.high} (unit: {constant.unit})")
