"""A finding from its row of the findings table."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from auditor.model.finding import Confidence, Finding, Group, Missing, Severity, Urgency
from auditor.model.json_shape import parse_json

_GROUP = struct.Struct(">qqii")


def group_tuples(data: bytes) -> tuple[Group, ...]:
    """A table's 24-byte groups as numbers: first start, last start, size, period.

    >>> group_tuples(bytes(7) + b"\\x04" + bytes(7) + b"\\x04" + bytes(3) + b"\\x01" + bytes(4))
    ((4, 4, 1, 0),)
    """
    return tuple((first, last, size, period) for first, last, size, period in _GROUP.iter_unpack(data))


def finding_of(row: Mapping[str, Any]) -> Finding:
    """A finding from its row, as Spark or Arrow gives it."""
    return Finding(
        id=row["id"],
        severity=Severity(row["severity"]),
        confidence=Confidence(row["confidence"]),
        scope_id=row["scope_id"],
        ledger_id=row["ledger_id"],
        bookie_id=row["bookie_id"],
        missing=tuple(
            Missing(part["bookie_id"], group_tuples(part["groups"]), part["count"]) for part in row["missing"]
        ),
        unknown=tuple(row["unknown"]),
        message=row["message"],
        evidence=parse_json(row["evidence"]),
        fingerprint=row["fingerprint"],
        # An older run's table has none of these.
        urgency=Urgency(row.get("urgency") or Urgency.REST),
        cause=row.get("cause"),
    )
