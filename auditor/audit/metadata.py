"""Both scans of a cluster's metadata: the second one, M1, and what the two say together.

A saved store is scanned once, and that scan stands for both. A live one is scanned again after the bookies
were read: what did not stand still in between is never called sure. Most of it did: where the store can say
what moved, only that is read again, and the rest is taken from the first scan. etcd is asked which keys have
a newer revision, and how many there are; ZooKeeper is watched from before the first scan on, and Oxia keeps
what changes for some time. Where it cannot be told, all is read again, and the report says why.

What was seen in either scan is there; what is missing must be missing in both, and a source that was cut, or
has a gap where it would lie, proves no absence.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.earlier_run import earlier_ledgers, reusable_facts
from auditor.audit.metadata_scan import FirstScan, MetadataSource, scan_ledgers, whole_tree_elsewhere
from auditor.errors import RunError, StoreError
from auditor.model.ledger_id import LayoutKind
from auditor.model.run_facts import WHOLE, BookiesListed, Remark, RemarkKind, remark, remark_with_reason
from auditor.model.states import LedgerStatus
from auditor.sources.metadata.earlier_ledgers import ComparableStore
from auditor.sources.metadata.etcd.key_ranges import NOTE, PATHS_NOTE
from auditor.sources.metadata.ledger_rows import LEDGERS_AGAIN
from auditor.sources.metadata.oxia.questions import NOTE as OXIA_NOTE
from auditor.sources.metadata.spark_source import LedgerAgainSource, MarkSource
from auditor.sources.metadata.store import ClusterNodes, WatchableStore
from auditor.sources.metadata.uri import OXIA
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame
from auditor.spark.part_tables import PartTable
from auditor.spark.types import DataFrame
from auditor.tables.cluster_state import CLUSTER, Ids, cluster_state, ids_drawn, is_bare, unlisted_bookies
from auditor.tables.registry import (
    COOKIES,
    REGISTRATIONS,
    StoreCookie,
    instance_id_missing,
    registered_modes,
    registrations,
    store_cookies,
)
from auditor.tables.scans import DOUBTFUL_IDS, LEAVE_IDS_OPEN, doubtful_ids, find_moves


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
    nodes, again = source.store.cluster(), _Rescan(first)
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


class _Rescan:
    """The ledgers once more: what moved, where that can be seen, and the rest from the first scan; or all.

    ``takes`` is whether anything was taken from the first scan, ``notes`` say why nothing was; both once
    `rows` was called.
    """

    def __init__(self, first: FirstScan) -> None:
        self._first = first
        self.takes = False
        self.notes: tuple[str, ...] = ()

    def rows(self, nodes: ClusterNodes) -> pa.Table | PartTable | DataFrame:
        """The table ``ledgers_again``, not before it is wanted: what moves until then counts."""
        if not self.notes:
            try:
                if (rows := self._moved(nodes)) is not None:
                    self.takes = True
                    return rows
            except (RunError, StoreError) as error:
                self.take_nothing(error)
        return self._first.source.table(LedgerAgainSource, nodes)

    def take_nothing(self, why: Exception) -> None:
        """Read all from here on."""
        self.takes = False
        self.notes = (f"the second scan read all ledgers: {why}",)

    def _moved(self, nodes: ClusterNodes) -> pa.Table | PartTable | DataFrame | None:
        source = self._first.source
        if isinstance(source.store, WatchableStore):
            return _moved_rows(self._first, _moved_paths(self._first, source.store), nodes)
        if isinstance(source.store, ComparableStore):
            return source.table(LedgerAgainSource, nodes, earlier=_earlier_rows(source, source.store))
        return None


def _earlier_rows(source: MetadataSource, store: ComparableStore) -> str:
    """The first scan as an earlier one, for a store that is asked what has changed since.

    Raises:
        RunError, StoreError: it cannot be one, and why.
    """
    table, facts = source.landing.where("tables/ledgers"), reusable_facts(source.landing, "ledgers")
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


def _moved_rows(first: FirstScan, paths: tuple[str, ...], nodes: ClusterNodes) -> DataFrame:
    """The rows of the first scan but for some paths, and what is at these now."""
    names = LEDGERS_AGAIN.names
    rows = first.ledgers.withColumn("reused", F.lit(True)).select(*names)
    if not paths:
        return rows
    moved = arrow_frame(first.source.landing.spark, pa.table({"path": pa.array(paths, pa.string())}))
    unmoved = rows.join(F.broadcast(moved), "path", "left_anti").select(*names)
    return unmoved.unionByName(first.source.rows_at(LedgerAgainSource, paths, nodes))


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


_LISTS = ("cookies", "available", "available/readonly", "bookies", "bookies/writable", "bookies/readonly")
"""Below the root: where ZooKeeper and etcd list bookies."""


NEW_CLUSTER_IDS = 5
"""A store that has given out fewer ids than this is that of a new cluster: its ledgers may all be deleted."""


@dataclass(frozen=True)
class ClusterMetadata:
    """A cluster's metadata, from both scans."""

    first: FirstScan
    second: SecondScan

    @property
    def source(self) -> MetadataSource:
        """Where it was read."""
        return self.first.source

    def cookies(self) -> list[StoreCookie]:
        """The cookies of the store."""
        return store_cookies(self.second.nodes)

    def modes(self) -> dict[str, str]:
        """Registered bookies and how; one that was seen in either scan is there."""
        before, after = self._modes()
        return {**before, **after}

    def registered_twice(self) -> set[str]:
        """Bookies that every scan saw both writable and read-only: for a moment, each that turns is."""
        before, after = self._modes()
        return {name for name, mode in before.items() if mode == "both" and after.get(name) == "both"}

    def instance_id_missing(self) -> bool:
        """Whether the cluster surely has no INSTANCEID."""
        looks = (self.first.nodes, self.second.nodes)
        return self.first.cut is None and all(map(instance_id_missing, looks))

    def bookies_listed(self) -> bool:
        """Whether cookies and registrations were seen to their end; else one that is not there is unknown."""
        return self._hidden_bookies() is None

    def bookies_seen(self) -> BookiesListed:
        """What of the cookies and registrations could not be read, and why, for the report."""
        hidden = self._hidden_bookies()
        why = None if hidden is None else ": ".join(hidden)
        return {"hidden": why, "unclear": sorted(self.unclear_bookies())}

    def unclear_bookies(self) -> dict[str, str]:
        """Bookies of which a cookie or a registration could not be read, with its path."""
        unclear = ((self._bookie_of(path), path) for path, _ in self.gaps())
        return {name: path for name, path in unclear if name is not None}

    def ids_drawn(self) -> tuple[Ids, ...]:
        """How far the store's id generators are: of a live store, after the bookies were read."""
        return ids_drawn(self.second.nodes, self.source.layout)

    def bare(self) -> bool:
        """Whether the store surely has neither a LAYOUT nor an id generator, and should have one.

        A store of Pulsar that lists ledgers is in use without either: its driver writes no LAYOUT, and makes
        the id generator as a container node, which ZooKeeper deletes if it is empty.
        """
        if self.source.pulsar_layout and "ledgers" not in self.source.landing.empty:
            return False
        return self.first.cut is None and is_bare(self.first.nodes) and is_bare(self.second.nodes)

    def layout_known(self, tree_elsewhere: str | None) -> bool:
        """Whether the store says its layout, or can have one alone; else it is assumed.

        ``tree_elsewhere`` is that of `ScanDifference`: such a tree is not that of Pulsar's driver.
        """
        if self.source.pulsar_layout:
            return tree_elsewhere is None
        return self.source.layout is LayoutKind.ETCD or "LAYOUT" in self.first.nodes.nodes

    def is_used(self) -> bool:
        """Whether the store was listed without a gap, and is not known to be that of a new cluster."""
        ids = self.ids_drawn()
        is_new = bool(ids) and sum(generator.next - generator.low for generator in ids) < NEW_CLUSTER_IDS
        return not self.gaps() and not is_new

    def gaps(self) -> list[tuple[str, str]]:
        """What of the cluster's own znodes could not be read."""
        first = self.first.nodes
        cut = [(self.source.store.root, first.cut)] if first.cut else []
        return sorted({*first.gaps, *self.second.nodes.gaps, *cut})

    def positions(self) -> list[str]:
        """Where the store stood at each scan: zxids, etcd's revisions, or Oxia's versions."""
        first, second = self.first.nodes.position, self.second.nodes.position
        return [first, second] if self.source.live else [first]

    def remarks(self) -> list[Remark]:
        """What a reader of the report should know of how it was read."""
        first, second = self.first.nodes, self.second.nodes
        remarks = [remark_with_reason(RemarkKind.RESUMED, note) for note in self.source.landing.notes]
        if "LAYOUT" not in first.nodes and not self.source.pulsar_layout:
            remarks.append(remark(RemarkKind.LAYOUT_ASSUMED, self.source.layout_note))
        if not self.source.live:
            remarks.append(remark(RemarkKind.SAVED, "saved metadata: nothing can be seen to change"))
        if restarts := self.first.restarts + self.second.restarts:
            lost = "shards changed" if self.source.uri.scheme == OXIA else "etcd compacted a revision"
            text = f"{lost} while it was read: {restarts} scans began anew"
            remarks.append(remark(RemarkKind.SCAN_RESTARTED, text))
        remarks += [remark_with_reason(RemarkKind.SECOND_SCAN_WHOLE, note) for note in self.second.notes]
        of_store = RemarkKind.SCAN_RESTARTED if self.source.live else RemarkKind.SAVED_FILE
        for note in dict.fromkeys((*first.notes, *second.notes)):
            kind = RemarkKind.STORE_LIMIT if note in (NOTE, PATHS_NOTE, OXIA_NOTE) else of_store
            remarks.append(remark_with_reason(kind, note))
        return remarks

    def cluster_rows(self) -> list[dict[str, Any]]:
        """What the store says of the whole cluster: rows of the table ``cluster``."""
        hidden = unlisted_bookies(self._hidden_bookies(), self.unclear_bookies())
        return [*cluster_state(self.second.nodes), *hidden]

    def registration_rows(self) -> list[dict[str, Any]]:
        """Who is connected: rows of the table ``registrations``."""
        # The etcd driver keeps no endpoints, and its clients look for none (as of 4.17).
        reads = self.source.layout is not LayoutKind.ETCD
        return registrations(self.second.nodes, reads_registrations=reads)

    def _modes(self) -> tuple[dict[str, str], dict[str, str]]:
        first, second = registrations(self.first.nodes), registrations(self.second.nodes)
        return registered_modes(first), registered_modes(second)

    def _hidden_bookies(self) -> tuple[str, str] | None:
        """A place where any bookie's cookie or registration may be that could not be read, and the reason."""
        root = self.source.store.root
        lists = [f"{root}/{name}" for name in _LISTS]
        below = tuple(f"{place}/" for place in lists)
        for path, reason in self.gaps():
            among = path in (root, *lists) or path.startswith(below)
            if among and self._bookie_of(path) is None:
                return path, reason
        return None

    def _bookie_of(self, path: str) -> str | None:
        """The bookie whose cookie or registration lies at a path; None where it is not one bookie's."""
        parent, _, name = path.removeprefix(f"{self.source.store.root}/").rpartition("/")
        return name if parent in _LISTS and f"{parent}/{name}" not in _LISTS and name else None


class ScanDifference(NamedTuple):
    """What the scans differ in, None where one stands for both; and ids that either may have missed."""

    moved: DataFrame | None
    doubtful_ids: DataFrame
    tree_elsewhere: str | None
    """That the ledgers lie where the store's LAYOUT does not say, as a sentence; None: they do not."""


def land_difference(metadata: ClusterMetadata) -> ScanDifference:
    """Compare the scans with each other, and land the tables ``doubtful_ids`` and ``moved``."""
    first, again, landing = metadata.first, metadata.second.ledgers, metadata.source.landing
    names = ("ledgers",) if again is None else ("ledgers", "ledgers_again")
    statuses = [landing.values(name, "status") for name in names]
    misplaced = statuses[0] is None or LedgerStatus.MISPLACED in statuses[0]
    elsewhere = whole_tree_elsewhere(first.ledgers, metadata.source.layout_note) if misplaced else None
    reason_for_all = first.cut or elsewhere
    none_doubtful = first.cut is None and all(
        values is not None and values.isdisjoint(LEAVE_IDS_OPEN) for values in statuses
    )
    doubtful = landing.land_some(
        not none_doubtful,
        "doubtful_ids",
        DOUBTFUL_IDS,
        lambda: doubtful_ids(first.ledgers, again, reason_for_all),
    )
    if again is None:
        return ScanDifference(None, doubtful, elsewhere)
    moves = landing.land("moved", lambda: find_moves(first.ledgers, again, doubtful))
    return ScanDifference(moves, doubtful, elsewhere)


def land_registry(metadata: ClusterMetadata) -> dict[str, DataFrame]:
    """Land what the store has of the cluster itself, by the table's name: as many rows as it has bookies."""
    landing = metadata.source.landing
    cookies = [cookie.row() for cookie in metadata.cookies()]
    return {
        "cookies": landing.rows("cookies", cookies, COOKIES),
        "registrations": landing.rows("registrations", metadata.registration_rows(), REGISTRATIONS),
        "cluster": landing.rows("cluster", metadata.cluster_rows(), CLUSTER),
    }
