"""The second scan of a live cluster's metadata, M1: after the bookies were read.

A saved store is scanned once, and that scan stands for both. A live one is scanned twice: what did not stand
still in between is never called sure. Most of it did: where the store can say what moved, only that is read
again, and the rest is taken from the first scan. etcd is asked which keys have a newer revision, and how many
there are; ZooKeeper is watched from before the first scan on. Where it cannot be told, all is read again, and
the report says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.audit.earlier_run import earlier_ledgers
from auditor.audit.landing import WHOLE
from auditor.audit.manifest import reusable_facts
from auditor.audit.metadata_scan import FirstScan, MetadataSource, scan_ledgers
from auditor.errors import RunError, StoreError
from auditor.sources.metadata.earlier_ledgers import ComparableStore
from auditor.sources.metadata.ledger_rows import LEDGERS_AGAIN
from auditor.sources.metadata.spark_source import LedgerAgainSource, MarkSource
from auditor.sources.metadata.store import ClusterNodes, WatchableStore
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.spark.part_tables import PartTable


@dataclass(frozen=True)
class SecondScan:
    """M1: the cluster's own nodes, the table ``ledgers_again``, and the table ``marks``, which is read last.

    ``ledgers`` has id, version and standing of every ledger; None where one scan stands for both.
    ``marks_listed`` is whether all marks were seen.
    """

    nodes: ClusterNodes
    ledgers: DataFrame | None
    marks: DataFrame
    marks_listed: bool
    restarts: int
    notes: tuple[str, ...]


def watch_ledgers(source: MetadataSource) -> None:
    """Before the first scan: have a store that can do so say what moves from here on."""
    # A table that is there was read before this moment, and nobody knows what has moved since.
    landed = source.landing.run.exists(f"tables/ledgers/{WHOLE}")
    if isinstance(source.store, WatchableStore) and not landed:
        source.store.watch_ledgers()


def scan_second(first: FirstScan) -> SecondScan:
    """M1: of a live store, land which ledgers are there now, and at which version; then the marks."""
    source = first.source
    if not source.live:
        return _with_marks(first, first.nodes)
    nodes, again = source.store.cluster(), _Again(first)
    try:
        landed = scan_ledgers(source, "ledgers_again", nodes, again.rows)
    except RunError as error:
        if not again.takes:
            raise
        # What the first scan wrote turned out to be damaged while it was read: this one does without it.
        again.take_nothing(error)
        landed = scan_ledgers(source, "ledgers_again", nodes, again.rows)
    return _with_marks(first, landed.nodes, landed.rows, landed.restarts, again.notes)


def scan_marks(first: FirstScan) -> SecondScan:
    """What a scan of the metadata alone has after M0: nodes and marks, and no ledger again."""
    return _with_marks(first, first.source.store.cluster() if first.source.live else first.nodes)


class _Again:
    """The ledgers once more: what moved, where that can be told, and the rest from the first scan; or all.

    ``takes`` is whether anything was taken from the first scan, ``notes`` say why nothing was; both once
    `rows` was called.
    """

    def __init__(self, first: FirstScan) -> None:
        self._first = first
        self.takes = False
        self.notes: tuple[str, ...] = ()

    def rows(self, at: ClusterNodes) -> pa.Table | PartTable | DataFrame:
        """The table ``ledgers_again``, not before it is wanted: what moves until then counts."""
        if not self.notes:
            try:
                if (rows := self._moved(at)) is not None:
                    self.takes = True
                    return rows
            except (RunError, StoreError) as error:
                self.take_nothing(error)
        return self._first.source.table(LedgerAgainSource, at)

    def take_nothing(self, why: Exception) -> None:
        """Read all from here on."""
        self.takes = False
        self.notes = (f"the second scan read all ledgers: {why}",)

    def _moved(self, at: ClusterNodes) -> pa.Table | PartTable | DataFrame | None:
        source = self._first.source
        if isinstance(source.store, WatchableStore):
            return _moved_rows(self._first, _moved_paths(self._first, source.store), at)
        if isinstance(source.store, ComparableStore):
            return source.table(LedgerAgainSource, at, earlier=_earlier_rows(source, source.store))
        return None


def _earlier_rows(source: MetadataSource, store: ComparableStore) -> str:
    """The first scan as an earlier one, for a store that is asked what has changed since.

    Raises:
        RunError, StoreError: it cannot be one, and why.
    """
    table, facts = source.landing.run.where("tables/ledgers"), reusable_facts(source.landing, "ledgers")
    return earlier_ledgers(table, facts, source.store.root, store.history()).to_json()


def _moved_paths(first: FirstScan, store: WatchableStore) -> tuple[str, ...]:
    """The paths that moved since before the first scan.

    Raises:
        StoreError: nobody can say which ones, and why.
    """
    moves = store.ledgers_moved()
    if moves.unknown is not None:
        raise StoreError(moves.unknown)
    if not first.ledgers.where("status = 'gap'").isEmpty():
        raise StoreError("the first one could not read all of them")
    return moves.paths


def _moved_rows(first: FirstScan, paths: tuple[str, ...], at: ClusterNodes) -> DataFrame:
    """The rows of the first scan but for some paths, and what is at these now."""
    names = LEDGERS_AGAIN.names
    rows = first.ledgers.withColumn("reused", F.lit(True)).select(*names)
    if not paths:
        return rows
    moved = arrow_frame(first.source.landing.spark, pa.table({"path": pa.array(paths, pa.string())}))
    kept = rows.join(F.broadcast(moved), "path", "left_anti").select(*names)
    return kept.unionByName(first.source.rows_at(LedgerAgainSource, paths, at))


def _with_marks(
    first: FirstScan,
    nodes: ClusterNodes,
    ledgers: DataFrame | None = None,
    restarts: int = 0,
    notes: tuple[str, ...] = (),
) -> SecondScan:
    """Read marks and locks, last: they explain what is being repaired at this moment."""
    source = first.source
    marks = source.landing.land("marks", lambda: source.table(MarkSource, nodes))
    may_be_whole = source.store.keeps_marks and first.cut is None
    listed = may_be_whole and marks.where("kind = 'gap'").isEmpty()
    return SecondScan(nodes, ledgers, marks, listed, restarts, notes)
