"""Time to read the owners of a million ledgers from 50,000 topics, and to join them with the ledgers.

An owner is a topic that refers to ledgers. The values are generated in Pulsar's format, with 20 ledgers per
topic. The join should take less than a minute on two cores.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarLedgerInfo, PulsarManagedLedgerInfo
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.sources.metadata.store import Znode, ZnodeBatch
from auditor.sources.owners.applications import owner_rows, parse_owners_uri
from auditor.sources.owners.pulsar import read_owner
from auditor.spark.session import build_session
from auditor.tables.ownership import ReadTimes, ownership
from auditor.tables.scans import DOUBTFUL_IDS
from benchmarks.measure import Line, alternate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC_COUNT, LEDGERS_PER_TOPIC = 50_000, 20
LEDGER_COUNT = TOPIC_COUNT * LEDGERS_PER_TOPIC
BATCH_TOPICS = 5_000
LEDGERS_PER_LEAK = 1000
"""One ledger in this many has no owner."""
NOW_MS = 1_800_000_000_000


def lines() -> Iterator[Line]:
    """Yield a line for reading the values and one for the join."""
    batches = [_make_batch(first_topic) for first_topic in range(0, TOPIC_COUNT, BATCH_TOPICS)]
    [own_seconds] = alternate(lambda: _read_owner_rows(batches))
    yield Line("owners, values to rows", LEDGER_COUNT, "ledgers", own_seconds, note="one core")
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        _write_tables(Path(folder), batches)
        spark = build_session("local[2]")
        try:
            seconds = _time_join(spark, folder)
        finally:
            spark.stop()
    note = f"{seconds:.0f} s on two cores, to Parquet; a minute is asked for"
    yield Line("owners joined with ledgers", LEDGER_COUNT, "ledgers", seconds, note=note)


def _topic_path(topic: int) -> str:
    return f"/managed-ledgers/t{topic % 50}/n{topic % 500}/persistent/topic-{topic}"


def _make_batch(first_topic: int) -> ZnodeBatch:
    znodes = []
    for topic in range(first_topic, first_topic + BATCH_TOPICS):
        ids = range(topic * LEDGERS_PER_TOPIC, (topic + 1) * LEDGERS_PER_TOPIC)
        ledger_infos = [
            PulsarLedgerInfo(ledgerId=id, entries=10, size=600, timestamp=NOW_MS)
            for id in ids
            if id % LEDGERS_PER_LEAK
        ]
        topic_value = PulsarManagedLedgerInfo(ledgerInfo=ledger_infos).SerializeToString()
        znodes.append(Znode(_topic_path(topic), topic_value, 1, 1, NOW_MS, NOW_MS, 0, 0))
    return ZnodeBatch.from_znodes(znodes)


def _read_owner_rows(batches: list[ZnodeBatch]) -> list[pa.RecordBatch]:
    return [owner_rows(batch, parse_owners_uri("pulsar:zk://bench:2181"), read_owner) for batch in batches]


def _write_tables(folder: Path, batches: list[ZnodeBatch]) -> None:
    """Write the tables owners and ledgers as an audit does."""
    pq.write_table(pa.Table.from_batches(_read_owner_rows(batches)), folder / "owners.parquet")
    with pq.ParquetWriter(folder / "ledgers.parquet", LEDGERS) as writer:
        for first_topic in range(0, TOPIC_COUNT, BATCH_TOPICS):
            rows = [
                _ledger_record(id)
                for id in range(
                    first_topic * LEDGERS_PER_TOPIC, (first_topic + BATCH_TOPICS) * LEDGERS_PER_TOPIC
                )
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=LEDGERS))


def _ledger_record(id: int) -> dict[str, object]:
    name = _topic_path(id // LEDGERS_PER_TOPIC).removeprefix("/managed-ledgers/").encode()
    custom_metadata = {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": name,
    }
    return {
        "scope_id": 0, "ledger_id": id, "status": "ok", "version": 1, "state": "CLOSED", "last_entry_id": 9,
        "length": 600, "ctime": NOW_MS - 1_000_000_000, "custom_metadata": list(custom_metadata.items()),
    }  # fmt: skip


def _time_join(spark: SparkSession, folder: str) -> float:
    """Join both tables; return the seconds. Spark is warm, and the tables are Parquet files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    ledgers, owners = (spark.read.parquet(f"{folder}/{name}.parquet") for name in ("ledgers", "owners"))
    doubtful_ids = spark.createDataFrame([], from_arrow_schema(DOUBTFUL_IDS))
    ledgers.count(), owners.count()
    start_time = time.perf_counter()
    owned_rows = _join_owners(ledgers, owners, doubtful_ids)
    owned_rows.write.parquet(f"{folder}/ownership")
    seconds = time.perf_counter() - start_time
    unowned_count = spark.read.parquet(f"{folder}/ownership").where("standing = 'unowned'").count()
    if unowned_count != LEDGER_COUNT // LEDGERS_PER_LEAK:
        raise SystemExit(
            f"owners: {unowned_count} ledgers are unowned, not {LEDGER_COUNT // LEDGERS_PER_LEAK}"
        )
    return seconds


def _join_owners(ledgers: DataFrame, owners: DataFrame, doubtful_ids: DataFrame) -> DataFrame:
    return ownership(
        ledgers, owners, None, doubtful_ids, None, None, ("pulsar",), ReadTimes(NOW_MS, 86_400_000)
    )
