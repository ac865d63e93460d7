"""BookKeeper's own layout in a running etcd: which keys are the cluster's, and how ledgers are cut."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.etcd.client import EtcdQuestion, Keys
from auditor.sources.metadata.etcd.nodes import NOTE, by_node_name
from auditor.sources.metadata.etcd.pinned_etcd import PinnedEtcd, znodes_of
from auditor.sources.metadata.etcd.spans import KeySpan, dealt, spans
from auditor.sources.metadata.store import (
    History,
    Part,
    Tree,
    Znode,
)
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


class EtcdStore(PinnedEtcd):
    """BookKeeper's own layout in a running etcd; see `PinnedEtcd` for how it is read."""

    keeps_marks = False
    note = NOTE

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
        return by_node_name(self.root, znodes_of(found)), gaps


def _edges(lot: list[KeySpan]) -> tuple[bytes, ...]:
    return (lot[0].start, *(span.end for span in lot))
