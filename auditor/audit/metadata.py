"""The second scan of a cluster's metadata, M1, and the comparison of both scans.

A saved store is scanned once, and that scan counts as both. A live store is scanned again after the bookies
were read. A finding about an object that changed between the scans is never confirmed.

If the store can list changes, only the changed ledgers are read again. The others are taken from the first
scan. etcd reports the keys with a newer revision, and the number of keys. ZooKeeper is watched from before
the first scan. Oxia keeps its changes for some time. If the store cannot list changes, all ledgers are read
again, and the report has the reason.

An object exists if one of the scans has it. An object is absent if both scans lack it. If the source was
truncated, or unreadable where the object would be, a scan does not prove its absence.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.earlier_run import earlier_ledgers, saved_facts
from auditor.audit.metadata_scan import FirstScan, MetadataSource, find_wrong_tree, scan_ledgers
from auditor.errors import RunError, StoreError
from auditor.model.ledger_id import LayoutKind
from auditor.model.run_facts import DONE_FILE, BookiesListed, Remark, RemarkKind, remark, remark_with_reason
from auditor.model.states import LedgerStatus
from auditor.sources.metadata.earlier_ledgers import ComparableStore
from auditor.sources.metadata.etcd.key_ranges import NO_MARKS_NOTE, NO_TIMES_NOTE
from auditor.sources.metadata.ledger_rows import REREAD_LEDGERS
from auditor.sources.metadata.oxia.questions import MIXED_TIMES_NOTE as OXIA_NOTE
from auditor.sources.metadata.spark_source import LedgerRereadSource, MarkSource
from auditor.sources.metadata.store import ClusterNodes, WatchableStore
from auditor.sources.metadata.uri import OXIA
from auditor.spark import functions as F
from auditor.spark.batches import Rows, arrow_frame
from auditor.spark.types import DataFrame
from auditor.tables.cluster_state import (
    CLUSTER,
    IdRange,
    find_id_ranges,
    is_unused_store,
    make_cluster_rows,
    make_unlisted_rows,
)
from auditor.tables.registry import (
    COOKIES,
    REGISTRATIONS,
    StoreCookie,
    find_registered_modes,
    instance_id_missing,
    registrations,
    store_cookies,
)
from auditor.tables.scans import DOUBTFUL_IDS, STATUSES_WITH_UNCERTAIN_IDS, doubtful_ids, find_moves


@dataclass(frozen=True)
class SecondScan:
    """The second metadata scan (M1): cluster nodes, then ledgers, then under-replication ``marks``.

    ``ledgers`` is the table ``ledgers_again``, or None if the first scan counts as both scans.
    ``marks_listed`` is True if all under-replication marks were read. ``restarts`` is the number of times
    that the scan had to start again. ``notes`` say why the scan read all ledgers again.
    """

    nodes: ClusterNodes
    ledgers: DataFrame | None
    marks: DataFrame
    marks_listed: bool
    restarts: int
    notes: tuple[str, ...]


def watch_ledgers(source: MetadataSource) -> None:
    """Start watching the ledgers before the first scan, if the store supports it."""
    # A resumed run already has the table. Changes between that read and now are unknown.
    is_written = source.cache.run.exists(f"tables/ledgers/{DONE_FILE}")
    if isinstance(source.store, WatchableStore) and not is_written:
        source.store.watch_ledgers()


def scan_second(first_scan: FirstScan) -> SecondScan:
    """Scan a live store again: write ledgers (``ledgers_again``), then under-replication ``marks``."""
    source = first_scan.source
    if not source.live:
        return _with_marks(first_scan, first_scan.nodes)
    nodes, rescan = source.store.cluster(), _Rescan(first_scan)
    try:
        ledger_scan = scan_ledgers(source, "ledgers_again", nodes, rescan.rows)
    except (RunError, StoreError) as error:
        if not rescan.has_reused_rows:
            raise
        # The first scan's table is damaged, or the store could not list the changes: read all ledgers.
        rescan.reread_all(error)
        ledger_scan = scan_ledgers(source, "ledgers_again", nodes, rescan.rows)
    return _with_marks(first_scan, ledger_scan.nodes, ledger_scan.rows, ledger_scan.restarts, rescan.notes)


def scan_marks(first_scan: FirstScan) -> SecondScan:
    """Return a second scan without ledgers, for an audit that reads ledgers once."""
    source = first_scan.source
    return _with_marks(first_scan, source.store.cluster() if source.live else first_scan.nodes)


class _Rescan:
    """The second read of the ledgers. If the store can list changes, only changed ledgers are read.

    ``has_reused_rows`` is whether rows were taken from the first scan. If an error prevented that, ``notes``
    have the error. The method `rows` sets both.
    """

    def __init__(self, first_scan: FirstScan) -> None:
        self._first = first_scan
        self.has_reused_rows = False
        self.notes: tuple[str, ...] = ()

    def rows(self, nodes: ClusterNodes) -> Rows:
        """Return the rows of ``ledgers_again``, including all changes up to this call."""
        if not self.notes:
            try:
                if (rows := self._changed_ledgers(nodes)) is not None:
                    self.has_reused_rows = True
                    return rows
            except (RunError, StoreError) as error:
                self.reread_all(error)
        return self._first.source.table(LedgerRereadSource, nodes)

    def reread_all(self, reason: Exception) -> None:
        """Make `rows` read all ledgers. ``reason`` says why no rows of the first scan can be reused."""
        self.has_reused_rows = False
        self.notes = (f"the second scan read all ledgers: {reason}",)

    def _changed_ledgers(self, nodes: ClusterNodes) -> Rows | None:
        source = self._first.source
        if isinstance(source.store, WatchableStore):
            return _changed_rows(self._first, _changed_paths(self._first, source.store), nodes)
        if isinstance(source.store, ComparableStore):
            return source.table(LedgerRereadSource, nodes, earlier_read=_reread_facts(source, source.store))
        return None


def _reread_facts(source: MetadataSource, store: ComparableStore) -> str:
    """Return facts of the first scan, as JSON. With them, `StoreSource` can list later changes in ``store``.

    Raises:
        RunError, StoreError: the first scan has no such facts. The message says why.
    """
    table_path = source.cache.spark_path("tables/ledgers")
    facts = saved_facts(source.cache.run_store, "ledgers")
    return earlier_ledgers(table_path, facts, source.store.root, store.history()).to_json()


def _changed_paths(first_scan: FirstScan, store: WatchableStore) -> tuple[str, ...]:
    """Return the paths of ledgers that changed since the watch, which began before the first scan.

    Raises:
        StoreError: the changed paths are unknown. The message says why.
    """
    ledger_changes = store.changed_ledgers()
    if ledger_changes.unknown_reason is not None:
        raise StoreError(ledger_changes.unknown_reason)
    if not first_scan.ledgers.where("status = 'gap'").isEmpty():
        raise StoreError("the first scan could not read all ledgers")
    return ledger_changes.paths


def _changed_rows(first_scan: FirstScan, paths: tuple[str, ...], nodes: ClusterNodes) -> DataFrame:
    """Return all ledger rows: those at ``paths`` are read again, the others are taken from the first scan."""
    names = REREAD_LEDGERS.names
    rows = first_scan.ledgers.withColumn("reused", F.lit(True)).select(*names)
    if not paths:
        return rows
    stale_paths = arrow_frame(first_scan.source.cache.spark, pa.table({"path": pa.array(paths, pa.string())}))
    unchanged_rows = rows.join(F.broadcast(stale_paths), "path", "left_anti").select(*names)
    return unchanged_rows.unionByName(first_scan.source.rows_at_paths(LedgerRereadSource, paths, nodes))


def _with_marks(
    first_scan: FirstScan,
    nodes: ClusterNodes,
    ledgers: DataFrame | None = None,
    restarts: int = 0,
    notes: tuple[str, ...] = (),
) -> SecondScan:
    """Return a second scan. Under-replication marks and locks are read last, to show running repairs."""
    source = first_scan.source
    marks = source.cache.write_table("marks", lambda: source.table(MarkSource, nodes))
    can_be_complete = source.store.keeps_marks and first_scan.gap_reason is None
    are_marks_listed = can_be_complete and marks.where("kind = 'gap'").isEmpty()
    return SecondScan(nodes, ledgers, marks, are_marks_listed, restarts, notes)


_BOOKIE_LISTS = (
    *("cookies", "available", "available/readonly"),
    *("bookies", "bookies/writable", "bookies/readonly"),
)
"""Paths below the root where ZooKeeper and etcd list bookies."""


NEW_CLUSTER_IDS = 5
"""Number of issued ledger ids below which a cluster counts as new. A new cluster may have no ledgers."""


@dataclass(frozen=True)
class ClusterMetadata:
    """A cluster's metadata, from both scans."""

    first: FirstScan
    second: SecondScan

    @property
    def source(self) -> MetadataSource:
        """Return the source of the metadata."""
        return self.first.source

    def cookies(self) -> list[StoreCookie]:
        """Return the cookies in the metadata store."""
        return store_cookies(self.second.nodes)

    def modes(self) -> dict[str, str]:
        """Return the registered bookies and their modes. A bookie that either scan saw is registered."""
        first_modes, second_modes = self._modes()
        return {**first_modes, **second_modes}

    def registered_twice(self) -> set[str]:
        """Return the bookies that are registered both as writable and as read-only in each scan.

        While a bookie changes its mode, it has both registrations for a moment.
        """
        first_modes, second_modes = self._modes()
        return {
            name for name, mode in first_modes.items() if mode == "both" and second_modes.get(name) == "both"
        }

    def instance_id_missing(self) -> bool:
        """Return whether the cluster certainly has no INSTANCEID."""
        scan_nodes = (self.first.nodes, self.second.nodes)
        return self.first.gap_reason is None and all(map(instance_id_missing, scan_nodes))

    def bookies_listed(self) -> bool:
        """Return whether all cookies and registrations were read, so that the absence of one is certain."""
        return self._unread_list() is None

    def bookie_list_gaps(self) -> BookiesListed:
        """Return, for the report, which cookies and registrations could not be read, and why."""
        unread_list = self._unread_list()
        reason = None if unread_list is None else ": ".join(unread_list)
        return {"hidden": reason, "unclear": sorted(self.unclear_bookies())}

    def unclear_bookies(self) -> dict[str, str]:
        """Return, by bookie id, the path of a cookie or registration that could not be read."""
        unclear_bookies = ((self._bookie_at(path), path) for path, _ in self.gaps())
        return {name: path for name, path in unclear_bookies if name is not None}

    def issued_id_ranges(self) -> tuple[IdRange, ...]:
        """Return the id range and the next id of each ledger id generator, as of the last scan."""
        return find_id_ranges(self.second.nodes, self.source.layout)

    def lacks_layout_and_generator(self) -> bool:
        """Return whether the store certainly lacks both LAYOUT and an id generator, but should have them.

        The result is False for a Pulsar store that lists ledgers. Pulsar's driver writes no LAYOUT, and
        creates the id generator as a container node. ZooKeeper deletes a container node when it is empty.
        """
        if self.source.is_pulsar_layout and self.source.cache.count("ledgers"):
            return False
        return (
            self.first.gap_reason is None
            and is_unused_store(self.first.nodes)
            and is_unused_store(self.second.nodes)
        )

    def is_layout_known(self, wrong_tree_reason: str | None) -> bool:
        """Return whether the layout is certain, because the store records it or no other layout is possible.

        ``wrong_tree_reason`` (`ScanDifference`) says that ledgers are at paths of another layout, or is None.
        Pulsar's driver writes no LAYOUT and has a single layout. With a reason, that layout is not certain.
        """
        if self.source.is_pulsar_layout:
            return wrong_tree_reason is None
        return self.source.layout is LayoutKind.ETCD or "LAYOUT" in self.first.nodes.nodes

    def is_in_use(self) -> bool:
        """Return whether the store was read completely and its id generators do not show a new cluster."""
        id_ranges = self.issued_id_ranges()
        is_new = bool(id_ranges) and sum(ids.next - ids.low for ids in id_ranges) < NEW_CLUSTER_IDS
        return not self.gaps() and not is_new

    def gaps(self) -> list[tuple[str, str]]:
        """Return (path, reason) of each unreadable record about the cluster itself, such as a cookie."""
        first_nodes = self.first.nodes
        incomplete_lists = [(self.source.store.root, first_nodes.damage)] if first_nodes.damage else []
        return sorted({*first_nodes.gaps, *self.second.nodes.gaps, *incomplete_lists})

    def positions(self) -> list[str]:
        """Return the store's position at each scan: ZooKeeper zxids, etcd revisions or Oxia versions."""
        first_position, second_position = self.first.nodes.position, self.second.nodes.position
        return [first_position, second_position] if self.source.live else [first_position]

    def remarks(self) -> list[Remark]:
        """Return remarks for the report about how the metadata was read."""
        first_nodes, second_nodes = self.first.nodes, self.second.nodes
        remarks = [remark_with_reason(RemarkKind.RESUMED, note) for note in self.source.cache.run_store.notes]
        if "LAYOUT" not in first_nodes.nodes and not self.source.is_pulsar_layout:
            remarks.append(remark(RemarkKind.LAYOUT_ASSUMED, self.source.layout_note))
        if not self.source.live:
            remarks.append(
                remark(RemarkKind.SAVED_METADATA, "saved metadata: changes during the audit cannot be seen")
            )
        if restarts := self.first.restarts + self.second.restarts:
            reason_text = "shards changed" if self.source.uri.scheme == OXIA else "etcd compacted a revision"
            text = f"{reason_text} during the scan: {restarts} scans restarted"
            remarks.append(remark(RemarkKind.SCAN_RESTARTED, text))
        remarks += [remark_with_reason(RemarkKind.SECOND_SCAN_WHOLE, note) for note in self.second.notes]
        store_kind = RemarkKind.SCAN_RESTARTED if self.source.live else RemarkKind.SAVED_FILE_FAULT
        for note in dict.fromkeys((*first_nodes.notes, *second_nodes.notes)):
            is_store_limit = note in (NO_MARKS_NOTE, NO_TIMES_NOTE, OXIA_NOTE)
            remarks.append(remark_with_reason(RemarkKind.STORE_LIMIT if is_store_limit else store_kind, note))
        return remarks

    def cluster_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table ``cluster``: facts about the whole cluster from the store."""
        unlisted_rows = make_unlisted_rows(self._unread_list(), self.unclear_bookies())
        return [*make_cluster_rows(self.second.nodes), *unlisted_rows]

    def registration_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table ``registrations``: the registered bookies."""
        # BookKeeper's etcd driver stores no endpoints, and its clients read none (as of 4.17).
        reads_registrations = self.source.layout is not LayoutKind.ETCD
        return registrations(self.second.nodes, reads_registrations=reads_registrations)

    def _modes(self) -> tuple[dict[str, str], dict[str, str]]:
        first_rows, second_rows = registrations(self.first.nodes), registrations(self.second.nodes)
        return find_registered_modes(first_rows), find_registered_modes(second_rows)

    def _unread_list(self) -> tuple[str, str] | None:
        """Return the path of an unreadable list of bookies, and the reason. Any bookie may be in that list.

        Returns None if all lists of cookies and registrations were read.
        """
        root = self.source.store.root
        list_paths = [f"{root}/{name}" for name in _BOOKIE_LISTS]
        list_prefixes = tuple(f"{list_path}/" for list_path in list_paths)
        for path, reason in self.gaps():
            is_in_bookie_list = path in (root, *list_paths) or path.startswith(list_prefixes)
            if is_in_bookie_list and self._bookie_at(path) is None:
                return path, reason
        return None

    def _bookie_at(self, path: str) -> str | None:
        """Return the bookie whose cookie or registration is at ``path``, or None for any other path."""
        parent, _, name = path.removeprefix(f"{self.source.store.root}/").rpartition("/")
        return name if parent in _BOOKIE_LISTS and f"{parent}/{name}" not in _BOOKIE_LISTS and name else None


class ScanDifference(NamedTuple):
    """The differences between both scans.

    ``moved_ids`` has the ledgers that were created, deleted or changed between the scans. It is None if there
    was only one scan. ``doubtful_ids`` are ledger ids that a scan may have missed.
    """

    moved_ids: DataFrame | None
    doubtful_ids: DataFrame
    wrong_tree_reason: str | None
    """A sentence if the ledgers are at paths of another layout than the store's LAYOUT names, else None."""


def write_difference(metadata: ClusterMetadata) -> ScanDifference:
    """Compare both scans. Write tables ``moved`` and ``doubtful_ids`` (ids that scans may have missed)."""
    first_scan, second_ledgers, cache = metadata.first, metadata.second.ledgers, metadata.source.cache
    names = ("ledgers",) if second_ledgers is None else ("ledgers", "ledgers_again")
    statuses = [cache.distinct_values(name, "status") for name in names]
    has_misplaced = LedgerStatus.MISPLACED in statuses[0]
    layout_note = metadata.source.layout_note
    wrong_tree_reason = find_wrong_tree(first_scan.ledgers, layout_note) if has_misplaced else None
    reason_for_all_ids = first_scan.gap_reason or wrong_tree_reason
    may_lack_ledgers = first_scan.gap_reason is not None or not frozenset().union(*statuses).isdisjoint(
        STATUSES_WITH_UNCERTAIN_IDS
    )
    id_rows = cache.write_or_empty(
        may_lack_ledgers,
        "doubtful_ids",
        DOUBTFUL_IDS,
        lambda: doubtful_ids(first_scan.ledgers, second_ledgers, reason_for_all_ids),
    )
    if second_ledgers is None:
        return ScanDifference(None, id_rows, wrong_tree_reason)
    changes = cache.write_table("moved", lambda: find_moves(first_scan.ledgers, second_ledgers, id_rows))
    return ScanDifference(changes, id_rows, wrong_tree_reason)


def write_registry(metadata: ClusterMetadata) -> dict[str, DataFrame]:
    """Write and return the small tables about the cluster: cookies, registrations and cluster, by name."""
    cache = metadata.source.cache
    cookies = [cookie.make_row() for cookie in metadata.cookies()]
    return {
        "cookies": cache.write_rows("cookies", cookies, COOKIES),
        "registrations": cache.write_rows("registrations", metadata.registration_rows(), REGISTRATIONS),
        "cluster": cache.write_rows("cluster", metadata.cluster_rows(), CLUSTER),
    }
