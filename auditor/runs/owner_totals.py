"""What a run's ledgers add up to by tenant, namespace and topic: ledgers, bytes, leaks, findings.

The table ownership is added up batch by batch in Arrow; what is held is one row per topic with a ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from auditor.errors import RunUsageError
from auditor.model.finding import Severity
from auditor.model.owner_total import LEVELS, NOBODY, Level, OwnerTotal
from auditor.runs.claims import names_of_claim
from auditor.runs.reader import RunReader

if TYPE_CHECKING:
    import pyarrow as pa

Names = tuple[str | None, ...]
"""Tenant, namespace and topic of an owner; None where there is none, or it is not known."""

_NAMES = ("tenant", "namespace", "topic")
_READ = (*_NAMES, "standing", "claim", "borrowed", "length", "last_entry_id")


def has_owners(run: RunReader) -> bool:
    """Whether the run read who refers to the ledgers."""
    return "ownership" in run.table_names()


class OwnerTotals:
    """All totals of a run, read once.

    Raises:
        RunError: the run did not read owners (RunUsageError), or a table is broken.
    """

    def __init__(self, run: RunReader) -> None:
        if not has_owners(run):
            raise RunUsageError(f"{run.path}: it has no table ownership: no application's owners were read")
        self._run = run

    def by(self, level: Level) -> list[OwnerTotal]:
        """The totals of every tenant, namespace or topic: the worst findings first, then by name."""
        depth = LEVELS.index(level) + 1
        totals: dict[str, OwnerTotal] = {}
        for names, found in self._by_topic.items():
            name = "/".join(map(str, names[:depth])) if all(names[:depth]) else NOBODY
            totals.setdefault(name, OwnerTotal(name)).add(found)
        return sorted(totals.values(), key=lambda each: (*_worst(each), each.name))

    @cached_property
    def _by_topic(self) -> dict[Names, OwnerTotal]:
        totals: dict[Names, OwnerTotal] = {}
        for row in _groups(self._run):
            total = totals.setdefault(_names(row), OwnerTotal(NOBODY))
            if row["standing"] == "owned":
                total.ledgers += row["count_all"]
                total.bytes += row["bytes_sum"]
                total.entries += row["entries_sum"]
            elif row["standing"] == "dangling":
                total.dangling += row["count_all"]
            else:
                total.unowned += row["count_all"]
                total.leaked_bytes += row["bytes_sum"]
                total.leaked_entries += row["entries_sum"]
        for severity, owner in _owners_of_findings(self._run):
            names = tuple(owner.get(name) for name in _NAMES)
            counts = totals.setdefault(names, OwnerTotal(NOBODY)).findings
            counts[severity] = counts.get(severity, 0) + 1
        return totals


def _names(row: dict[str, Any]) -> Names:
    """Whose the ledgers of a group are; of leaks whose they were, as their custom metadata say."""
    claimed = names_of_claim(row["claim"]) if row["claim"] else None
    return tuple(row[name] if claimed is None else getattr(claimed, name) for name in _NAMES)


def _worst(total: OwnerTotal) -> tuple[int, ...]:
    """The counts of findings, the worst severity first, each the larger the earlier."""
    return tuple(-total.findings.get(str(severity), 0) for severity in sorted(Severity, key=lambda s: s.rank))


def _groups(run: RunReader) -> Iterator[dict[str, Any]]:
    """Of each batch, one row per topic, standing and claim: how many ledgers, their bytes and entries."""
    for batch in run.batches("tables/ownership", _READ):
        yield from _group(batch).to_pylist()


def _group(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    # What a shadow topic borrows is its source's; other standings are of nobody, or of nothing there.
    standing = batch["standing"]
    own = pc.and_(pc.equal(standing, "owned"), pc.invert(pc.fill_null(batch["borrowed"], False)))
    some = batch.filter(pc.or_(own, pc.is_in(standing, pa.array(["dangling", "unowned"]))))
    values = {
        "bytes": pc.max_element_wise(some["length"], 0),
        "entries": pc.max_element_wise(pc.add(some["last_entry_id"], 1), 0),
    }
    keys = [*_NAMES, "standing"]
    claim = pc.if_else(pc.equal(some["standing"], "unowned"), some["claim"], None)
    table = pa.table({**{name: some[name] for name in keys}, "claim": claim, **values})
    return table.group_by([*keys, "claim"]).aggregate(
        [("bytes", "sum"), ("entries", "sum"), ([], "count_all")]
    )


def _owners_of_findings(run: RunReader) -> Iterator[tuple[str, dict[str, Any]]]:
    """The severity and the owner of every finding about a ledger that has one."""
    import pyarrow.compute as pc

    for batch in run.batches("findings", ["severity", "evidence"]):
        with_owner = batch.filter(pc.match_substring(batch["evidence"], '"owner":'))
        for severity, evidence in zip(*(column.to_pylist() for column in with_owner.columns), strict=True):
            owner = json.loads(evidence).get("owner")
            if isinstance(owner, dict):
                yield severity, owner
