"""One cluster of bookies for audits by executors and by one process, and the comparison of their runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.collect.collect import collect
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.sources.file_systems import run_files
from benchmarks.cluster import INDEX_TIME_MS
from benchmarks.cluster import Cluster as MadeUp
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_collection
from proofs.killed.ground import findings_of
from tests.corpora.corpora import unpack
from tests.servers.s3 import S3

CORPUS = "dbledger-long"
BOOKIES = 500
"""Number of bookies of the generated ledgers."""
MOMENTS = ("first_seen", "last_seen")
"""Columns with the times of a run, which differ between equal runs."""
COMPARISON = "unequal"
"""The stage in which a worker is killed."""


@dataclass(frozen=True)
class Bookies:
    """A running metadata store and a collection of its bookies, both on disk and on the S3 server."""

    name: str
    metadata: str
    collection: Path
    uploaded: str
    scan_time: int

    def arguments(self, bookies: str, out: str) -> list[str]:
        """Return the arguments of an audit. The audit asks no bookie for entries, because no bookie runs."""
        read = ["--metadata", self.metadata, "--bookies", bookies, "--rate-limit", "0", "--witness", "no"]
        return [*read, "--scan-time", str(self.scan_time), "--out", out]


@contextmanager
def corpus(folder: Path, server: S3) -> Iterator[Bookies]:
    """Yield the corpus that real bookies with DbLedgerStorage wrote, with its ZooKeeper running."""
    corpus_files = unpack(CORPUS, folder / CORPUS)
    collected = Path(collect([str(corpus_files.bookies)], str(folder / "collected")).path)
    with EmbeddedZooKeeper(corpus_files.zookeeper) as store:
        uploaded = server.upload(collected, CORPUS)
        yield Bookies(CORPUS, f"zk://{store.hosts}/ledgers", collected, uploaded, corpus_files.scan_time)


@contextmanager
def generated_cluster(ledgers: int, folder: Path, server: S3) -> Iterator[Bookies]:
    """Yield a generated cluster. Its findings are known, and the benchmarks check audits against them."""
    generated = MadeUp(ledgers, BOOKIES)
    collected = write_collection(generated, folder / "made-up")
    write_snapshot(generated, folder / "made-up" / "zookeeper", session_id=0)
    name = f"{ledgers:,} made-up ledgers"
    with EmbeddedZooKeeper(folder / "made-up" / "zookeeper", heap="3g") as store:
        uploaded = server.upload(collected, "made-up")
        yield Bookies(name, f"zk://{store.hosts}/ledgers", collected, uploaded, INDEX_TIME_MS)


def find_differences(run: str, second: str) -> list[str]:
    """Return the differences of two runs: findings, names of tables, and tables with different rows."""
    lines, other_lines = findings_of(run), findings_of(second)
    diffs = [line[:300] for line in sorted({*lines} ^ {*other_lines})]
    names = sorted({line for line in lines if line.isidentifier()} & {*other_lines})
    return [*diffs, *(f"table {name}" for name in names if not _rows(run, name).equals(_rows(second, name)))]


def _rows(run: str, name: str) -> pa.Table:
    """Return the rows of a table in a fixed order, without the times of the run.

    All columns become nullable, because Spark decides that for each query.
    """
    files, base = run_files(run)
    table = pq.read_table(f"{base}/tables/{name}", filesystem=files)
    table = table.drop_columns([column for column in MOMENTS if column in table.column_names])
    table = table.cast(pa.schema([column.with_nullable(True) for column in table.schema]))
    plain = [column.name for column in table.schema if not pa.types.is_nested(column.type)]
    return table.sort_by([(column, "ascending") for column in plain]).combine_chunks()
