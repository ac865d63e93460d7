"""A finished run as one who has to act on it needs it: its report, and why it saw no more than it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from auditor.model.finding import Severity
from auditor.model.report import Report
from auditor.model.standing import Standing


@dataclass(frozen=True, slots=True)
class UnreadBookie:
    """A bookie that was not read to the end; ``replicas`` of ledgers should hold judged entries there."""

    bookie_id: str
    read: str  # partial or unread
    reason: str | None
    replicas: int


@dataclass(frozen=True)
class RunView:
    """``unread`` are bookies that were not read whole, a bounded number of them, the most needed first.

    ``directories`` of bookies were found, 0 where bookies were only asked. ``fail_on`` and
    ``fail_on_suspect`` are the options that the exit code came from; None where the run does not say.
    ``standings`` are those of the report's findings, by fingerprint.
    """

    path: str
    report: Report
    directories: int
    unread: tuple[UnreadBookie, ...] = ()
    fail_on: Severity | Literal["new"] | None = None
    fail_on_suspect: bool = False
    standings: Mapping[str, Standing] = field(default_factory=dict)
