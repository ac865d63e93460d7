"""The owners of a run's ledgers: totals by tenant, namespace and topic, and leaks.

A leak is a ledger without an owner, which the check ``ledger-unowned`` finds. The module reads the table
``ownership`` and the findings batch by batch in Arrow. In memory, it keeps one row for each topic with a
ledger. To sort the leaks, it also keeps one Arrow row for each leak.
"""

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import RunUsageError
from auditor.keys.pulsar import MANAGED_LEDGERS, SCHEMAS, Names, NodeKind, names_of
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Severity
from auditor.model.report_source import NOBODY, OWNER_LEVELS, Leak, LeakTotals, OwnerLevel, OwnerTotal
from auditor.model.source_scope import SourceScope
from auditor.runs.reader import RunReader


def names_of_claim(claim: str) -> Names | None:
    """Return the names in a claim. None if the claim is not a path of Pulsar.

    A claim is the path that a ledger's custom metadata gives for the ledger's owner. A chroot may precede
    the path.

    >>> names = names_of_claim("/east/managed-ledgers/shop/orders/persistent/returns/audit")
    >>> (names.tenant, names.namespace, names.topic, names.cursor)
    ('shop', 'orders', 'returns', 'audit')
    >>> names_of_claim("/elsewhere") is None
    True
    """
    for pulsar_tree in (MANAGED_LEDGERS, SCHEMAS):
        _, separator, path_below_tree = claim.partition(f"/{pulsar_tree}/")
        if separator:
            return names_of(f"{pulsar_tree}/{path_below_tree}")
    return None


OwnerNames = tuple[str | None, ...]
"""Tenant, namespace and topic of an owner. A name is None if it is unknown or if there is no owner."""

NAME_COLUMNS = ("tenant", "namespace", "topic")
_OWNER_COLUMNS = (*NAME_COLUMNS, "standing", "claim", "borrowed", "length", "last_entry_id")


def has_owners(run: RunReader) -> bool:
    """Return whether the run read the owners (such as Pulsar topics) of ledgers."""
    return "ownership" in run.table_names()


def has_every_owner(run: RunReader) -> bool:
    """Return whether the stores of ledger owners are proved complete. False for an older version's run."""
    store_scopes = owner_scopes(run)
    return bool(store_scopes) and all(store_scope.is_proved for store_scope in store_scopes)


def owner_scopes(run: RunReader) -> list[SourceScope]:
    """Return what each store of ledger owners claims to cover, and the part of this claim that is proved.

    Empty if the run read no owners or is of an older version.
    """
    if "owner_stores" not in run.table_names():
        return []
    names = [scope_field.name for scope_field in fields(SourceScope)]
    return [SourceScope(**row) for row in run.table("owner_stores").select(names).to_pylist()]


def owned_mask(ownership: pa.RecordBatch) -> pa.BooleanArray:
    """Return a mask of the rows of the table ``ownership`` whose ledger has an owner.

    The mask is False for a row of a shadow topic that borrows the ledger. Such a row does not name the owner.
    """
    is_owned = pc.equal(ownership["standing"], "owned")
    return pc.fill_null(pc.and_(is_owned, pc.invert(pc.fill_null(ownership["borrowed"], False))), False)


class OwnerTotals:
    """Totals of a run's tenants, namespaces and topics, read once for all three levels.

    Raises:
        RunError: the run did not read owners (RunUsageError), or a table is broken.
    """

    def __init__(self, run: RunReader) -> None:
        if not has_owners(run):
            raise RunUsageError(f"{run.path}: no owners of ledgers were read; audit with --owners")
        self._run = run

    def totals_of(self, owner_level: OwnerLevel) -> list[OwnerTotal]:
        """Return the total of each tenant, namespace or topic.

        The totals with the worst findings come first. Totals with equal findings are sorted by name.
        """
        level_name_count = OWNER_LEVELS.index(owner_level) + 1
        totals: dict[str, OwnerTotal] = {}
        for names, topic_total in self._totals_by_topic.items():
            name = "/".join(map(str, names[:level_name_count])) if all(names[:level_name_count]) else NOBODY
            totals.setdefault(name, OwnerTotal(name)).add(topic_total)
        return sorted(totals.values(), key=lambda total: (*_severity_order(total), total.name))

    @cached_property
    def _totals_by_topic(self) -> dict[OwnerNames, OwnerTotal]:
        totals: dict[OwnerNames, OwnerTotal] = {}
        topic_groups = (
            _sum_by_owner(batch).to_pylist()
            for batch in self._run.batches("tables/ownership", _OWNER_COLUMNS)
        )
        for row in chain.from_iterable(topic_groups):
            total = totals.setdefault(_owner_names(row), OwnerTotal(NOBODY))
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
            names = tuple(owner.get(name) for name in NAME_COLUMNS)
            finding_counts = totals.setdefault(names, OwnerTotal(NOBODY)).findings
            finding_counts[severity] = finding_counts.get(severity, 0) + 1
        return totals


def _owner_names(row: dict[str, Any]) -> OwnerNames:
    """Return the owner of a group of ledgers, from its row.

    For leaks (ledgers without an owner), this is the last owner that their custom metadata names.
    """
    owner_names = names_of_claim(row["claim"]) if row["claim"] else None
    return tuple(row[name] if owner_names is None else getattr(owner_names, name) for name in NAME_COLUMNS)


def _severity_order(total: OwnerTotal) -> tuple[int, ...]:
    """Return a sort key for totals, which puts the total with the worst findings first.

    It has the negated number of findings of each severity, the worst severity first.
    """
    return tuple(
        -total.findings.get(str(severity), 0)
        for severity in sorted(Severity, key=lambda ranked_severity: ranked_severity.rank)
    )


def _sum_by_owner(batch: pa.RecordBatch) -> pa.Table:
    # Other standings are of nobody, or of nothing there.
    has_no_owner = pc.is_in(batch["standing"], pa.array(["dangling", "unowned"]))
    ledgers = batch.filter(pc.or_(owned_mask(batch), has_no_owner))
    amount_columns = {
        "bytes": pc.max_element_wise(ledgers["length"], 0),
        "entries": pc.max_element_wise(pc.add(ledgers["last_entry_id"], 1), 0),
    }
    group_columns = [*NAME_COLUMNS, "standing"]
    claim = pc.if_else(pc.equal(ledgers["standing"], "unowned"), ledgers["claim"], None)
    ownership_rows = pa.table(
        {**{name: ledgers[name] for name in group_columns}, "claim": claim, **amount_columns}
    )
    return ownership_rows.group_by([*group_columns, "claim"]).aggregate(
        [("bytes", "sum"), ("entries", "sum"), ([], "count_all")]
    )


def _owners_of_findings(run: RunReader) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the severity and the owner of every finding about a ledger with an owner."""
    for batch in run.batches("findings", ["severity", "evidence"]):
        owner_findings = batch.filter(pc.match_substring(batch["evidence"], '"owner":'))
        for severity, evidence in zip(
            *(finding_column.to_pylist() for finding_column in owner_findings.columns), strict=True
        ):
            owner = json.loads(evidence).get("owner")
            if isinstance(owner, dict):
                yield severity, owner


UNOWNED_CHECK = "ledger-unowned"
_LEAK_ROW_SCHEMA = pa.schema(
    [
        ("rank", pa.int8()), ("bytes", pa.int64()), ("scope_id", pa.int64()), ("ledger_id", pa.int64()),
        ("confidence", pa.string()),
        ("claim", pa.string()), ("made", pa.int64()), ("entries", pa.int64()), ("state", pa.string()),
        ("doubt", pa.string()), ("seen_before", pa.bool_()),
    ]
)  # fmt: skip


_LEAK_COLUMNS = ("confidence", "claim", "made", "bytes", "entries", "state", "doubt")


class Leaks:
    """All leaks (unowned ledgers) of a run, read once. Confirmed leaks come first, then others.

    Among leaks of the same confidence, larger ones come first.

    Raises:
        RunUsageError: the run read no owners, so its leaks are unknown.
        RunError: a table of the run is broken.
    """

    def __init__(self, run: RunReader) -> None:
        if not has_owners(run):
            raise RunUsageError(f"{run.path}: no owners of ledgers were read; audit with --owners")
        leak_batches = [
            pa.RecordBatch.from_pylist(rows, schema=_LEAK_ROW_SCHEMA) for rows in _leak_row_batches(run)
        ]
        sort_keys = [
            ("rank", "ascending"),
            ("bytes", "descending"),
            *((name, "ascending") for name in LEDGER),
        ]
        self._table = pa.Table.from_batches(leak_batches, schema=_LEAK_ROW_SCHEMA).sort_by(sort_keys)

    def __iter__(self) -> Iterator[Leak]:
        for batch in self._table.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                yield _make_leak(row)

    def totals(self) -> LeakTotals:
        """Return the numbers, bytes and entries of all leaks (ledgers without an owner)."""
        leaks = self._table
        confirmed_leaks = leaks.filter(pc.equal(leaks["confidence"], str(Confidence.CONFIRMED)))
        sum_columns = (leaks["bytes"], confirmed_leaks["bytes"], leaks["entries"])
        leak_sums = (int(pc.sum(leak_column).as_py() or 0) for leak_column in sum_columns)
        return LeakTotals(leaks.num_rows, confirmed_leaks.num_rows, *leak_sums)


def last_owner(claim: str) -> str:
    """Return a text that names the owner in a claim (the owner's path in a ledger's custom metadata).

    >>> last_owner("/east/managed-ledgers/shop/orders/persistent/returns/audit")
    'subscription audit of shop/orders/returns'
    >>> last_owner("/elsewhere")
    '/elsewhere'
    """
    names = names_of_claim(claim)
    return claim if names is None else _claim_text(names, claim)


def _claim_text(names: Names, claim: str) -> str:
    topic = "/".join(name for name in (names.tenant, names.namespace, names.topic) if name)
    if names.kind is NodeKind.CURSOR:
        return f"subscription {names.cursor} of {topic}"
    owner_texts = {NodeKind.TOPIC: f"topic {topic}", NodeKind.SCHEMA: f"schema {topic}"}
    return owner_texts.get(names.kind, claim)


def _leak_row_batches(run: RunReader) -> Iterator[list[dict[str, Any]]]:
    for batch in run.batches("findings", ["id", *LEDGER, "confidence", "evidence"]):
        unowned_findings = batch.filter(pc.equal(batch["id"], UNOWNED_CHECK))
        yield [_leak_row(finding) for finding in unowned_findings.to_pylist()]


def _leak_row(finding: dict[str, Any]) -> dict[str, Any]:
    evidence = json.loads(finding["evidence"])
    last_entry, length_bytes = evidence.get("last_entry_id"), evidence.get("length")
    is_closed = evidence.get("state") == "CLOSED"
    return {
        "rank": 0 if finding["confidence"] == Confidence.CONFIRMED else 1,
        "bytes": max(int(length_bytes), 0) if is_closed and length_bytes is not None else None,
        **{name: finding[name] for name in LEDGER},
        "confidence": finding["confidence"],
        "claim": evidence.get("claim") or "",
        "made": evidence.get("made"),
        "entries": max(int(last_entry) + 1, 0) if is_closed and last_entry is not None else None,
        "state": evidence.get("state"),
        "doubt": evidence.get("doubt"),
        "seen_before": bool(evidence.get("seen_before")),
    }


def _make_leak(row: dict[str, Any]) -> Leak:
    history_clause = "; an earlier run found the same" if row["seen_before"] else "; seen for the first time"
    reason = f"{row['claim']} does not name this ledger{history_clause}"
    leak_columns = {name: row[name] for name in _LEAK_COLUMNS}
    return Leak(row["ledger_id"], owner=last_owner(row["claim"]), why=reason, **leak_columns)
