"""Metadata in a running etcd, read without ever writing, all of it at one revision.

`EtcdStore.cluster` pins the newest revision; every part carries it, so that tasks which read side by side and
one after the other still see one moment. Whoever reads the ledgers through another object than the one that
read the cluster hands the moment on, in `StoreOptions`: ``revision=nodes.revision`` and
``revision_time=nodes.scan_time``.

etcd keeps old revisions until they are compacted: by itself with ``--auto-compaction-retention``, which is
off unless given, or by an operator's job. A retention longer than a scan makes the following rare. If the
pinned revision goes while it is read, the read ends with `CompactedError`, because what was read before and
what would be read now belong to no one moment. `EtcdStore.moment_lost` says so afterwards, to the process
that started the tasks; that reads everything again from `EtcdStore.cluster` on, which pins a newer one.

etcd keeps no times. A ledger's mtime is the time at which the revision was pinned: it was changed no later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from auditor.errors import CompactedError, StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.etcd.client import EtcdClient, EtcdQuestion, Keys
from auditor.sources.metadata.etcd.nodes import NOTE, by_node_name, key_znode
from auditor.sources.metadata.etcd.pages import EtcdPages, batch_of
from auditor.sources.metadata.etcd.spans import KeySpan, dealt, spans
from auditor.sources.metadata.store import (
    RESTARTS,
    ClusterNodes,
    History,
    Part,
    StoreOptions,
    Tree,
    Znode,
    ZnodeBatch,
)
from auditor.sources.metadata.uri import MetadataUri
from auditor.sources.reuse.earlier_ledgers import EarlierLedgers
from auditor.sources.reuse.etcd_since import Moment, SincePart, rows_since

_SINGLE = (
    "layout",
    "instanceid",
    "cookies",
    "bookies",
    "bookies/writable",
    "bookies/readonly",
    "ledgers",
    "buckets",
    "underreplication",
)
_PARENTS = ("cookies", "bookies/writable", "bookies/readonly", "buckets")


@dataclass(frozen=True)
class EtcdPart(Part):
    """Spans of keys end to end, all to be read at one moment of one cluster."""

    edges: tuple[bytes, ...]
    moment: Moment
    cluster_id: int


class EtcdStore:
    """Metadata in a running etcd; see the module. ``clock`` gives ms since 1970."""

    live = True
    keeps_marks = False
    keeps_times = False

    def __init__(
        self,
        uri: str,
        parsed: MetadataUri,
        options: StoreOptions,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.uri = uri
        self.root = parsed.root
        self._clock = clock
        self._client = EtcdClient(parsed.hosts, options)
        self._pages = EtcdPages(self._client, options)
        self._moment: Moment | None = None
        self._given: Moment | None = None
        if options.revision is not None:
            pinned = clock() if options.revision_time is None else options.revision_time
            self._given = Moment(options.revision, pinned)

    def cluster(self) -> ClusterNodes:
        """Pin the newest revision, or the one given, and read the cluster's own keys there.

        ``nodes`` has them under ZooKeeper's names (`auditor.keys.etcd.node_name`), ``scan_time`` is this
        machine's clock. A revision that is compacted meanwhile is given up for a newer one. See
        `MetadataStore.cluster`.
        """
        lost = 0
        while True:
            self._moment = self._pin()
            try:
                nodes, gaps = self._nodes(self._moment)
                break
            except CompactedError:
                lost += 1
                if self._given is not None or lost > RESTARTS:
                    raise
        notes = [NOTE]
        if lost:
            notes.append(f"etcd compacted the revision being read, {lost} times: read at a newer one")
        return ClusterNodes(
            nodes,
            self._moment.time,
            f"revision {self._moment.revision}",
            gaps=tuple(gaps),
            notes=tuple(notes),
            revision=self._moment.revision,
        )

    def parts(self, tree: Tree, layout: LayoutKind, wanted: int) -> list[Part]:
        """Ranges of keys at the revision that `cluster` pinned last; at the newest if it was not called.

        There are no marks. See `MetadataStore.parts`.
        """
        if tree is Tree.MARKS:
            return []
        moment = self._moment = self._moment or self._pin()
        if tree is Tree.WHOLE:
            scope, _, name = self.root.rpartition("/")
            return [self._part(etcd.children(scope, name), moment)]
        found = spans(
            self.root,
            lambda ranges: self._pages.counts(ranges, moment.revision),
            lambda start, end: self._pages.first(start, end, moment.revision),
            wanted,
        )
        return [self._part(_edges(lot), moment) for lot in dealt(found, wanted)]

    def part_of(self, path: str) -> Part:
        """The key ``path``, at the revision that `cluster` pinned last; see `OnePathStore.part_of`."""
        assert self._moment is not None
        key = etcd.key_bytes(path)
        return self._part((key, key + b"\0"), self._moment)

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part at its revision; see `MetadataStore.read`.

        Raises:
            CompactedError: the revision is gone; see the module for what then.
        """
        assert isinstance(part, EtcdPart)
        self._client.expect_cluster(part.cluster_id)
        for start, end in zip(part.edges, part.edges[1:], strict=False):
            for page in self._pages.read(start, end, part.moment.revision):
                if page.keys.names or page.gaps:
                    yield batch_of(page, part.moment.time)

    def history(self) -> History:
        """Which history it shows, at the revision that `cluster` pinned last.

        Raises:
            StoreError: as `cluster`.
        """
        moment = self._moment = self._moment or self._pin()
        # The log is asked before the revision for the least that it is ahead, and after it for the most.
        before = self._client.log_index()
        key = etcd.key_bytes(f"{self.root}/layout")
        newest = self._client.ask(EtcdQuestion(key, b"", 0, bare=True)).revision
        after = self._client.log_index()
        return History(self._cluster_id(), moment.revision, (before - newest, after - newest))

    def parts_since(self, earlier: EarlierLedgers, wanted: int) -> list[Part]:
        """Ranges of keys as the earlier run's files have them; see `ComparableStore.parts_since`."""
        moment = self._moment = self._moment or self._pin()
        whole = etcd.children(self.root, etcd.LEDGERS)
        return [
            SincePart(start, end, moment, self._cluster_id(), lot)
            for lot, start, end in earlier.dealt(*whole, wanted)
        ]

    def rows_since(self, part: Part, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read such a part at its revision; see `auditor.sources.reuse.etcd_since`."""
        assert isinstance(part, SincePart)
        self._client.expect_cluster(part.cluster_id)
        yield from rows_since(self._pages, part, self.root, columns)

    def moment_lost(self) -> bool:
        """Whether the pinned revision is no longer kept; see `MetadataStore.moment_lost`."""
        if self._moment is None:
            return False
        try:
            self._client.ask(
                EtcdQuestion(*etcd.children(self.root, "cookies"), self._moment.revision, limit=1)
            )
        except CompactedError:
            return True
        return False

    def operations(self) -> dict[str, int]:
        """Connections, requests by kind and keys read; there is no other kind of request."""
        return dict(self._client.operations)

    def close(self) -> None:
        """Let go of the connection; the pinned revision stays."""
        self._client.close()

    def _part(self, edges: tuple[bytes, ...], moment: Moment) -> EtcdPart:
        return EtcdPart(edges, moment, self._cluster_id())

    def _cluster_id(self) -> int:
        if self._client.cluster_id is None:  # the moment was given, and nothing has been asked yet
            self._client.ask(EtcdQuestion(etcd.key_bytes(f"{self.root}/layout"), b"", 0, bare=True))
        cluster_id = self._client.cluster_id
        assert cluster_id is not None
        return cluster_id

    def _pin(self) -> Moment:
        if self._given is not None:
            return self._given
        now = self._clock()  # before the server is asked: an age must not come out too small
        key = etcd.key_bytes(f"{self.root}/layout")
        return Moment(self._client.ask(EtcdQuestion(key, b"", 0, bare=True)).revision, now)

    def _nodes(self, moment: Moment) -> tuple[dict[str, Znode], list[tuple[str, str]]]:
        found: list[Keys] = []
        gaps: list[tuple[str, str]] = []
        for rel in _SINGLE:
            asked = EtcdQuestion(etcd.key_bytes(f"{self.root}/{rel}"), b"", moment.revision)
            found.append(self._client.ask(asked).keys)
        for rel in _PARENTS:
            for page in self._pages.read(*etcd.children(self.root, rel), moment.revision):
                found.append(page.keys)
                gaps += page.gaps
        if (
            not any(keys.names for keys in found)
            and self._pages.first(*etcd.children(self.root, "ledgers"), moment.revision) is None
        ):
            raise StoreError(
                f"there is no BookKeeper cluster below {self.root} in {self._client.name}; the metadata URI "
                "ends with the cluster's scope, taken as it is written"
            )
        znodes = [
            key_znode(etcd.key_text(name), *numbers)
            for keys in found
            for name, *numbers in zip(*keys, strict=True)
        ]
        return by_node_name(self.root, znodes), gaps


def _edges(lot: list[KeySpan]) -> tuple[bytes, ...]:
    return (lot[0].start, *(span.end for span in lot))
