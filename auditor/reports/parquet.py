"""Every finding in one Parquet file, for programs that read tables: the columns of the jsonl report.

Ids are numbers here, groups are lists of structs, evidence is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from auditor.model.finding import Finding, Standings, no_standing

ROWS = 20_000
"""Rows of one row group, and what is in memory at once."""


def write(findings: Iterable[Finding], out: BinaryIO, standings: Standings = no_standing) -> None:
    """Write all of them, as they come, to a file that is open for writing.

    ``change``, ``first_seen`` and ``suppressed`` are null where the run kept no such thing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = (_row(finding, standings) for finding in findings)
    schema = _schema()
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in _batches(rows):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(rows, ROWS)):
        yield batch


def _row(finding: Finding, standings: Standings) -> dict[str, Any]:
    standing = standings(finding.fingerprint)
    return {
        "id": finding.id,
        "urgency": str(finding.urgency),
        "severity": str(finding.severity),
        "confidence": str(finding.confidence),
        "scope_id": finding.scope_id,
        "ledger_id": finding.ledger_id,
        "ledger_qualified_name": finding.ledger_qualified_name,
        "bookie_id": finding.bookie_id,
        "missing": [
            {
                "bookie_id": part.bookie_id,
                "groups": [dict(zip(_GROUP, group, strict=True)) for group in part.groups],
                "count": part.count,
            }
            for part in finding.missing
        ],
        "unknown": list(finding.unknown),
        "message": finding.message,
        "evidence": json.dumps(finding.evidence, sort_keys=True),
        "fingerprint": finding.fingerprint,
        "cause": finding.cause,
        "change": standing.change or None if standing else None,
        "first_seen": standing.first_seen if standing else None,
        "suppressed": standing.suppressed if standing else None,
    }


_GROUP = ("first_start", "last_start", "size", "period")


def _schema() -> Any:
    import pyarrow as pa

    group = pa.struct([(name, pa.int64()) for name in _GROUP])
    missing = pa.struct([("bookie_id", pa.string()), ("groups", pa.list_(group)), ("count", pa.int64())])
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("urgency", pa.string(), nullable=False),
            pa.field("severity", pa.string(), nullable=False),
            pa.field("confidence", pa.string(), nullable=False),
            pa.field("scope_id", pa.int64()),
            pa.field("ledger_id", pa.int64()),
            pa.field("ledger_qualified_name", pa.string()),
            pa.field("bookie_id", pa.string()),
            pa.field("missing", pa.list_(missing), nullable=False),
            pa.field("unknown", pa.list_(pa.string()), nullable=False),
            pa.field("message", pa.string(), nullable=False),
            pa.field("evidence", pa.string(), nullable=False),
            pa.field("fingerprint", pa.string(), nullable=False),
            pa.field("cause", pa.int32()),
            pa.field("change", pa.string()),
            pa.field("first_seen", pa.timestamp("ms", "UTC")),
            pa.field("suppressed", pa.string()),
        ]
    )
