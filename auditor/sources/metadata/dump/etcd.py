"""etcd's keys saved as JSON lines, one key per line.

    {"path": "/bk/layout", "key": "<base64>", "data": "<base64>", "createRevision": 2, "modRevision": 2,
     "version": 1, "lease": 0}

``key`` is the key's bytes, ``path`` the same as text. The version of a ledger is its ``modRevision``, as for
BookKeeper; ``version`` is not used. etcd keeps no times: that of the first line is the scan's, or else the
file's own.
"""

from __future__ import annotations

from typing import Any

from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.dump.lines import LineStore
from auditor.sources.metadata.dump.records import (
    DamagedLineError,
    base64_of,
    base64_text,
    int64s_of,
    json_record,
)
from auditor.sources.metadata.etcd.nodes import NOTE, by_node_name, is_ledger, key_znode
from auditor.sources.metadata.store import ClusterNodes, Part, Tree, Znode

_NUMBERS = ("createRevision", "modRevision", "lease", "version")


def parse_line(line: bytes) -> Znode:
    """Read one line of a dump of etcd.

    >>> parse_line(b'{"path": "/a", "key": "L2E=", "data": "YQ==", "createRevision": 1, "modRevision": 2,'
    ...            b' "version": 2, "lease": 0}').version
    2
    """
    record = json_record(line)
    if "czxid" in record:
        raise StoreError(
            f"this dump mixes two stores: it begins with etcd's modRevision, and {record['path']} has "
            "ZooKeeper's czxid; save each by itself"
        )
    path = etcd.key_text(base64_of(record, "key"))
    if path != record["path"]:
        # Either could be the right one.
        raise DamagedLineError(None, "path and key disagree")
    return key_znode(path, base64_of(record, "data"), *int64s_of(record, _NUMBERS))


def key_record(key: bytes, data: bytes, *numbers: int) -> dict[str, Any]:
    """The record of a key, with createRevision, modRevision, lease and version; `parse_line` reads it.

    >>> from auditor.sources.metadata.dump.records import line_of
    >>> parse_line(line_of(key_record(b"/a", b"a", 1, 2, 0, 2))).data
    b'a'
    """
    record = {"path": etcd.key_text(key), "key": base64_text(key), "data": base64_text(data)}
    return record | dict(zip(_NUMBERS, numbers, strict=True))


class EtcdDumpStore(LineStore):
    """etcd's metadata in a file of JSON lines; see the module for the format."""

    keeps_marks = False
    keeps_times = False
    always_there = ("layout", "bookies", "cookies", "underreplication")
    bookies_below = ("bookies", "cookies")

    def parse(self, line: bytes) -> Znode:
        """Read one line; see `parse_line`."""
        return parse_line(line)

    def tree_of(self, path: str) -> Tree | None:
        """Ledgers, or the cluster's own."""
        return Tree.LEDGERS if is_ledger(self.root, path) else None

    def parts(self, tree: Tree, layout: LayoutKind, wanted: int) -> list[Part]:
        """Equal byte ranges; there are no marks."""
        return [] if tree is Tree.MARKS else super().parts(tree, layout, wanted)

    def cluster(self) -> ClusterNodes:
        """One pass over the whole file; see `MetadataStore.cluster`."""
        whole = self._whole()
        newest, gaps = whole.newest, tuple(whole.gaps)
        if newest is None:
            raise self._nothing_read(
                f"there is no BookKeeper cluster below {self.root} in {self._file}; name its scope with "
                "?root=/path, taken as it is written",
                gaps,
            )
        revision = f"revision {max(newest.czxid, newest.mzxid)}"
        nodes, complete, cut = by_node_name(self.root, whole.nodes), whole.frame.complete, self._cut(whole)
        modified = self._modified() if whole.frame.time is None else whole.frame.time
        return ClusterNodes(nodes, modified, revision, gaps, (NOTE,), proves_absence=complete, cut=cut)
