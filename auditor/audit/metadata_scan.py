"""The first scan of a cluster's metadata (M0), before bookies are read, and the ids that it may miss.

`auditor.audit.metadata` has the second scan, M1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from auditor.audit.earlier_run import EarlierRun, save_file_sizes, save_ledger_facts, saved_facts
from auditor.audit.table_cache import TableCache
from auditor.errors import RunError, StoreError
from auditor.model.amounts import plural
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID, LayoutKind
from auditor.model.options import AuditOptions, to_time_ms
from auditor.model.report import Cluster
from auditor.model.run_facts import InDoubt
from auditor.model.states import LISTED
from auditor.sources.metadata.earlier_ledgers import ComparableStore
from auditor.sources.metadata.ledger_rows import LAYOUT_PATH_TEXT
from auditor.sources.metadata.pulsar_layout import has_pulsar_layout
from auditor.sources.metadata.spark_source import LedgerSource, StoreSource
from auditor.sources.metadata.store import MAX_RESTARTS, ClusterNodes, MetadataStore, WatchableStore
from auditor.sources.metadata.stores import choose_layout, open_store, source_options, store_options
from auditor.sources.metadata.uri import MetadataUri
from auditor.spark import functions as F
from auditor.spark.batches import Rows
from auditor.spark.part_tables import PartTable, part_table
from auditor.spark.types import DataFrame
from auditor.tables.registry import instance_id
from auditor.tables.scans import (
    IS_IN_ANOTHER_LAYOUT,
    WIDE_NUMBER_TYPE,
    find_unseen_ranges,
    records_in_other_layouts,
)

_PATHS_PER_TASK = 2_000
"""Largest number of paths for each task that reads ledgers at given paths.

With fewer paths, the start of a further task takes longer than it saves.
"""


@dataclass(frozen=True)
class MetadataSource:
    """An open metadata store, with its cluster and ledger layout.

    ``nodes`` are the znodes or keys that describe the cluster itself, as read when the store was opened.
    ``scan_time`` is the time from which ages are computed, in ms. ``layout_note`` says how the layout is
    known. ``is_pulsar_layout`` is True if the store has no LAYOUT because Pulsar's driver created the
    store (`has_pulsar_layout`).
    """

    cache: TableCache
    options: AuditOptions
    uri: MetadataUri
    store: MetadataStore
    nodes: ClusterNodes
    layout: LayoutKind
    layout_note: str
    is_pulsar_layout: bool
    instance_id: str | None
    scan_time: int

    @property
    def live(self) -> bool:
        """Return whether the store is running, so that it may change while it is read."""
        return self.store.live

    @property
    def cluster(self) -> Cluster:
        """Return the cluster of the store."""
        return Cluster(self.instance_id, self.uri.text, self.layout.value)

    def table(
        self, source: type[StoreSource], nodes: ClusterNodes, *, earlier_read: str | None = None
    ) -> PartTable:
        """Return a table of the store. If possible, it shows the state at the time when ``nodes`` were read.

        ``earlier_read`` describes an earlier read of the table whose rows may be reused (`StoreSource`). If
        it is None, all rows are read.
        """
        spark = self.cache.spark
        parameters = {"metadata": self.uri.text, "layout": self.layout.value, "earlier": earlier_read}
        table_source = source(source_options(spark, self.options, parameters, nodes))
        # A saved store is already open. If its parts come from it, a large file is read through once, not
        # twice.
        parts = None if self.live else table_source.reader(table_source.schema()).partitions_of(self.store)
        return part_table(spark, table_source, parts)

    def rows_at_paths(
        self, source: type[StoreSource], paths: Sequence[str], nodes: ClusterNodes
    ) -> DataFrame:
        """Return the rows of a table at these paths. The store must be a `WatchableStore`."""
        assert isinstance(self.store, WatchableStore)
        spark = self.cache.spark
        table_source = source(source_options(spark, self.options, {"metadata": self.uri.text}, nodes))
        part_count = min(spark.sparkContext.defaultParallelism, -(-len(paths) // _PATHS_PER_TASK))
        reader = table_source.reader(table_source.schema())
        parts = reader.partitions_of_parts(self.store.parts_of_paths(paths, part_count), self.layout)
        return self.cache.execution.frame(part_table(spark, table_source, parts))


@dataclass(frozen=True)
class FirstScan:
    """The first metadata scan (M0): the table ``ledgers``, and the nodes of the cluster itself at that time.

    ``restarts`` is the number of times that the scan had to start again. ``notes`` say why no ledgers were
    taken from an earlier run.
    """

    source: MetadataSource
    nodes: ClusterNodes
    ledgers: DataFrame
    restarts: int
    notes: tuple[str, ...]

    @property
    def gap_reason(self) -> str | None:
        """Return why a part of the metadata may be missing, or None if nothing indicates that."""
        return self.nodes.gap_reason(self.source.store.root)


@contextmanager
def open_metadata(cache: TableCache, uri: MetadataUri, options: AuditOptions) -> Iterator[MetadataSource]:
    """Open a metadata store while the ``with`` block runs, and find its ledger layout.

    Raises:
        UsageError: the layout in the URI differs from the layout of the store.
        StoreError: the store cannot be read.
    """
    # The store must be closed in any case: the client of an abandoned live store would reconnect forever.
    with closing(open_store(uri, store_options(options))) as store:
        cache.progress.stage("opening the metadata")
        nodes = store.cluster()
        layout, layout_note = choose_layout(store, nodes)
        pinned_scan_time = cache.run_store.pin_fact("scan_time", nodes.scan_time)
        option_scan_time = options.scan_time
        yield MetadataSource(
            cache,
            options,
            uri,
            store,
            nodes,
            layout,
            layout_note,
            has_pulsar_layout(store, nodes),
            instance_id(nodes),
            pinned_scan_time if option_scan_time is None else to_time_ms(option_scan_time),
        )


def scan_first(source: MetadataSource, earlier_run: EarlierRun) -> FirstScan:
    """Write the table of all decoded ledgers, with the entries that each bookie should hold (M0).

    If the store can list changes, ledgers that did not change since the run ``earlier_run`` are taken from
    that run.
    """
    table_reader = partial(_ledger_table, source, earlier_run)
    may_reuse = earlier_run.is_usable and isinstance(source.store, ComparableStore)
    try:
        ledger_scan = scan_ledgers(source, "ledgers", source.nodes, table_reader)
    except RunError as error:
        if not may_reuse:
            raise
        # The table of the earlier run is damaged, which showed only while it was read: reuse no rows.
        ledger_scan = scan_ledgers(
            source, "ledgers", source.nodes, partial(table_reader, unusable_reason=str(error))
        )
    save_file_sizes(source.cache.run_store, "ledgers")
    notes = tuple(saved_facts(source.cache.run_store, "ledgers").get("notes", ()))
    return FirstScan(source, ledger_scan.nodes, ledger_scan.rows, ledger_scan.restarts, notes)


class LedgerScan(NamedTuple):
    """A written table of ledgers, the cluster's nodes at the time of the scan, and the number of restarts."""

    rows: DataFrame
    nodes: ClusterNodes
    restarts: int


def _ledger_table(
    source: MetadataSource, earlier_run: EarlierRun, nodes: ClusterNodes, unusable_reason: str | None = None
) -> PartTable:
    """Return the table of all ledgers.

    ``unusable_reason`` says why no rows of the earlier run are reused. It is None if rows may be reused.
    """
    store = source.store
    if not isinstance(store, ComparableStore):
        return source.table(LedgerSource, nodes)
    history, earlier_ledgers = None, None
    try:
        history = store.history()
        earlier_ledgers = earlier_run.ledgers(store.root, history) if unusable_reason is None else None
    except (RunError, StoreError) as error:
        unusable_reason = str(error)  # if the store does not answer, the scan itself reports that
    has_unusable_run = unusable_reason is not None and earlier_run.path is not None
    notes = (
        [f"no ledger was reused from run {earlier_run.name}: {unusable_reason}"] if has_unusable_run else []
    )
    save_ledger_facts(source.cache.run_store, store.root, history, notes)
    if earlier_ledgers is None:
        return source.table(LedgerSource, nodes)
    return source.table(LedgerSource, nodes, earlier_read=earlier_ledgers.to_json())


def scan_ledgers(
    source: MetadataSource,
    name: str,
    nodes: ClusterNodes,
    table_reader: Callable[[ClusterNodes], Rows],
) -> LedgerScan:
    """Write the table ``name`` with all ledgers as they were at a single point in time.

    If the store no longer has the state of that time, the scan starts again with a newer time.
    """
    for restarts in range(MAX_RESTARTS):
        try:
            return LedgerScan(source.cache.write_table(name, partial(table_reader, nodes)), nodes, restarts)
        except StoreError:
            if not source.store.has_lost_moment():
                raise
            nodes = source.store.cluster()
    return LedgerScan(source.cache.write_table(name, partial(table_reader, nodes)), nodes, MAX_RESTARTS)


MAX_REASONS = 5
"""Largest number of reasons that a report gives for ledger ids in doubt."""

MAX_MISPLACED_LEDGERS = 10_000
"""Largest number of ledgers at paths of another layout that may count as single misplaced ledgers.

More ledgers always count as a whole ledger tree. Each misplaced ledger would add a range of ids in doubt.
"""

_OTHER_LAYOUT_SQL = f"substring(damage, {len(LAYOUT_PATH_TEXT) + 1})"


def count_doubtful_ids(doubtful_id_rows: DataFrame) -> InDoubt | None:
    """Return the number of ledger ids in doubt, and the reasons, or None if no id is in doubt.

    An id is in doubt if the scan may have missed a ledger with this id. Runs up to two Spark queries.
    """
    doubtful_ranges = find_unseen_ranges(doubtful_id_rows)
    id_count = F.col("high").cast(WIDE_NUMBER_TYPE) - F.col("low") + 1
    is_whole_range = (
        F.col("scope_id").isNull() & (F.col("low") == MIN_LEDGER_ID) & (F.col("high") == MAX_LEDGER_ID)
    )
    row = doubtful_ranges.agg(F.sum(id_count).alias("ids"), F.max(is_whole_range).alias("every")).first()
    if row is None or row["ids"] is None:
        return None
    # The widest ranges have the most ids in doubt, so their reasons are the most important.
    widest_ranges = doubtful_ranges.orderBy(id_count.desc(), "why").limit(MAX_REASONS).select("why").collect()
    return InDoubt(
        ids=None if row["every"] else str(row["ids"]),
        reasons=[range_row["why"] for range_row in widest_ranges],
    )


def find_wrong_tree(ledgers: DataFrame, layout_note: str) -> str | None:
    """Return a sentence if a whole ledger tree is at paths of another layout than the store's, else None.

    Ledgers at paths of other layouts count as a whole tree in two cases. (1) There are at least as many of
    them as ledgers at paths of the store's own layout. (2) There are more than `MAX_MISPLACED_LEDGERS`.
    ``layout_note`` says how the store's layout is known. Runs up to two Spark queries.
    """
    if ledgers.where(IS_IN_ANOTHER_LAYOUT).isEmpty():
        return None
    layouts = F.array_sort(F.collect_set(F.expr(_OTHER_LAYOUT_SQL))).alias("layouts")
    listed_count = ledgers.where(F.col("status").isin(*LISTED)).agg(F.count("*").alias("own"))
    [row] = (
        records_in_other_layouts(ledgers)
        .agg(F.count("*").alias("lost"), layouts)
        .crossJoin(listed_count)
        .collect()
    )
    if not row["lost"] or (row["lost"] < row["own"] and row["lost"] <= MAX_MISPLACED_LEDGERS):
        return None
    ledgers_text = plural(row["lost"], "ledger is", "ledgers are")
    layout_names = " and ".join(row["layouts"])
    return (
        f"{layout_note}, but {ledgers_text} at paths of layout {layout_names}; {row['own']:,} "
        "are at paths of the layout in use"
    )
