"""Rows of findings about bookies: every column of a finding filled, in words a person reads.

What a check does not say is null, no entries, or confirmed, as `auditor.checks.finding_rows` has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from auditor.model.finding import Confidence, Severity
from auditor.tables.roster import Row


def bookie_finding(
    bookie_id: str | None,
    message: str,
    evidence: Mapping[str, Any],
    *,
    severity: Severity | None = None,
    confidence: Confidence = Confidence.CONFIRMED,
    unknown: Sequence[str] = (),
) -> Row:
    """One finding, in the columns of FINDING_COLUMNS; without ``severity`` it has that of its check.

    >>> bookie_finding("bk1", "bk1 is odd", {"registered": None})["evidence"]
    '{"registered":null}'
    """
    return {
        "severity": None if severity is None else str(severity),
        "confidence": str(confidence),
        "scope_id": None,
        "ledger_id": None,
        "bookie_id": bookie_id,
        "missing": [],
        "unknown": list(unknown),
        "message": message,
        "evidence": json.dumps(evidence, separators=(",", ":"), ensure_ascii=False),
    }


def suspect_where(condition: bool) -> Confidence:
    """How sure a finding is: suspect where the condition holds, else confirmed."""
    return Confidence.SUSPECT if condition else Confidence.CONFIRMED


def number_of(number: int, one: str, many: str) -> str:
    """A number of things, as `auditor.checks.finding_rows.quantity` writes it.

    >>> number_of(1, "ledger names", "ledgers name"), number_of(0, "ledger names", "ledgers name")
    ('1 ledger names', '0 ledgers name')
    """
    return f"{number} {one if number == 1 else many}"


def sorted_facts(rows: Iterable[Mapping[str, Any]], *fields: str) -> list[Row]:
    """These fields of the rows, in the order of their values; what is null comes first.

    >>> sorted_facts([{"path": "b", "at": 1}, {"path": "a", "at": 2}], "path")
    [{'path': 'a'}, {'path': 'b'}]
    """
    each = [{name: row[name] for name in fields} for row in rows]
    return sorted(each, key=lambda row: [(value is not None, value) for value in row.values()])


def together(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Any, list[Row]]:
    """The rows by what ``key`` says of each, in the order in which each key comes first.

    >>> together([{"n": 1}, {"n": 3}, {"n": 2}], lambda row: row["n"] % 2)
    {1: [{'n': 1}, {'n': 3}], 0: [{'n': 2}]}
    """
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
