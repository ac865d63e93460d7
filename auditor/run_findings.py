"""The findings of a finished run, read as often as they are asked for and never held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from auditor.errors import RunError
from auditor.findings.rows import finding_of
from auditor.model.finding import Finding, Severity
from auditor.run_tables import RunTables


class Findings:
    """Every finding of a run, in the order severity, id, scope, ledger, bookie, as it was written.

    Iterating reads the table anew, batch by batch; ten million findings need no more memory than ten.

    Raises:
        RunError: while iterating, where the table is missing, broken or out of order.
    """

    def __init__(self, tables: RunTables) -> None:
        self._tables = tables

    def __iter__(self) -> Iterator[Finding]:
        path = f"{self._tables.path}/findings"
        previous: tuple[Any, ...] | None = None
        for batch in self._tables.batches("findings"):
            for row in batch.to_pylist():
                try:
                    finding = finding_of(row)
                except (KeyError, ValueError, TypeError) as error:
                    raise RunError(f"{path}: a row cannot be read: {error}") from error
                place = _place(finding)
                if previous is not None and place < previous:
                    raise RunError(f"{path}: {finding.id} is out of order; was a file renamed?")
                previous = place
                yield finding


def _place(finding: Finding) -> tuple[Any, ...]:
    numbers = (finding.scope_id, finding.ledger_id)
    # As Spark sorts: what is not there comes first.
    absent_first = tuple((number is not None, number or 0) for number in numbers)
    return (
        list(Severity).index(finding.severity),
        finding.id,
        *absent_first,
        (finding.bookie_id is not None, finding.bookie_id or ""),
    )
