"""Metadata stores that read a running etcd, in BookKeeper's own layout or in Pulsar's layout.

In Pulsar's layout, the keys are ZooKeeper's paths:

    <root>/LAYOUT, INSTANCEID, cookies/ID, available/ID, available/readonly/ID, idgen ...
    <root>/00/0000/L0018, <root>/000/0000/0000/0000/L0018
    <root>/underreplication/ledgers/..., /locks/...

The values are the same as in ZooKeeper. A parent has a key only if a client wrote one. Ephemeral keys have
a lease. The version of a ledger is the mod revision of its key, as in BookKeeper's own layout. Source:
EtcdMetadataStore of Pulsar 4.2.

In BookKeeper's own layout, the program divides the ledger keys into sixteen spans. To count the ledgers, it
asks etcd for the number of keys in each span. A scan first cuts the keys into the same spans.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pyarrow as pa

from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.earlier_ledgers import EarlierLedgers
from auditor.sources.metadata.etcd.client import EtcdClient, EtcdRangeRequest
from auditor.sources.metadata.etcd.key_ranges import (
    NO_MARKS_NOTE,
    NO_TIMES_NOTE,
    KeySpan,
    group_spans,
    ledger_spans,
    make_ledger_key,
    nodes_by_name,
    nodes_of_root,
    path_ledger_spans,
)
from auditor.sources.metadata.etcd.pages import EtcdPages
from auditor.sources.metadata.etcd.pinned_etcd import (
    ChangedRowsPart,
    ChangedRowsReader,
    Moment,
    PinnedEtcd,
    znodes_of,
)
from auditor.sources.metadata.store import (
    CLUSTER_CHILDREN,
    MARK_ROOTS,
    History,
    LedgerCount,
    Part,
    Server,
    StoreOptions,
    Tree,
    Znode,
)
from auditor.sources.metadata.uri import MetadataUri

_SINGLE_KEY_NAMES = (
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
_PARENT_PATHS = ("cookies", "bookies/writable", "bookies/readonly", "buckets")


class EtcdStore(PinnedEtcd):
    """A metadata store that reads a running etcd in BookKeeper's own layout; see `PinnedEtcd`."""

    keeps_marks = False
    note = NO_MARKS_NOTE

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut a tree into parts for tasks, each with a range of keys at the pinned revision.

        See `MetadataStore.parts`. `cluster` pins the revision. If the caller has not called `cluster`, this
        method pins the newest revision. This layout has no under-replication marks. So for the tree of these
        marks, the result is empty.
        """
        if tree is Tree.MARKS:
            return []
        pinned_moment = self._moment = self._moment or self._pin_moment()
        if tree is Tree.WHOLE:
            etcd_scope, _, name = self.root.rpartition("/")
            return [self._part(etcd.children(etcd_scope, name), pinned_moment)]
        key_spans = ledger_spans(self.root, *self._key_counter_and_reader(pinned_moment), part_count)
        return [
            self._part(_span_edge_keys(part_spans), pinned_moment)
            for part_spans in group_spans(key_spans, part_count)
        ]

    def history(self) -> History:
        """Return the identity of the store's history, at the revision that `cluster` pinned last.

        Raises:
            StoreError: see `cluster`.
        """
        pinned_moment = self._moment = self._moment or self._pin_moment()
        # The log index before the revision gives the smallest difference, that after it the largest.
        log_index_before = self._client.log_index()
        key = etcd.key_bytes(f"{self.root}/layout")
        newest_revision = self._client.ask(EtcdRangeRequest(key, b"", 0, keys_only=True)).revision
        log_index_after = self._client.log_index()
        return History(
            self._cluster_id(),
            pinned_moment.revision,
            (log_index_before - newest_revision, log_index_after - newest_revision),
        )

    def parts_since(self, earlier_ledgers: EarlierLedgers, part_count: int) -> list[Part]:
        """Return parts whose key ranges match the files with the earlier run's ledgers.

        See `ComparableStore.parts_since`.
        """
        pinned_moment = self._moment = self._moment or self._pin_moment()
        ledger_key_range = etcd.children(self.root, etcd.LEDGERS_KEY)
        return [
            ChangedRowsPart(start, end, pinned_moment, self._cluster_id(), part_spans)
            for part_spans, start, end in earlier_ledgers.group_files(*ledger_key_range, part_count)
        ]

    def rows_since(self, part: Part, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of a part from `parts_since`, at the revision of the part.

        The module `auditor.sources.metadata.etcd.pinned_etcd` explains which rows are reused.
        """
        assert isinstance(part, ChangedRowsPart)
        self._client.expect_cluster(part.cluster_id)
        yield from ChangedRowsReader(self._pages, part, self.root, columns).rows()

    def _nodes(self, pinned_moment: Moment) -> tuple[dict[str, Znode], list[tuple[str, str]]]:
        key_ranges = [etcd.children(self.root, relative_path) for relative_path in _PARENT_PATHS]
        key_batches, gaps = self._read_ranges(pinned_moment, _SINGLE_KEY_NAMES, key_ranges)
        if (
            not any(keys.names for keys in key_batches)
            and self._pages.first_key(*etcd.children(self.root, "ledgers"), pinned_moment.revision) is None
        ):
            raise StoreError(
                f"there is no BookKeeper cluster below {self.root} in {self._client.name}. End the metadata "
                "URI with the cluster's scope, exactly as in BookKeeper's configuration"
            )
        return nodes_by_name(self.root, znodes_of(key_batches)), gaps


def _span_edge_keys(part_spans: list[KeySpan]) -> tuple[bytes, ...]:
    return (part_spans[0].start, *(span.end for span in part_spans))


class PathEtcdStore(PinnedEtcd):
    """A metadata store that reads a running etcd in Pulsar's layout, with ZooKeeper's paths as keys.

    See `PinnedEtcd`.
    """

    keeps_marks = True
    note = NO_TIMES_NOTE

    def parts(self, tree: Tree, layout: LayoutKind, part_count: int) -> list[Part]:
        """Cut a tree into parts with ranges of keys, at the revision that `cluster` pinned last.

        See `MetadataStore.parts`.
        """
        pinned_moment = self._moment = self._moment or self._pin_moment()
        if tree is Tree.WHOLE:
            return [self._part(_key_range_below(self.root), pinned_moment, tree)]
        if tree is Tree.MARKS:
            return [
                self._part(_key_range_below(f"{self.root}/{name}"), pinned_moment, tree)
                for name in MARK_ROOTS
            ]
        parts: list[Part] = []
        for start, end in _key_ranges_without_marks(self.root):
            path_spans = path_ledger_spans(
                start, end, *self._key_counter_and_reader(pinned_moment), part_count
            )
            parts += [
                self._part(_span_edge_keys(part_spans), pinned_moment, tree)
                for part_spans in group_spans(path_spans, part_count)
            ]
        return parts

    def has_sibling(self, name: str) -> bool:
        """Return whether any key exists below the path ``name``; see `SiblingStore`.

        This path is next to the root: both have the same parent.
        """
        pinned_moment = self._moment = self._moment or self._pin_moment()
        sibling_path = f"{self.root.rpartition('/')[0]}/{name}"
        return self._pages.first_key(*_key_range_below(sibling_path), pinned_moment.revision) is not None

    def _nodes(self, pinned_moment: Moment) -> tuple[dict[str, Znode], list[tuple[str, str]]]:
        key_ranges = [
            key_range for name in CLUSTER_CHILDREN for key_range in _key_ranges_without_marks(self.root, name)
        ]
        key_batches, gaps = self._read_ranges(pinned_moment, CLUSTER_CHILDREN, key_ranges)
        first_key = self._pages.first_key(*_key_range_below(self.root), pinned_moment.revision)
        if first_key is None:
            raise StoreError(
                f"there is no BookKeeper cluster below {self.root} in {self._client.name}; end the metadata "
                "URI with the cluster's root, such as /ledgers"
            )
        return nodes_of_root(self.root, znodes_of(key_batches)), gaps


def count_path_ledgers(uri: MetadataUri, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count the keys below the root whose name, relative to the root, begins with a digit.

    These are the ledgers, and also the parents of ledgers if such keys exist. So the count is not exact.

    Raises:
        StoreError: etcd cannot be reached.
    """
    start = etcd.key_bytes(f"{uri.root}/")
    with closing(EtcdClient(uri.hosts, options)) as client:
        (keys,) = EtcdPages(client, options).count_keys([(start + b"0", start + b":")], 0)
    return LedgerCount(keys, False)


def _key_range_below(path: str) -> tuple[bytes, bytes]:
    parent, _, name = path.rpartition("/")
    return etcd.children(parent, name)


def _key_ranges_without_marks(root: str, name: str | None = None) -> list[tuple[bytes, bytes]]:
    """Return the key ranges below the root that contain no under-replication marks and no locks.

    If ``name`` is given, return only the ranges below this child of the root.
    """
    start, end = _key_range_below(f"{root}/{name}" if name else root)
    key_ranges = []
    for excluded_root in sorted(MARK_ROOTS):
        excluded_start, excluded_end = _key_range_below(f"{root}/{excluded_root}")
        if start < excluded_start < end:
            key_ranges.append((start, excluded_start))
            start = excluded_end
    return [*key_ranges, (start, end)]


def count_ledgers(uri: MetadataUri, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count the ledgers in BookKeeper's own layout.

    The count includes all scopes. The scope is the upper half of a 128-bit ledger id.

    Raises:
        StoreError: etcd cannot be reached.
    """
    etcd_scope = uri.root
    start, end = etcd.children(etcd_scope, etcd.LEDGERS_KEY)
    bucket_edges = [
        start,
        *(make_ledger_key(etcd_scope, bucket << 56) for bucket in range(8, etcd.BUCKET_COUNT, 8)),
        end,
    ]
    with closing(EtcdClient(uri.hosts, options)) as client:
        return LedgerCount(sum(EtcdPages(client, options).count_keys(list(pairwise(bucket_edges)), 0)), True)


def probe(host: str, options: StoreOptions) -> Server:
    """Request the version of one etcd member with a Status request."""
    start_time = time.monotonic()
    with closing(EtcdClient([host], options, sleep=lambda _: None)) as client:
        try:
            version = client.version()
        except StoreError as error:
            return Server(host, False, failure_reason=str(error))
    return Server(host, True, (time.monotonic() - start_time) * 1000, version)
