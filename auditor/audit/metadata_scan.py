"""One side of an audit: a cluster's metadata, read and landed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from auditor.audit.earlier_run import Since, ledgers_read
from auditor.audit.landing import Landing
from auditor.audit.manifest import files_noted, ledgers_noted, noted
from auditor.errors import RunError, StoreError
from auditor.model.layout import LayoutKind
from auditor.model.options import AuditOptions, moment
from auditor.sources.metadata.comparable_store import ComparableStore
from auditor.sources.metadata.layout import choose_layout
from auditor.sources.metadata.options import polite
from auditor.sources.metadata.spark_source import LedgerAgainSource, LedgerSource, MarkSource, StoreSource
from auditor.sources.metadata.store import RESTARTS, ClusterNodes, NeighbourStore
from auditor.sources.metadata.stores import open_store
from auditor.spark.source_rows import source_rows
from auditor.tables.cluster_state import CLUSTER, cluster_state, unlisted_bookies
from auditor.tables.id_generator import Ids, ids_drawn, is_bare
from auditor.tables.registry import (
    COOKIES,
    REGISTRATIONS,
    instance_id,
    instance_id_missing,
    registered_modes,
    registrations,
    store_cookies,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LISTS = ("cookies", "available", "available/readonly", "bookies", "bookies/writable", "bookies/readonly")
"""Below the root: where ZooKeeper and etcd list bookies."""


class MetadataScan:
    """A cluster's metadata: read once from a saved store, before and after the bookies from a live one."""

    def __init__(self, landing: Landing, uri: str, options: AuditOptions) -> None:
        self._landing = landing
        self._options = options
        self.uri = uri
        self._since = Since(None)
        self._ledgers: DataFrame | None = None
        self._taking = False
        self._again_note: str | None = None
        self._store = open_store(uri, polite(self._options))
        try:
            self._look(landing)
        except BaseException:
            self._store.close()  # nobody else holds it yet, and a live one would go on connecting
            raise

    def _look(self, landing: Landing) -> None:
        """Read the cluster's own znodes, and from them how its ledgers lie."""
        self.live = self._store.live
        self.keeps_marks = self._store.keeps_marks
        landing.progress.stage("cluster")
        self.before = self._store.cluster()
        self._after: ClusterNodes | None = None if self.live else self.before
        self._restarts = 0
        self.layout, self._layout_said = choose_layout(self._store, self.before)
        self.instance_id = instance_id(self.before)
        observed = landing.remember("scan_time", self.before.scan_time)
        given = self._options.scan_time
        self.scan_time: int = observed if given is None else moment(given)

    def begin_with(self, since: Since) -> None:
        """Take from an earlier run the ledgers that have not changed since, where the store tells."""
        self._since = since

    def ledgers(self) -> DataFrame:
        """M0: every ledger, decoded, with what each bookie should hold."""
        if self._ledgers is None:
            try:
                landed = self._scanned("ledgers", self._first)
            except RunError as error:
                if not self._taking:
                    raise
                # The earlier table turned out to be damaged while it was read: this one does without it.
                landed = self._scanned("ledgers", partial(self._first, str(error)))
            files_noted(self._landing, "ledgers")
            self._since.notes += noted(self._landing, "ledgers").get("notes", [])
            self._ledgers = landed
        return self._ledgers

    def again(self) -> DataFrame | None:
        """M1: id, version and standing of every ledger; None where one scan stands for both (saved)."""
        if not self.live:
            return None
        return self._scanned("ledgers_again", self._second)

    def _first(self, unusable: str | None = None) -> DataFrame:
        """Read ledgers, without the earlier run where a reason says that it is not usable."""
        self._taking = False
        if not isinstance(self._store, ComparableStore):
            return self._read(LedgerSource, self.before)
        now, earlier = None, None
        try:
            now = self._store.history()
            earlier = self._since.ledgers(self._store.root, now) if unusable is None else None
        except (RunError, StoreError) as error:
            unusable = str(error)  # if the store is at fault, it is for reading to find out
        told = unusable is not None and self._since.path is not None
        notes = [f"no ledger was taken from {self._since.name}: {unusable}"] if told else []
        ledgers_noted(self._landing, self._store.root, now, notes)
        if earlier is None:
            return self._read(LedgerSource, self.before)
        self._taking = True
        return self._read(LedgerSource, self.before, earlier=earlier.to_json())

    def _second(self) -> DataFrame:
        """Read what a second scan keeps; against an earlier run, only what moved since the first one."""
        at = self.after
        if self._since.path is None or not isinstance(self._store, ComparableStore):
            return self._read(LedgerAgainSource, at)
        first = self._landing.run.where("tables/ledgers")
        try:
            facts = noted(self._landing, "ledgers")
            earlier = ledgers_read(first, facts, self._store.root, self._store.history())
        except (RunError, StoreError) as error:
            self._again_note = f"the second scan read all ledgers: {error}"
            return self._read(LedgerAgainSource, at)
        return self._read(LedgerAgainSource, at, earlier=earlier.to_json())

    def _scanned(self, name: str, read: Callable[[], DataFrame]) -> DataFrame:
        """Land all ledgers as they are at one moment; where that moment is lost, at a newer one."""
        for _ in range(RESTARTS):
            try:
                return self._landing.land(name, read)
            except StoreError:
                if not self._store.moment_lost():
                    raise
                self._restarts += 1
                nodes = self._store.cluster()
                if name == "ledgers":
                    self.before = nodes
                else:
                    self._after = nodes
        return self._landing.land(name, read)

    @property
    def after(self) -> ClusterNodes:
        """The cluster's own znodes at the second scan; read when they are first asked for."""
        if self._after is None:
            self._after = self._store.cluster()
        return self._after

    def marks(self) -> DataFrame:
        """Marks and locks, read last: they explain what is being repaired at this moment."""
        return self._landing.land("marks", lambda: self._read(MarkSource, self.after))

    def cookies(self) -> DataFrame:
        """The cookies of the store."""
        rows = [cookie.row() for cookie in store_cookies(self.after)]
        return self._landing.rows("cookies", rows, COOKIES)

    def registrations(self) -> DataFrame:
        """Who is connected."""
        # The etcd driver keeps no endpoints, and its clients look for none (as of 4.17).
        reads = self.layout is not LayoutKind.ETCD
        rows = registrations(self.after, reads_registrations=reads)
        return self._landing.rows("registrations", rows, REGISTRATIONS)

    def state(self) -> DataFrame:
        """What the store says of the whole cluster."""
        hidden = unlisted_bookies(self._hidden_bookies(), self.unclear_bookies())
        rows = [*cluster_state(self.after), *hidden]
        return self._landing.rows("cluster", rows, CLUSTER)

    def modes(self) -> dict[str, str]:
        """Registered bookies and how; one that was seen in either scan is there."""
        return {**registered_modes(registrations(self.before)), **registered_modes(registrations(self.after))}

    def registered_twice(self) -> set[str]:
        """Bookies that every scan saw both writable and read-only: for a moment, each that turns is."""
        seen = [registered_modes(registrations(nodes)) for nodes in (self.before, self.after)]
        return {name for name, mode in seen[0].items() if mode == "both" and seen[1].get(name) == "both"}

    def instance_id_missing(self) -> bool:
        """Whether the cluster surely has no INSTANCEID."""
        return not self.cut() and instance_id_missing(self.before) and instance_id_missing(self.after)

    def cut(self) -> str | None:
        """Why any part of the metadata may be missing; None where nothing says so."""
        everywhere = [reason for path, reason in self.before.gaps if path == self._store.root]
        return self.before.cut or next(iter(everywhere), None)

    def proves_absence(self) -> bool:
        """Whether what is not in the source, and in no gap, is surely not there."""
        return self.before.proves_absence

    def has_beside(self, name: str) -> bool:
        """Whether the store has a tree of this name beside BookKeeper's root; False where it does not tell.

        Raises:
            StoreError: the store did not say.
        """
        return isinstance(self._store, NeighbourStore) and self._store.has_beside(name)

    def zxid(self) -> int | None:
        """Where a running ZooKeeper stood at the first scan; None of other stores."""
        return int(self.before.position, 16) if self.live and self.keeps_marks else None

    def bookies_listed(self) -> bool:
        """Whether cookies and registrations were seen to their end; else one that is not there is unknown."""
        return self._hidden_bookies() is None

    def unclear_bookies(self) -> dict[str, str]:
        """Bookies of which a cookie or a registration could not be read, with its path."""
        found = ((self._bookie_of(path), path) for path, _ in self.gaps())
        return {name: path for name, path in found if name is not None}

    def _hidden_bookies(self) -> tuple[str, str] | None:
        """A place where any bookie's cookie or registration may be that could not be read, and the reason."""
        lists = [f"{self._store.root}/{name}" for name in _LISTS]
        below = tuple(f"{place}/" for place in lists)
        for path, reason in self.gaps():
            among = path in (self._store.root, *lists) or path.startswith(below)
            if among and self._bookie_of(path) is None:
                return path, reason
        return None

    def _bookie_of(self, path: str) -> str | None:
        """The bookie whose cookie or registration lies at a path; None where it is not one bookie's."""
        parent, _, name = path.removeprefix(f"{self._store.root}/").rpartition("/")
        return name if parent in _LISTS and f"{parent}/{name}" not in _LISTS and name else None

    def marks_listed(self) -> bool:
        """Whether all marks were seen; where not, one that is not there is unknown."""
        hidden = self.keeps_marks and not self.cut()
        return hidden and self.marks().where("kind = 'gap'").isEmpty()

    def ids_drawn(self) -> tuple[Ids, ...]:
        """How far the store's id generators are: of a live store, after the bookies were read."""
        return ids_drawn(self.after, self.layout)

    def bare(self) -> bool:
        """Whether the store surely has neither a LAYOUT nor an id generator."""
        return not self.cut() and is_bare(self.before) and is_bare(self.after)

    def gaps(self) -> list[tuple[str, str]]:
        """What of the cluster's own znodes could not be read."""
        cut = [(self._store.root, self.before.cut)] if self.before.cut else []
        return sorted({*self.before.gaps, *self.after.gaps, *cut})

    def positions(self) -> list[str]:
        """Where the store stood at each scan: zxids, or etcd's revisions."""
        return [self.before.position, self.after.position] if self.live else [self.before.position]

    def resumed(self) -> int | None:
        """When the oldest table was written that the run took of one that broke off, ms."""
        return self._landing.resumed

    def notes(self) -> list[str]:
        """What a reader of the report should know of how it was made."""
        notes = [*self._landing.notes]
        notes += [] if "LAYOUT" in self.before.nodes else [self._layout_said]
        if not self.live:
            notes.append("saved metadata: one scan stands for both")
        if self._restarts:
            notes.append(f"etcd compacted a revision while it was read: {self._restarts} scans began anew")
        if self._again_note is not None:
            notes.append(self._again_note)
        return [*notes, *dict.fromkeys((*self.before.notes, *self.after.notes))]

    def operations(self) -> dict[str, int]:
        """What the driver asked the store for."""
        return self._store.operations()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def _read(self, source: type[StoreSource], at: ClusterNodes, **more: str) -> DataFrame:
        at_once = self._landing.spark.sparkContext.defaultParallelism
        settings: dict[str, Any] = {
            "metadata": self.uri,
            **asdict(polite(self._options)),
            "layout": self.layout.value,
            "parts": at_once * self._options.parts_per_core,
            "at_once": at_once,
        }
        if at.revision is not None:
            settings |= {"revision": at.revision, "revision_time": at.scan_time}
        given = {key: str(value) for key, value in settings.items() if value is not None}
        return source_rows(self._landing.spark, source({**given, **more}))
