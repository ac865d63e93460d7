"""What a run's ledgers add up to by tenant, namespace or topic: ledgers, bytes, leaks, findings.

The table ownership is read batch by batch; what is held is one row per tenant, namespace or topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from auditor.errors import RunUsageError
from auditor.model.finding import Severity
from auditor.model.owner_total import LEVELS, NOBODY, Level, OwnerTotal
from auditor.runs.reader import RunReader

_OWN = (
    *("scope_id", "ledger_id", "standing", "tenant", "namespace", "topic", "borrowed", "length"),
    "last_entry_id",
)


def owner_totals(run: RunReader, level: Level) -> list[OwnerTotal]:
    """The totals of every tenant, namespace or topic, the one with the worst findings first, then by name.

    Raises:
        RunError: the run did not read owners (RunUsageError), or a table is broken.
    """
    if "ownership" not in run.table_names():
        raise RunUsageError(f"{run.path}: it has no table ownership: no application's owners were read")
    depth = LEVELS.index(level) + 1
    totals: dict[str, OwnerTotal] = {}

    def total(names: tuple[Any, ...]) -> OwnerTotal:
        name = "/".join(names[:depth]) if all(names[:depth]) else NOBODY
        return totals.setdefault(name, OwnerTotal(name))

    for row in _rows(run):
        found = total((row["tenant"], row["namespace"], row["topic"]))
        length = max(row["length"] or 0, 0)
        entries = max(row["last_entry_id"] + 1, 0) if row["last_entry_id"] is not None else 0
        if row["standing"] == "owned" and not row["borrowed"]:
            found.ledgers += 1
            found.bytes += length
            found.entries += entries
        elif row["standing"] == "dangling":
            found.dangling += 1
        elif row["standing"] == "unowned":
            found.unowned += 1
            found.leaked_bytes += length
            found.leaked_entries += entries
    for severity, owner in _owners_of_findings(run):
        counts = total((owner.get("tenant"), owner.get("namespace"), owner.get("topic"))).findings
        counts[severity] = counts.get(severity, 0) + 1
    return sorted(totals.values(), key=lambda each: (*_worst(each), each.name))


def _worst(total: OwnerTotal) -> tuple[int, ...]:
    """The counts of findings, the worst severity first, each the larger the earlier."""
    return tuple(-total.findings.get(str(severity), 0) for severity in sorted(Severity, key=lambda s: s.rank))


def _rows(run: RunReader) -> Iterator[dict[str, Any]]:
    for batch in run.batches("tables/ownership", _OWN):
        yield from batch.to_pylist()


def _owners_of_findings(run: RunReader) -> Iterator[tuple[str, dict[str, Any]]]:
    """The severity and the owner of every finding about a ledger that has one."""
    import pyarrow.compute as pc

    for batch in run.batches("findings", ["severity", "evidence"]):
        with_owner = batch.filter(pc.match_substring(batch["evidence"], '"owner":'))
        for severity, evidence in zip(*(column.to_pylist() for column in with_owner.columns), strict=True):
            owner = json.loads(evidence).get("owner")
            if isinstance(owner, dict):
                yield severity, owner
