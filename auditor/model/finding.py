"""Findings of an audit: severity, urgency, confidence, and how a finding changed since earlier runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from auditor.model.ledger_id import LedgerId

Group = tuple[int, int, int, int]
"""A BP-34 SequenceGroup: first_start, last_start, size, period."""


class Severity(StrEnum):
    """Severity of a finding. The members are ordered from the worst to the least severe.

    >>> [str(severity) for severity in Severity]
    ['critical', 'error', 'warning', 'note']
    >>> Severity.ERROR.at_least(Severity.WARNING)
    True
    """

    CRITICAL = "critical"  # no copy left, or the next start, GC or replication could destroy it
    ERROR = "error"  # fewer copies than were acknowledged, or data at risk
    WARNING = "warning"  # fewer copies than were asked for; nothing is lost yet
    NOTE = "note"  # worth knowing

    @property
    def rank(self) -> int:
        """Position of this severity in the order. 0 is the worst severity."""
        return list(Severity).index(self)

    def at_least(self, threshold: Severity) -> bool:
        """Return whether this severity is ``threshold`` or worse."""
        return self.rank <= threshold.rank


class Urgency(StrEnum):
    """Urgency of a finding. The members are ordered from the most to the least urgent.

    Lists of findings are sorted first by urgency, then by severity.

    >>> Urgency.LOST.rank < Urgency.NOT_URGENT.rank
    True
    """

    DESTROYS_DATA = "destroys-data"  # the next collection, start or replication pass can destroy it
    LOST = "lost"  # no copy is left where there should be one
    NEAR_LOSS = "near-loss"  # one more failure loses an entry
    BELOW_ACK_QUORUM = "below-ack-quorum"  # fewer copies than were acknowledged
    UNCHECKED = "unseen"  # was not checked, and may be any of the above
    NOT_URGENT = "rest"

    @property
    def rank(self) -> int:
        """Position of this urgency in the order. 0 is the most urgent."""
        return list(Urgency).index(self)


URGENCY_LABELS = {
    Urgency.DESTROYS_DATA: "data about to be deleted",
    Urgency.LOST: "data lost",
    Urgency.NEAR_LOSS: "one failure from loss",
    Urgency.BELOW_ACK_QUORUM: "below ack quorum",
    Urgency.UNCHECKED: "not checked",
}
"""Headings on a screen for findings of each urgency except the lowest."""

SEVERITY_LABELS = {
    Severity.CRITICAL: "critical findings",
    Severity.ERROR: "errors",
    Severity.WARNING: "warnings",
    Severity.NOTE: "notes",
}
"""Headings on a screen for findings of the lowest urgency, by severity."""


class Confidence(StrEnum):
    """Certainty of a finding, independent of its severity."""

    CONFIRMED = "confirmed"  # checked against both scans at one version of the ledger
    SUSPECT = "suspect"  # observed, but there may be another explanation
    UNKNOWN = "unknown"  # could not be read


@dataclass(frozen=True, slots=True)
class Missing:
    """The entries of a ledger that one bookie should have and does not have."""

    bookie_id: str
    groups: tuple[Group, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, with the same fields as in reports and in the findings table.

    ``ledger_id`` is None if the finding is not about a single ledger. ``bookie_id`` is None if the finding is
    not about a single bookie. ``missing`` has the missing entries of each bookie, in ascending order.
    ``cause`` is the number of the cause that explains the finding, in the run's facts. It is None if no cause
    explains the finding.

    >>> Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED, bookie_id="bk1:3181").ledger_id is None
    True
    """

    id: str
    severity: Severity
    confidence: Confidence
    scope_id: int | None = None
    ledger_id: int | None = None
    bookie_id: str | None = None
    missing: tuple[Missing, ...] = ()
    unknown: tuple[str, ...] = ()
    message: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    urgency: Urgency = Urgency.NOT_URGENT
    cause: int | None = None

    @property
    def ledger_qualified_name(self) -> str | None:
        """Scope and ledger id in 32 hexadecimal digits (BP-35). None if the finding is about no ledger."""
        if self.scope_id is None or self.ledger_id is None:
            return None
        return LedgerId(self.ledger_id, self.scope_id).qualified_name


def glob_to_regex(pattern: str) -> str:
    r"""Convert a pattern for ids and bookies to a regular expression that works in Python and Java.

    In the pattern, only ``*`` and ``?`` are special.

    >>> glob_to_regex("bk-[1]:31?1*")
    'bk\\-\\[1\\]:31.1.*'
    >>> glob_to_regex("a**b*c")
    'a(?>.*?b).*c'
    """
    first_part, *later_parts = (
        "".join("." if character == "?" else re.escape(character) for character in literal_part)
        for literal_part in re.split(r"\*+", pattern)
    )
    # Atomic groups keep the first match: backtracking would take time exponential in the asterisks.
    middle_pattern = "".join(f"(?>.*?{part})" for part in later_parts[:-1])
    return f"{first_part}{middle_pattern}.*{later_parts[-1]}" if later_parts else first_part


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Convert a finding to JSON. All outputs of this program use the same JSON form.

    >>> finding_to_json(Finding("orphan-ledger", Severity.NOTE, Confidence.CONFIRMED, 0, 2**60))["ledger_id"]
    '1152921504606846976'
    """
    return {
        "id": finding.id,
        "urgency": str(finding.urgency),
        "severity": str(finding.severity),
        "confidence": str(finding.confidence),
        "scope_id": decimal_text(finding.scope_id),
        "ledger_id": decimal_text(finding.ledger_id),
        "ledger_qualified_name": finding.ledger_qualified_name,
        "bookie_id": finding.bookie_id,
        "missing": [
            {
                "bookie_id": missing_part.bookie_id,
                "groups": [list(group) for group in missing_part.groups],
                "count": missing_part.count,
            }
            for missing_part in finding.missing
        ],
        "unknown": list(finding.unknown),
        "message": finding.message,
        "evidence": finding.evidence,
        "fingerprint": finding.fingerprint,
        "cause": finding.cause,
    }


def finding_from_json(finding_value: Mapping[str, Any]) -> Finding:
    """Convert the JSON form that `finding_to_json` returns back to a finding.

    Raises:
        KeyError, ValueError, TypeError: a key is missing, or a value is wrong.
    """
    return Finding(
        id=finding_value["id"],
        severity=Severity(finding_value["severity"]),
        confidence=Confidence(finding_value["confidence"]),
        scope_id=_to_number(finding_value["scope_id"]),
        ledger_id=_to_number(finding_value["ledger_id"]),
        bookie_id=finding_value["bookie_id"],
        missing=tuple(
            Missing(
                missing_part["bookie_id"],
                tuple(_to_group(group) for group in missing_part["groups"]),
                missing_part["count"],
            )
            for missing_part in finding_value["missing"]
        ),
        unknown=tuple(finding_value["unknown"]),
        message=_to_text(finding_value["message"]),
        evidence=dict(finding_value["evidence"]),
        fingerprint=_to_text(finding_value["fingerprint"]),
        # Reports before version 6 lack these keys.
        urgency=Urgency(finding_value.get("urgency", Urgency.NOT_URGENT)),
        cause=finding_value.get("cause"),
    )


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a finding has {value!r} instead of a string")
    return value


def _to_group(value: list[int]) -> tuple[int, int, int, int]:
    first_start, last_start, size, period = value
    return first_start, last_start, size, period


def decimal_text(id: int | None) -> str | None:
    """Convert an id to text for JSON, because JSON numbers cannot represent all ids exactly."""
    return None if id is None else str(id)


def _to_number(text: str | None) -> int | None:
    return None if text is None else int(text)


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """State of a finding compared with the previous run.

    ``change`` is new, same, worse or better. It is empty if there is no previous run. ``first_seen`` is a
    time in milliseconds since 1970, UTC. All runs from that time to this run have the finding.
    ``suppressed`` is the reason in the suppression that accepts the finding, or None.
    """

    change: str
    first_seen: int
    suppressed: str | None = None


StatusLookup = Callable[[str], ChangeStatus | None]
"""Function that returns the `ChangeStatus` of the finding with a fingerprint; None if the run has none."""


def no_change_status(fingerprint: str) -> None:
    """Return None. This is the `StatusLookup` of a run that has no change statuses."""


@dataclass(frozen=True, slots=True)
class FindingWithHistory:
    """A finding of one run with its `ChangeStatus`. The status is None if the run has no change statuses."""

    finding: Finding
    change_status: ChangeStatus | None = None
