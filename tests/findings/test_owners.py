"""Owners in the evidence of findings: of a finding's ledger, of its sample's ledgers, or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import from_arrow_schema

from auditor.findings.confirm import add_owners
from auditor.findings.table import CHECK_RESULT_SCHEMA
from auditor.model.columns import OWNER
from auditor.tables.ownership import OWNERSHIP

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ORDERS = {"application": "pulsar", "kind": "data", "tenant": "shop", "namespace": "orders", "topic": "new"}
CURSOR = {**ORDERS, "kind": "cursor", "cursor": "audit"}
NOBODY = dict.fromkeys(OWNER)


def frame(spark: SparkSession, schema: pa.Schema, rows: list[dict[str, Any]]) -> DataFrame:
    full = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(full, from_arrow_schema(schema))


def owned(ledger_id: int, owner: dict[str, str], path: str, **overrides: Any) -> dict[str, Any]:
    usual = {"scope_id": 0, "standing": "owned", "borrowed": False}
    return {**usual, "ledger_id": ledger_id, **owner, "path": path, **overrides}


def ownerless_row(ledger_id: int, standing: str) -> dict[str, Any]:
    return {"scope_id": 0, "ledger_id": ledger_id, "standing": standing, "application": "pulsar"}


OWNED = [
    owned(7, ORDERS, "/shop/new"),
    # A second owner, and a shadow topic that borrows.
    owned(8, ORDERS, "/shop/new"),
    owned(8, ORDERS, "/shop/newer"),
    owned(8, {**ORDERS, "topic": "copy"}, "/shop/copy", borrowed=True),
    owned(9, CURSOR, "/shop/new/audit"),
    owned(10, {**ORDERS, "topic": "copy"}, "/shop/copy", borrowed=True, standing="unknown"),
    owned(30, ORDERS, "/shop/new", standing="dangling"),
    ownerless_row(11, "unowned"),
    ownerless_row(12, "unknown"),  # its owner lies in a part of the tree that was not listed
    {"scope_id": None, "ledger_id": None, "path": "/shop/damaged", "fault": "owner-unreadable"},
]


def evidence(spark: SparkSession, *findings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each finding's evidence with owners added. ``of`` is its ledger; else it is of a bookie."""
    rows = [
        {
            "id": f"made-up-{number}",
            "scope_id": 0 if "of" in finding else None,
            "ledger_id": finding.get("of"),
            "evidence": json.dumps({name: what for name, what in finding.items() if name != "of"}),
        }
        for number, finding in enumerate(findings)
    ]
    with_owners = add_owners(frame(spark, CHECK_RESULT_SCHEMA, rows), frame(spark, OWNERSHIP, OWNED))
    assert with_owners.columns == CHECK_RESULT_SCHEMA.names
    by_id = {row["id"]: json.loads(row["evidence"]) for row in with_owners.collect()}
    assert by_id.keys() == {row["id"] for row in rows}
    return [by_id[str(row["id"])] for row in rows]


def group(ledgers: list[str], standing: str, owner: dict[str, str], path: str | None) -> dict[str, Any]:
    return {"ledgers": ledgers, "standing": standing, **NOBODY, **owner, "path": path}


def test_finding_evidence_names_exactly_the_owners_of_its_ledgers(spark: SparkSession) -> None:
    findings: list[dict[str, Any]] = [
        {"of": 8, "sample": ["7", "9"]},
        {"of": 12},
        {"of": 10},
        {"ledgers": 9, "sample": ["7", "8", "9", "10", "11", "12", "13", "30", "7 of scope 1"]},
        {"aliases": [{"alias": "a", "sample": ["9", "7"]}, {"alias": "b", "sample": ["7", "8"]}]},
        {
            "sample": [
                {"path": "1.log", "keeps": [{"ledger": "8", "bytes": 5}]},
                {"path": "2.log", "keeps": []},
            ]
        },
        {"sample": ["/l/7.log", "7.log"], "rows": "tables/space"},
        {"ledgers": 7, "replicas": 8},
        {},
        # Two findings that say the same, one after the other.
        {"sample": ["9"]},
        {"sample": ["9"]},
        {"sample": [str(ledger) for ledger in range(20, 40)]},
    ]
    orders, cursor = "/shop/new", "/shop/new/audit"
    cursor_group = group(["9"], "owned", CURSOR, cursor)
    first = {name: what for name, what in group([], "", ORDERS, orders).items() if name in OWNER}
    expected: list[dict[str, Any]] = [
        {"owner": first},
        {},
        {},
        {
            "owners": [
                group(["7", "8"], "owned", ORDERS, orders),
                cursor_group,
                group(["10", "13"], "unknown", {}, None),
                group(["11"], "unowned", {"application": "pulsar"}, None),
                group(["12"], "unknown", {"application": "pulsar"}, None),
                group(["30"], "dangling", ORDERS, orders),
            ]
        },
        {"owners": [group(["7", "8"], "owned", ORDERS, orders), cursor_group]},
        {"owners": [group(["8"], "owned", ORDERS, orders)]},
        {},
        {},
        {},
        {"owners": [cursor_group]},
        {"owners": [cursor_group]},
        {"owners": [group([str(ledger) for ledger in range(20, 30)], "unknown", {}, None)]},
    ]
    assert evidence(spark, *findings) == [
        {**{name: what for name, what in finding.items() if name != "of"}, **owners}
        for finding, owners in zip(findings, expected, strict=True)
    ]
