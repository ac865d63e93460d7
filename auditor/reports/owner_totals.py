"""Totals by tenant, namespace or topic as a table of text."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model.amounts import size
from auditor.model.finding import Severity
from auditor.model.owners import NO_OWNER, NOBODY, Level, OwnerTotal
from auditor.reports.plain_text import printable
from auditor.reports.text_table import text_table


def render(totals: Sequence[OwnerTotal], level: Level) -> str:
    """One line per tenant, namespace or topic.

    >>> print(render([OwnerTotal("shop", 2, 700, 1, entries=9, findings={"error": 1})], "tenant"))
    tenant  ledgers  bytes  entries  dangling  leaked  leaked bytes  leaked entries  findings
    shop    2        700 B  9        1         0       0 B           0               1 error
    """
    head = (
        *(level, "ledgers", "bytes", "entries", "dangling", "leaked", "leaked bytes", "leaked entries"),
        "findings",
    )
    return "\n".join(text_table(head, map(_row, totals)))


def findings_text(total: OwnerTotal) -> str:
    """How many findings of each severity, the worst first; empty without any.

    >>> findings_text(OwnerTotal("shop", findings={"note": 1_000, "error": 2}))
    '2 error, 1,000 note'
    """
    counts = ((severity, total.findings.get(str(severity), 0)) for severity in Severity)
    return ", ".join(f"{count:,} {severity}" for severity, count in counts if count)


def _row(total: OwnerTotal) -> tuple[str, ...]:
    return (
        NO_OWNER if total.name == NOBODY else printable(total.name),
        f"{total.ledgers:,}",
        size(total.bytes),
        f"{total.entries:,}",
        f"{total.dangling:,}",
        f"{total.unowned:,}",
        size(total.leaked_bytes),
        f"{total.leaked_entries:,}",
        findings_text(total) or "-",
    )
