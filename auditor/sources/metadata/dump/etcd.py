"""etcd's keys saved as JSON lines, one key per line.

    {"path": "/bk/layout", "key": "<base64>", "data": "<base64>", "createRevision": 2, "modRevision": 2,
     "version": 1, "lease": 0}

``key`` is the key's bytes, ``path`` the same as text. The version of a ledger is its ``modRevision``, as for
BookKeeper; ``version`` is not used. etcd keeps no times: that of the first line is the scan's, or else the
file's own. ``lease`` may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from auditor.sources.metadata.etcd.nodes import (
    NOTE,
    PATHS_NOTE,
    by_node_name,
    is_ledger,
    key_znode,
    own_nodes,
)
from auditor.sources.metadata.store import OWNER_UNKNOWN, ClusterNodes, Part, Tree, Znode, tree_of

_PATHS_ONLY = ("LAYOUT", "INSTANCEID", "available", "idgen", "idgen-long")
_OWN_ONLY = ("layout", "instanceid", "ledgers", "bookies", "buckets")
_NUMBERS = ("createRevision", "modRevision", "lease", "version")
_USUAL = {"lease": OWNER_UNKNOWN}


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
    return key_znode(path, base64_of(record, "data"), *int64s_of(_USUAL | record, _NUMBERS))


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
    note = NOTE
    always_there: tuple[str, ...] = ("layout", "bookies", "cookies", "underreplication")
    bookies_below: tuple[str, ...] = ("bookies", "cookies")

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
        nodes, complete, cut = self.names(whole.nodes), whole.frame.complete, self._cut(whole)
        modified = self._modified() if whole.frame.time is None else whole.frame.time
        return ClusterNodes(nodes, modified, revision, gaps, (self.note,), proves_absence=complete, cut=cut)

    def names(self, keys: list[Znode]) -> dict[str, Znode]:
        """The cluster's own keys under ZooKeeper's names."""
        return by_node_name(self.root, keys)


class PathEtcdDumpStore(EtcdDumpStore):
    """Keys that are ZooKeeper's paths, as Pulsar's own driver keeps them in etcd; lines as of any etcd."""

    keeps_marks = True
    note = PATHS_NOTE
    always_there = ("LAYOUT", "cookies")  # no key stands for available itself
    bookies_below = ("available", "cookies")

    def tree_of(self, path: str) -> Tree | None:
        """See `auditor.sources.metadata.store.tree_of`."""
        return tree_of(path[len(self.root) + 1 :])

    def parts(self, tree: Tree, layout: LayoutKind, wanted: int) -> list[Part]:
        """Equal byte ranges; see `MetadataStore.parts`."""
        return LineStore.parts(self, tree, layout, wanted)

    def names(self, keys: list[Znode]) -> dict[str, Znode]:
        """The cluster's own keys, whose names are ZooKeeper's."""
        return own_nodes(self.root, keys)


def has_paths(records: Iterable[dict[str, Any]], root: str) -> bool:
    """Whether keys of a dump are ZooKeeper's paths, by the first that only one of the two layouts has.

    >>> has_paths([{"path": "/ledgers/cookies/b:3181"}, {"path": "/ledgers/LAYOUT"}], "/ledgers")
    True
    """
    for record in records:
        path = record["path"]
        if path.startswith(f"{root}/"):
            top = path[len(root) + 1 :].partition("/")[0]
            if top in _PATHS_ONLY or top.isdigit():
                return True
            if top in _OWN_ONLY:
                return False
    return False
