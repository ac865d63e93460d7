"""Metadata saved as JSON lines: of ZooKeeper one znode per line, parents first.

    {"path": "/ledgers/LAYOUT", "data": "<base64>", "czxid": 5, "mzxid": 5, "ctime": 1795237656507,
     "mtime": 1795237656507, "version": 0, "ephemeralOwner": 0}

Times are in ms. ``cversion`` may be there, as a client sees it: how many children were made and deleted.
``ephemeralOwner`` may be left out.
Other keys (``pzxid``) are ignored. etcd's lines are those of `auditor.sources.metadata.dump.etcd`;
`open_dump` tells the two apart.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from auditor.errors import StoreError
from auditor.sources.metadata.dump.etcd import EtcdDumpStore, PathEtcdDumpStore, has_paths
from auditor.sources.metadata.dump.lines import LineStore
from auditor.sources.metadata.dump.records import (
    base64_of,
    base64_text,
    first_record,
    int64s_of,
    json_record,
    records_of,
)
from auditor.sources.metadata.store import (
    OWNER_UNKNOWN,
    UNCOUNTED,
    ClusterNodes,
    MetadataStore,
    Tree,
    Znode,
    tree_of,
)
from auditor.sources.metadata.uri import MetadataUri

RECORDS_LOOKED_AT = 10_000
"""So many records of a dump of etcd are looked at for which layout it has."""

_NUMBERS = ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeralOwner")
_USUAL = {"ephemeralOwner": OWNER_UNKNOWN}


def open_dump(uri: MetadataUri) -> MetadataStore:
    """The store for a dump, by the first record that can be read: ZooKeeper's has czxid, etcd's modRevision.

    Of etcd the first `RECORDS_LOOKED_AT` records say whether keys are ZooKeeper's paths: those sort first. A
    file that is none is taken for ZooKeeper's: whoever reads it says what it seems to be.
    """
    try:
        record = first_record(Path(uri.path))
        if not record or "modRevision" not in record:
            return ZooKeeperDumpStore(uri)
        first = islice(records_of(Path(uri.path)), RECORDS_LOOKED_AT)
        return (PathEtcdDumpStore if has_paths(first, uri.root) else EtcdDumpStore)(uri)
    except OSError:
        return ZooKeeperDumpStore(uri)


def parse_line(line: bytes) -> Znode:
    """Read one line of a dump of ZooKeeper.

    >>> parse_line(b'{"path": "/a", "data": "YQ==", "czxid": 1, "mzxid": 2, "ctime": 3, "mtime": 4,'
    ...            b' "version": 5, "ephemeralOwner": 0}').data
    b'a'
    """
    record = json_record(line)
    if "modRevision" in record:
        raise StoreError(
            f"this dump mixes two stores: it begins with ZooKeeper's czxid, and {record['path']} has etcd's "
            "modRevision; save each by itself"
        )
    changed = record.get("cversion")
    made = changed if type(changed) is int and changed >= 0 else UNCOUNTED
    return Znode(record["path"], base64_of(record, "data"), *int64s_of(_USUAL | record, _NUMBERS))._replace(
        made=made
    )


def znode_record(znode: Znode) -> dict[str, Any]:
    """The record of a znode whose children are counted; `parse_line` reads it.

    >>> from auditor.sources.metadata.dump.records import line_of
    >>> znode = Znode("/a", b"a", 1, 2, 3, 4, 5, 0, made=7, children=3)
    >>> znode_record(znode)["cversion"], parse_line(line_of(znode_record(znode))).data
    (11, b'a')
    """
    numbers = (znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version, znode.ephemeral_owner)
    # Every child that was made counts one, and every one that was deleted another.
    changed = 2 * znode.made - znode.children
    data = {"path": znode.path, "data": base64_text(znode.data)}
    return data | dict(zip(_NUMBERS, numbers, strict=True)) | {"cversion": changed}


class ZooKeeperDumpStore(LineStore):
    """ZooKeeper's metadata in a file of JSON lines; see the module for the format."""

    keeps_marks = True
    keeps_times = True
    always_there = ("LAYOUT", "available", "cookies")
    bookies_below = ("available", "cookies")

    def parse(self, line: bytes) -> Znode:
        """Read one line; see `parse_line`."""
        return parse_line(line)

    def tree_of(self, path: str) -> Tree | None:
        """See `auditor.sources.metadata.store.tree_of`."""
        return tree_of(path[len(self.root) + 1 :])

    def cluster(self) -> ClusterNodes:
        """One pass over the whole file; see `MetadataStore.cluster`."""
        whole = self._whole()
        newest, gaps = whole.newest, tuple(whole.gaps)
        if newest is None:
            raise self._nothing_read(
                f"{self._file} has no znode {self.root}; name the right root with ?root=/path", gaps
            )
        nodes = _with_generator_counts({znode.path[len(self.root) + 1 :]: znode for znode in whole.nodes})
        scan_time = max(newest.ctime, newest.mtime, whole.frame.time or 0)
        zxid = max(newest.czxid, newest.mzxid)
        complete, cut = whole.frame.complete, self._cut(whole)
        return ClusterNodes(nodes, scan_time, hex(zxid), gaps, proves_absence=complete, cut=cut)


def _with_generator_counts(nodes: dict[str, Znode]) -> dict[str, Znode]:
    """The cluster's own znodes, with what was made below each id generator: from cversion, and what is there.

    Of what has ledgers or marks below it, which are not among these, it could not be told.
    """
    there = Counter(path.rpartition("/")[0] for path in nodes)
    counted = {}
    for path, znode in nodes.items():
        made = UNCOUNTED
        if znode.made != UNCOUNTED and path.partition("/")[0] in ("idgen", "idgen-long"):
            made = (znode.made + there[path] + 1) // 2
        counted[path] = znode._replace(made=made)
    return counted
