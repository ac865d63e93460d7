"""The leaks of a run in the order in which to look at them: confirmed ones first, the largest first.

They are read from the findings batch by batch. What is held of each, to bring them in order, is a row of an
Arrow table and no object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from auditor.errors import RunUsageError
from auditor.keys.pulsar import Names, NodeKind
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.model.leak import Leak, LeakTotals
from auditor.runs.claims import names_of_claim
from auditor.runs.owner_totals import has_owners
from auditor.runs.reader import RunReader

UNOWNED = "ledger-unowned"
_HELD = pa.schema(
    [
        ("rank", pa.int8()), ("bytes", pa.int64()), ("scope_id", pa.int64()), ("ledger_id", pa.int64()),
        ("confidence", pa.string()),
        ("claim", pa.string()), ("made", pa.int64()), ("entries", pa.int64()), ("state", pa.string()),
        ("doubt", pa.string()), ("seen_before", pa.bool_()),
    ]
)  # fmt: skip


class Leaks:
    """All leaks of a run, read once.

    Raises:
        RunUsageError: the run read no owners, so that it knows of no leak.
        RunError: a table of the run is broken.
    """

    def __init__(self, run: RunReader) -> None:
        if not has_owners(run):
            raise RunUsageError(f"{run.path}: it has no table ownership: no application's owners were read")
        parts = [pa.RecordBatch.from_pylist(rows, schema=_HELD) for rows in _rows(run)]
        order = [("rank", "ascending"), ("bytes", "descending"), *((name, "ascending") for name in LEDGER)]
        self._table = pa.Table.from_batches(parts, schema=_HELD).sort_by(order)

    def __iter__(self) -> Iterator[Leak]:
        for batch in self._table.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                yield _leak(row)

    def totals(self) -> LeakTotals:
        """What they add up to."""
        import pyarrow.compute as pc

        sure = self._table.filter(pc.equal(self._table["confidence"], str(Confidence.CONFIRMED)))

        def total(table: pa.Table, name: str) -> int:
            return int(pc.sum(table[name]).as_py() or 0)

        return LeakTotals(
            self._table.num_rows,
            sure.num_rows,
            total(self._table, "bytes"),
            total(sure, "bytes"),
            total(self._table, "entries"),
        )


def last_owner(claim: str) -> str:
    """The owner whose path a ledger's custom metadata names, in words.

    >>> last_owner("/east/managed-ledgers/shop/orders/persistent/returns/audit")
    'subscription audit of shop/orders/returns'
    >>> last_owner("/elsewhere")
    '/elsewhere'
    """
    names = names_of_claim(claim)
    return claim if names is None else _words(names, claim)


def _words(names: Names, claim: str) -> str:
    topic = "/".join(name for name in (names.tenant, names.namespace, names.topic) if name)
    if names.kind is NodeKind.CURSOR:
        return f"subscription {names.cursor} of {topic}"
    known = {NodeKind.TOPIC: f"topic {topic}", NodeKind.SCHEMA: f"schema {topic}"}
    return known.get(names.kind, claim)


def _rows(run: RunReader) -> Iterator[list[dict[str, Any]]]:
    import pyarrow.compute as pc

    for batch in run.batches("findings", ["id", *LEDGER, "confidence", "evidence"]):
        some = batch.filter(pc.equal(batch["id"], UNOWNED))
        yield [_row(each) for each in some.to_pylist()]


def _row(finding: dict[str, Any]) -> dict[str, Any]:
    said = json.loads(finding["evidence"])
    last, length = said.get("last_entry_id"), said.get("length")
    closed = said.get("state") == "CLOSED"
    return {
        "rank": 0 if finding["confidence"] == Confidence.CONFIRMED else 1,
        "bytes": max(int(length), 0) if closed and length is not None else None,
        **{name: finding[name] for name in LEDGER},
        "confidence": finding["confidence"],
        "claim": said.get("claim") or "",
        "made": said.get("made"),
        "entries": max(int(last) + 1, 0) if closed and last is not None else None,
        "state": said.get("state"),
        "doubt": said.get("doubt"),
        "seen_before": bool(said.get("seen_before")),
    }


def _leak(row: dict[str, Any]) -> Leak:
    again = "; an earlier run found the same" if row["seen_before"] else "; seen for the first time"
    return Leak(
        row["ledger_id"],
        row["confidence"],
        last_owner(row["claim"]),
        row["claim"],
        row["made"],
        row["bytes"],
        row["entries"],
        row["state"],
        f"{row['claim']} does not name it{again}",
        row["doubt"],
    )
