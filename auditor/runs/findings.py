"""The findings of a finished run, read as often as they are asked for and never held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from auditor.errors import RunError
from auditor.findings.rows import finding_of
from auditor.model.finding import Finding, Severity
from auditor.model.report import Report
from auditor.runs.tables import RunTables


class Findings:
    """Every finding of a run, in the order severity, id, scope, ledger, bookie, as it was written.

    Iterating reads the table anew, batch by batch; ten million findings need no more memory than ten.

    Raises:
        RunError: while iterating, where the table is missing, broken or out of order.
    """

    def __init__(self, tables: RunTables, report: Report) -> None:
        self._tables = tables
        self._report = report

    def __len__(self) -> int:
        """How many there are, by the report; no table is read."""
        return sum(self._report.counts.values())

    def __repr__(self) -> str:
        counts: Counter[str] = Counter()
        for tally in self._report.run.tally:
            counts[tally["severity"]] += tally["count"]
        said = ", ".join(f"{counts[severity]:,} {severity}" for severity in Severity if counts[severity])
        return f"<findings of {self._tables.path}: {said or 'none'}; iterate to read them>"

    def _repr_html_(self) -> str:
        from auditor.reports.cells import findings_cell

        return findings_cell(self._report)

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


def findings_of(tables: RunTables, bookie_id: str) -> Iterator[dict[str, Any]]:
    """What `auditor.notebook.run.Run.findings_of` gives: findings that name a bookie anywhere, in short."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in tables.batches("findings", [*_SHORT, "bookie_id", "missing", "unknown"]):
        named = pc.fill_null(pc.equal(batch["bookie_id"], bookie_id), False).to_numpy(zero_copy_only=False)
        lacked = np.zeros(len(batch), np.int64)
        parts = pc.list_flatten(batch["missing"])
        lacking = pc.equal(pc.struct_field(parts, "bookie_id"), bookie_id)
        rows = pc.list_parent_indices(batch["missing"]).filter(lacking).to_numpy()
        np.add.at(lacked, rows, pc.struct_field(parts, "count").filter(lacking).to_numpy())
        named[rows] = True
        unknown = pc.equal(pc.list_flatten(batch["unknown"]), bookie_id)
        named[pc.list_parent_indices(batch["unknown"]).filter(unknown).to_numpy()] = True
        shown = batch.select(_SHORT).append_column("missing", pa.array(lacked))
        yield from shown.filter(pa.array(named)).to_pylist()


_SHORT = ["id", "severity", "confidence", "scope_id", "ledger_id", "fingerprint", "message"]


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
