"""Reader of a running etcd at one revision, or of the changes since an earlier revision. It never writes.

`PinnedEtcd.cluster` pins the newest revision. A moment is a pinned revision and its time. Every part (the
work of one task) carries the moment, so all tasks see the same state, whenever they run. To read the ledgers
through another object, a process passes the moment on in `StoreOptions`: ``revision=nodes.revision`` and
``revision_time=nodes.scan_time``.

etcd keeps old revisions until a compaction. etcd compacts by itself if ``--auto-compaction-retention`` is
set; an operator's job can compact too. If the pinned revision disappears during a scan, the read ends with
`CompactedError`. The process that started the tasks then calls `PinnedEtcd.has_lost_moment`. It starts again
from `PinnedEtcd.cluster`, which pins a newer revision.

`ChangedRowsReader` reuses an earlier run's rows of unchanged ledgers. A piece is a key range with the
earlier rows in it. For each piece, the reader asks the server for the keys that changed since the earlier
run. The answer also has the number of all keys in the range. So it can compute the number of unchanged keys.
If the piece has exactly this number of rows with unchanged keys, no key was deleted, and the reader reuses
these rows. Otherwise, the reader lists the keys of the range without values. It then reuses each row whose
key is listed with the same version.

The reader verifies that both runs saw the same history of the store. It asks for changes since the version
of one of the piece's newest rows. So the server must report at least one of the newest rows with the same
version. A server that was reset to an older state cannot report them, even after many new changes. (`History`
detects a restored snapshot before anything is read.) If a check fails, or much has changed, the reader reads
the whole range.

etcd keeps no times. A ledger's mtime is the latest possible time: the time when the revision was pinned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.errors import CompactedError
from auditor.keys import etcd
from auditor.keys.etcd import key_text
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.columns import make_batch
from auditor.sources.clock import now_ms
from auditor.sources.metadata.earlier_ledgers import EarlierLedgers, EarlierPiece, read_earlier_pieces
from auditor.sources.metadata.etcd.client import EtcdClient, EtcdRangeRequest, Keys, PendingAnswer
from auditor.sources.metadata.etcd.key_ranges import FirstKeyReader, KeyCounter, key_znode
from auditor.sources.metadata.etcd.pages import EtcdPages, Page, make_page_batch
from auditor.sources.metadata.ledger_rows import ledger_rows
from auditor.sources.metadata.store import (
    MAX_RESTARTS,
    ClusterNodes,
    Part,
    StoreOptions,
    Tree,
    Znode,
    ZnodeBatch,
    tree_of,
)
from auditor.sources.metadata.uri import MetadataUri

MAX_REPEATED_ROWS = 8
"""Largest number of a piece's newest rows to request again, to verify the history of the store.

At most a quarter of the rows, plus one, are requested.
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """A pinned revision, and the time when it was pinned, in ms."""

    revision: int
    time: int


@dataclass(frozen=True)
class ChangedRowsPart(Part):
    """The work of one task: the keys from ``start`` on and before ``end``, and earlier rows to reuse."""

    start: bytes
    end: bytes
    moment: Moment
    cluster_id: int
    earlier_ledgers: EarlierLedgers


class _PieceRequest(NamedTuple):
    """A key range with an earlier run's rows (``piece``), and a request for the keys that changed in it.

    The answer has the changes at revision ``since`` or later. ``pending`` is the request that was sent. It is
    None if the piece has no rows.
    """

    piece: EarlierPiece
    since: int
    pending: PendingAnswer | None


class ChangedRowsReader:
    """A reader of those rows of ``ledgers`` that one task reads. It reuses rows of an earlier run."""

    def __init__(self, pages: EtcdPages, part: ChangedRowsPart, root: str, columns: pa.Schema) -> None:
        self._pages = pages
        self._part = part
        self._root = root
        self._columns = columns

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of the part, one key range after another, in the order of their keys.

        Raises:
            RunError: the earlier run's rows cannot be read, or are not in order.
            CompactedError, StoreError: see `EtcdPages.read`.
        """
        part = self._part
        piece_requests: deque[_PieceRequest] = deque()
        for piece in read_earlier_pieces(part.earlier_ledgers, part.start, part.end, self._columns):
            piece_requests.append(self._send_request(piece))
            while len(piece_requests) > self._pages.can_request_ahead:
                yield from self._read_piece(piece_requests.popleft())
        for piece_request in piece_requests:
            yield from self._read_piece(piece_request)

    def _send_request(self, piece: EarlierPiece) -> _PieceRequest:
        """Request the keys that changed in the key range of ``piece`` since the earlier run."""
        versions: NDArray[np.int64] = np.asarray(piece.rows["version"])
        if not len(versions):
            return _PieceRequest(piece, 0, None)
        repeated_row_count = min(MAX_REPEATED_ROWS, 1 + len(versions) // 4)
        min_revision = int(np.partition(versions, -repeated_row_count)[-repeated_row_count])
        revision = self._part.moment.revision
        return _PieceRequest(
            piece, min_revision, self._pages.ask_for_changes(piece.start, piece.end, revision, min_revision)
        )

    def _read_piece(self, piece_request: _PieceRequest) -> Iterator[pa.RecordBatch]:
        changed_rows = self._changed_rows(piece_request)
        if changed_rows is not None:
            yield changed_rows
            return
        start, end, _ = piece_request.piece
        for page in self._pages.read(start, end, self._part.moment.revision):
            if page.keys.names or page.gaps:
                yield self._decode_page(page)

    def _changed_rows(self, piece_request: _PieceRequest) -> pa.RecordBatch | None:
        """Return the current rows of a key range, in order; None if the range must be read completely."""
        piece, min_revision, pending_answer = piece_request
        changed_keys = self._pages.receive_changes(pending_answer) if pending_answer is not None else None
        if changed_keys is None:
            return None
        versions: NDArray[np.int64] = np.asarray(piece.rows["version"])
        page = Page.join(changed_keys.pages)
        current_versions = _KeyVersions.from_names(page.keys.names, page.keys.mod_revisions)
        if not (current_versions.match_versions(piece.rows) & (versions >= min_revision)).any():
            return None
        is_unchanged = (versions < min_revision) & ~current_versions.contain_paths(piece.rows)
        unchanged_count = changed_keys.count - len(page.keys.names) - len(page.gaps)
        if not self._part.earlier_ledgers.whole or int(is_unchanged.sum()) != unchanged_count:
            listed_keys = self._list_versions(piece, min_revision)
            is_unchanged &= listed_keys.match_versions(piece.rows)
            if int(is_unchanged.sum()) != len(listed_keys.paths) or len(listed_keys.paths) != unchanged_count:
                return None
        return self._merge(piece.rows, np.flatnonzero(is_unchanged), page)

    def _list_versions(self, piece: EarlierPiece, min_revision: int) -> _KeyVersions:
        """Return the keys in the range of ``piece`` that did not change at ``min_revision`` or later."""
        names: list[bytes] = []
        versions: list[int] = []
        for keys in self._pages.names(piece.start, piece.end, self._part.moment.revision):
            old_rows = [row for row, version in enumerate(keys.mod_revisions) if version < min_revision]
            names += [keys.names[row] for row in old_rows]
            versions += [keys.mod_revisions[row] for row in old_rows]
        return _KeyVersions.from_names(names, versions)

    def _merge(self, rows: pa.RecordBatch, unchanged_rows: NDArray[np.int64], page: Page) -> pa.RecordBatch:
        """Return the rows of the keys in ``page`` and ``rows`` at ``unchanged_rows``, in order of paths."""
        columns = {name: rows[name] for name in self._columns.names}
        columns |= {"mtime": self._part.moment.time, "reused": True}
        changed_rows = self._decode_page(page)
        all_rows = pa.concat_batches([make_batch(self._columns, rows.num_rows, columns), changed_rows])
        insert_positions = [
            bisect_left(rows["path"], path, key=pa.StringScalar.as_py)
            for path in changed_rows["path"].to_pylist()
        ]
        earlier_counts = np.searchsorted(unchanged_rows, np.array(insert_positions, np.int64))
        return all_rows.take(
            pa.array(
                np.insert(unchanged_rows, earlier_counts, rows.num_rows + np.arange(changed_rows.num_rows))
            )
        )

    def _decode_page(self, page: Page) -> pa.RecordBatch:
        batch = make_page_batch(page, self._part.moment.time)
        return ledger_rows(batch, self._root, LayoutKind.ETCD, self._columns)


@dataclass(frozen=True, slots=True)
class _KeyVersions:
    """The paths of some keys, and the version of each key."""

    paths: pa.StringArray
    versions: NDArray[np.int64]

    @classmethod
    def from_names(cls, names: list[bytes], versions: list[int]) -> _KeyVersions:
        return cls(pa.array(map(key_text, names), pa.string()), np.array(versions, np.int64))

    def contain_paths(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return a mask of ``rows``: True for each row whose path is in ``paths``."""
        return np.asarray(pc.is_in(rows["path"], self.paths))

    def match_versions(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return a mask of ``rows``: True for each row whose path is in ``paths`` with the same version."""
        positions = pc.index_in(rows["path"], self.paths)
        current_versions = np.append(self.versions, -1)[np.asarray(positions.fill_null(len(self.versions)))]
        has_same_version: NDArray[np.bool_] = current_versions == np.asarray(rows["version"])
        return has_same_version


@dataclass(frozen=True)
class EtcdPart(Part):
    """The work of one task: adjacent key ranges (spans) at one pinned revision of one cluster.

    ``key_edges`` are the start of each span, and the end of the last span. Keys outside ``tree`` are skipped.
    """

    key_edges: tuple[bytes, ...]
    moment: Moment
    cluster_id: int
    tree: Tree


class PinnedEtcd(ABC):
    """Base class of the stores that read a running etcd. ``clock`` returns the time in ms since 1970."""

    live = True
    keeps_marks: bool
    keeps_times = False
    note: str
    """Note about the layout in reports."""

    def __init__(self, uri: MetadataUri, options: StoreOptions, clock: Callable[[], int] = now_ms) -> None:
        self.uri = uri
        self.root = uri.root
        self._clock = clock
        self._client = EtcdClient(uri.hosts, options)
        self._pages = EtcdPages(self._client, options)
        self._moment: Moment | None = None
        self._requested_moment: Moment | None = None
        if options.revision is not None:
            pinned_time = clock() if options.revision_time is None else options.revision_time
            self._requested_moment = Moment(options.revision, pinned_time)

    @abstractmethod
    def _nodes(self, pinned_moment: Moment) -> tuple[dict[str, Znode], list[tuple[str, str]]]:
        """Return the cluster's own keys by their names in ZooKeeper, and (path, reason) of unreadable keys.

        Raises:
            StoreError: there is no cluster below the root.
        """

    def cluster(self) -> ClusterNodes:
        """Pin a revision, and read the cluster's own keys at this revision; see `MetadataStore.cluster`.

        If the options name a revision, the method pins it. Otherwise, it pins the newest one, or a newer one
        if etcd compacts it during the read. The keys of ``nodes`` are ZooKeeper's names of znodes
        (`auditor.keys.etcd.node_name`). ``scan_time`` comes from this machine's clock.
        """
        restart_count = 0
        while True:
            self._moment = self._pin_moment()
            try:
                nodes, gaps = self._nodes(self._moment)
                break
            except CompactedError:
                restart_count += 1
                if self._requested_moment is not None or restart_count > MAX_RESTARTS:
                    raise
        notes = [self.note]
        if restart_count:
            notes.append(
                f"etcd compacted the revision {restart_count} times during the scan; a newer revision was "
                "read"
            )
        return ClusterNodes(
            nodes,
            self._moment.time,
            f"revision {self._moment.revision}",
            gaps=tuple(gaps),
            notes=tuple(notes),
            revision=self._moment.revision,
        )

    def part_of_path(self, path: str) -> Part:
        """Return a part with the key ``path`` at the pinned revision; see `OnePathStore.part_of_path`."""
        assert self._moment is not None
        key = etcd.key_bytes(path)
        return self._part((key, key + b"\0"), self._moment)

    def read(self, part: Part) -> Iterator[ZnodeBatch]:
        """Read one part at the revision of the part; see `MetadataStore.read`.

        Raises:
            CompactedError: etcd no longer keeps the revision. Start again from `cluster`.
        """
        assert isinstance(part, EtcdPart)
        self._client.expect_cluster(part.cluster_id)
        for start, end in zip(part.key_edges, part.key_edges[1:], strict=False):
            for page in self._pages.read(start, end, part.moment.revision):
                tree_page = page if part.tree is Tree.WHOLE else _select_tree(page, self.root, part.tree)
                if tree_page.keys.names or tree_page.gaps:
                    yield make_page_batch(tree_page, part.moment.time)

    def has_lost_moment(self) -> bool:
        """Return whether etcd no longer keeps the pinned revision; see `MetadataStore.has_lost_moment`."""
        if self._moment is None:
            return False
        try:
            self._client.ask(
                EtcdRangeRequest(*etcd.children(self.root, "cookies"), self._moment.revision, limit=1)
            )
        except CompactedError:
            return True
        return False

    def operations(self) -> dict[str, int]:
        """Return the numbers of connections, of requests of each kind, and of keys read."""
        return dict(self._client.operations)

    def close(self) -> None:
        """Close the connection. The revision stays pinned."""
        self._client.close()

    def _key_counter_and_reader(self, moment: Moment) -> tuple[KeyCounter, FirstKeyReader]:
        """Return two functions for a pinned revision: to count keys, and to read the first key of a range."""
        revision = moment.revision
        return partial(self._pages.count_keys, revision=revision), partial(
            self._pages.first_key, revision=revision
        )

    def _read_ranges(
        self, moment: Moment, names: Iterable[str], key_ranges: Iterable[tuple[bytes, bytes]]
    ) -> tuple[list[Keys], list[tuple[str, str]]]:
        """Read single keys by their names below the root, and all keys in some ranges.

        Return the keys, and (path, reason) of each key that could not be read.
        """
        single_keys = (etcd.key_bytes(f"{self.root}/{name}") for name in names)
        batches = [self._client.ask(EtcdRangeRequest(key, b"", moment.revision)).keys for key in single_keys]
        pages = [page for key_range in key_ranges for page in self._pages.read(*key_range, moment.revision)]
        return batches + [page.keys for page in pages], [gap for page in pages for gap in page.gaps]

    def _part(self, key_edges: tuple[bytes, ...], moment: Moment, tree: Tree = Tree.WHOLE) -> EtcdPart:
        return EtcdPart(key_edges, moment, self._cluster_id(), tree)

    def _cluster_id(self) -> int:
        if self._client.cluster_id is None:  # the options pinned the moment, and no request was sent yet
            self._client.ask(EtcdRangeRequest(etcd.key_bytes(f"{self.root}/layout"), b"", 0, keys_only=True))
        cluster_id = self._client.cluster_id
        assert cluster_id is not None
        return cluster_id

    def _pin_moment(self) -> Moment:
        if self._requested_moment is not None:
            return self._requested_moment
        clock_time = self._clock()  # before the request: a later time would make ages too small
        key = etcd.key_bytes(f"{self.root}/layout")
        return Moment(self._client.ask(EtcdRangeRequest(key, b"", 0, keys_only=True)).revision, clock_time)


def znodes_of(key_batches: Iterable[Keys]) -> list[Znode]:
    """Return the keys in all batches as znodes."""
    return [
        key_znode(etcd.key_text(name), *key_numbers)
        for keys in key_batches
        for name, *key_numbers in zip(*keys, strict=True)
    ]


def _select_tree(page: Page, root: str, tree: Tree) -> Page:
    """Return a page without the keys and the unreadable paths (gaps) that do not belong to ``tree``."""
    names, name_offset = page.keys.names, len(root) + 1
    name_start = len(etcd.key_bytes(root)) + 1
    gaps = [gap for gap in page.gaps if tree_of(gap[0][name_offset:]) is tree]
    if (
        tree is Tree.LEDGERS
        and names
        and all(name[name_start : name_start + 1].isdigit() for name in (names[0], names[-1]))
    ):
        return Page(page.keys, gaps)  # keys are in order, so all others begin with digits too
    rows = [row for row, name in enumerate(names) if tree_of(etcd.key_text(name)[name_offset:]) is tree]
    return Page(page.keys.take(rows), gaps)
