"""A running etcd, read without ever writing, all of it at one revision.

`PinnedEtcd.cluster` pins the newest revision; every part carries it, so that tasks which read side by side
and one after the other still see one moment. Whoever reads the ledgers through another object than the one
that read the cluster hands the moment on, in `StoreOptions`: ``revision=nodes.revision`` and
``revision_time=nodes.scan_time``.

etcd keeps old revisions until they are compacted: by itself with ``--auto-compaction-retention``, which is
off unless given, or by an operator's job. A retention longer than a scan makes the following rare. If the
pinned revision goes while it is read, the read ends with `CompactedError`, because what was read before and
what would be read now belong to no one moment. `PinnedEtcd.moment_lost` says so afterwards, to the process
that started the tasks; that reads everything again from `PinnedEtcd.cluster` on, which pins a newer one.

etcd keeps no times. A ledger's mtime is the time at which the revision was pinned: it was changed no later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from auditor.errors import CompactedError
from auditor.keys import etcd
from auditor.sources.clock import now_ms
from auditor.sources.metadata.etcd.client import EtcdClient, EtcdQuestion, Keys
from auditor.sources.metadata.etcd.nodes import key_znode
from auditor.sources.metadata.etcd.pages import EtcdPages, batch_of
from auditor.sources.metadata.etcd.since import Moment
from auditor.sources.metadata.store import RESTARTS, ClusterNodes, Part, StoreOptions, Znode, ZnodeBatch
from auditor.sources.metadata.uri import MetadataUri


@dataclass(frozen=True)
class EtcdPart(Part):
    """Spans of keys end to end, all to be read at one moment of one cluster."""

    edges: tuple[bytes, ...]
    moment: Moment
    cluster_id: int


class PinnedEtcd(ABC):
    """The part of a `MetadataStore` that all layouts in etcd share. ``clock`` gives ms since 1970."""

    live = True
    keeps_marks: bool
    keeps_times = False
    note: str
    """What a reader of the report should know of the layout."""

    def __init__(
        self,
        uri: MetadataUri,
        options: StoreOptions,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.uri = uri
        self.root = uri.root
        self._clock = clock
        self._client = EtcdClient(uri.hosts, options)
        self._pages = EtcdPages(self._client, options)
        self._moment: Moment | None = None
        self._given: Moment | None = None
        if options.revision is not None:
            pinned = clock() if options.revision_time is None else options.revision_time
            self._given = Moment(options.revision, pinned)

    @abstractmethod
    def _nodes(self, moment: Moment) -> tuple[dict[str, Znode], list[tuple[str, str]]]:
        """The cluster's own keys under ZooKeeper's names, and what could not be read.

        Raises:
            StoreError: there is no cluster.
        """

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
        notes = [self.note]
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


def znodes_of(found: Iterable[Keys]) -> list[Znode]:
    """Keys as they were read, each with its numbers, as `Znode` describes them."""
    return [
        key_znode(etcd.key_text(name), *numbers)
        for keys in found
        for name, *numbers in zip(*keys, strict=True)
    ]
