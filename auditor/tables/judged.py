"""judged: one row for every ledger with an unequal replica, saying what that means.

The comparison itself is `auditor.tables.judgement`; this module carries ledgers to it in Arrow batches, one
row a ledger with its few unequal pairs, so that nothing is exploded and nothing is collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from auditor.codecs import coverage
from auditor.errors import CoverageLimitError
from auditor.tables.judgement import BookieState, Judgement, LedgerFacts, Pair, groups_of, judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENTRIES = pa.list_(pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("count", pa.int64())]))
JUDGED = pa.schema(
    [
        pa.field("ledger_id", pa.int64(), metadata={"comment": "the ledger"}),
        pa.field("version", pa.int32(), metadata={"comment": "its store version in the first scan"}),
        pa.field("state", pa.string(), metadata={"comment": "OPEN, IN_RECOVERY or CLOSED"}),
        pa.field("mtime", pa.int64(), metadata={"comment": "when its metadata last changed, ms"}),
        pa.field("write_quorum", pa.int32(), metadata={"comment": "copies asked for"}),
        pa.field("ack_quorum", pa.int32(), metadata={"comment": "copies acknowledged to the writer"}),
        pa.field(
            "m", pa.int32(), metadata={"comment": "the most copies that one entry is missing, confirmed"}
        ),
        pa.field(
            "mu", pa.int32(), metadata={"comment": "the most copies that one entry is missing or unknown"}
        ),
        pa.field(
            "missing", _ENTRIES, metadata={"comment": "striped entries that a read bookie does not hold"}
        ),
        pa.field(
            "unknown",
            pa.list_(pa.struct([("bookie_id", pa.string()), ("count", pa.int64()), ("why", pa.string())])),
            metadata={"comment": "bookies whose copies are unknown; why: unread or unreadable"},
        ),
        pa.field(
            "lagging", _ENTRIES, metadata={"comment": "open end: acknowledged entries not on a read member"}
        ),
        pa.field("stale", _ENTRIES, metadata={"comment": "held entries of segments without the bookie"}),
        pa.field("surplus", _ENTRIES, metadata={"comment": "held entries past the end or not striped there"}),
        pa.field(
            "foreign",
            pa.list_(pa.struct([("bookie_id", pa.string()), ("count", pa.int64())])),
            metadata={"comment": "bookies that hold entries and are in no ensemble"},
        ),
        pa.field("doubts", pa.list_(pa.string()), metadata={"comment": "why it is no more than suspect"}),
    ]
)
_LEDGER_COLUMNS = (
    "ledger_id", "version", "state", "mtime", "ensemble_size", "write_quorum", "ack_quorum", "last_entry_id",
    "segments",
)  # fmt: skip


def judged(
    ledgers: DataFrame, unequal: DataFrame, bookies: Mapping[str, BookieState], grace_ms: int
) -> DataFrame:
    """Judge every ledger that has an unequal pair and whose metadata can be judged.

    ``bookies`` travels to the workers whole: it is bounded by the number of bookies.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    pairs = unequal.groupBy("ledger_id").agg(
        F.collect_list(F.struct("bookie_id", "expected", "held", "index_state")).alias("pairs")
    )
    judgeable = ledgers.where("undecidable = false").select(*_LEDGER_COLUMNS)
    states = dict(bookies)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_row(row, states, grace_ms) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=JUDGED)

    return judgeable.join(pairs, "ledger_id").mapInArrow(work, from_arrow_schema(JUDGED))


def _row(row: dict[str, Any], bookies: Mapping[str, BookieState], grace_ms: int) -> dict[str, Any]:
    ledger = LedgerFacts(
        ledger_id=row["ledger_id"],
        closed=row["state"] == "CLOSED",
        ensemble_size=row["ensemble_size"],
        write_quorum=row["write_quorum"],
        ack_quorum=row["ack_quorum"],
        last_entry_id=row["last_entry_id"],
        mtime=row["mtime"],
        segments=[(segment["first_entry_id"], segment["ensemble"]) for segment in row["segments"]],
    )
    pairs = [
        Pair(pair["bookie_id"], groups_of(pair["expected"]), groups_of(pair["held"]), pair["index_state"])
        for pair in row["pairs"]
    ]
    try:
        answer = judge(ledger, pairs, bookies, grace_ms)
    except CoverageLimitError as limit:
        # Too irregular to compare within the bound: nothing is known of these replicas, and the row says so.
        answer = Judgement(mu=ledger.write_quorum, doubts={str(limit)})
        answer.unknown = [(pair.bookie_id, pair.expected, "unreadable") for pair in pairs]
    return {
        **{
            name: row[name]
            for name in ("ledger_id", "version", "state", "mtime", "write_quorum", "ack_quorum")
        },
        "m": answer.m,
        "mu": answer.mu,
        "missing": _entries(answer.missing),
        "unknown": [
            {"bookie_id": bookie, "count": coverage.count(groups), "why": why}
            for bookie, groups, why in answer.unknown
        ],
        "lagging": _entries(answer.lagging),
        "stale": _entries(answer.stale),
        "surplus": _entries(answer.surplus),
        "foreign": [{"bookie_id": bookie, "count": count} for bookie, count in answer.foreign],
        "doubts": sorted(answer.doubts),
    }


def _entries(sets: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"bookie_id": bookie, "groups": groups.tobytes(), "count": coverage.count(groups)}
        for bookie, groups in sets
    ]
