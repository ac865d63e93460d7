"""Stores that read dumps. Each line is a JSON object for one znode, one record of Oxia or one key of etcd.

    {"path": "/ledgers/LAYOUT", "data": "<base64>", "czxid": 5, "mzxid": 5, "ctime": 1795237656507,
     "mtime": 1795237656507, "version": 0, "ephemeralOwner": 0}
    {"path": "/bk/layout", "key": "<base64>", "data": "<base64>", "createRevision": 2, "modRevision": 2,
     "version": 1, "lease": 0}

`open_dump` finds out which store a dump comes from. Fields that this program does not know, such as
``pzxid``, are ignored.

ZooKeeper: a parent comes before its children. Times are in ms. ``ephemeralOwner`` and ``cversion`` are
optional. ``cversion`` has the value that a client sees: the number of children created plus the number of
children deleted.

Oxia: a record has the fields of a znode, with ``session`` instead of ``ephemeralOwner``, and optionally
``modifications``. ``version`` is Oxia's version id. ``session`` is null for a record without a session,
because 0 is a valid session id.

etcd: ``key`` contains the bytes of the key, and ``path`` contains the key as text. The version of a ledger
is its ``modRevision``, as in BookKeeper. ``version`` is etcd's number of writes of the key. etcd keeps no
times. So the scan time is the time in the dump's first line. If the dump has no such time, the scan time is
the file's modification time. ``lease`` is optional.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.sources.metadata.dump.lines import LineStore
from auditor.sources.metadata.dump.records import (
    DamagedLineError,
    base64_text,
    decode_base64,
    decode_record,
    read_dump_records,
    read_first_record,
    read_int64s,
)
from auditor.sources.metadata.etcd.key_ranges import (
    NO_MARKS_NOTE,
    NO_TIMES_NOTE,
    is_ledger,
    key_znode,
    nodes_by_name,
    nodes_of_root,
)
from auditor.sources.metadata.store import (
    OWNER_UNKNOWN,
    UNKNOWN_COUNT,
    ClusterNodes,
    MetadataStore,
    Tree,
    Znode,
    owner_of_session,
)
from auditor.sources.metadata.uri import MetadataUri

_PATH_LAYOUT_NAMES = ("LAYOUT", "INSTANCEID", "available", "idgen", "idgen-long")
_OWN_LAYOUT_NAMES = ("layout", "instanceid", "ledgers", "bookies", "buckets")
_KEY_NUMBER_FIELDS = ("createRevision", "modRevision", "lease", "version")
_DEFAULT_KEY_FIELDS = {"lease": OWNER_UNKNOWN}


def decode_key_line(line: bytes) -> Znode:
    """Decode one line of an etcd dump into a znode.

    >>> decode_key_line(b'{"path": "/a", "key": "L2E=", "data": "YQ==", "createRevision": 1,'
    ...                 b' "modRevision": 2, "version": 2, "lease": 0}').version
    2
    """
    record = decode_record(line)
    if "czxid" in record:
        raise StoreError(
            f"this dump mixes two stores: it begins with etcd's modRevision, and {record['path']} has "
            "ZooKeeper's czxid. Save each store to its own file"
        )
    path = etcd.key_text(decode_base64(record, "key"))
    if path != record["path"]:
        # Either of them could be right.
        raise DamagedLineError(None, "path and key disagree")
    return key_znode(
        path, decode_base64(record, "data"), *read_int64s(_DEFAULT_KEY_FIELDS | record, _KEY_NUMBER_FIELDS)
    )


def key_record(key: bytes, data: bytes, *key_numbers: int) -> dict[str, Any]:
    """Return the dump record of an etcd key. `decode_key_line` decodes the line of this record.

    ``key_numbers`` are createRevision, modRevision, lease and version, in this order.

    >>> from auditor.sources.metadata.dump.records import encode_line
    >>> decode_key_line(encode_line(key_record(b"/a", b"a", 1, 2, 0, 2))).data
    b'a'
    """
    record = {"path": etcd.key_text(key), "key": base64_text(key), "data": base64_text(data)}
    return record | dict(zip(_KEY_NUMBER_FIELDS, key_numbers, strict=True))


class EtcdDumpStore(LineStore):
    """A store that reads a dump of an etcd in the layout of BookKeeper's own driver."""

    keeps_marks = False
    keeps_times = False
    note = NO_MARKS_NOTE
    root_parameter = "scope"
    decode_line = staticmethod(decode_key_line)
    make_nodes = staticmethod(nodes_by_name)  # turns the cluster's own keys into ZooKeeper's names
    required_top_names: tuple[str, ...] = ("layout", "bookies", "cookies", "underreplication")
    bookie_parent_names: tuple[str, ...] = ("bookies", "cookies")

    def tree_of(self, path: str) -> Tree | None:
        """Return `Tree.LEDGERS` for the path of a ledger, and None for the cluster's own keys."""
        return Tree.LEDGERS if is_ledger(self.root, path) else None

    def cluster(self) -> ClusterNodes:
        """Read the whole file once, and return the cluster's own nodes.

        See `MetadataStore.cluster`.
        """
        whole_dump = self._load()
        newest_record, gaps = whole_dump.newest_record, tuple(whole_dump.gaps)
        if newest_record is None:
            raise self._empty_dump_error(
                f"there is no BookKeeper cluster below {self.root} in {self._path}",
                f"pass the cluster's {self.root_parameter} with ?{self.root_parameter}=/path, exactly as in "
                "BookKeeper's configuration",
                gaps,
            )
        revision = f"revision {max(newest_record.czxid, newest_record.mzxid)}"
        nodes, is_complete, truncation_reason = (
            self.make_nodes(self.root, whole_dump.nodes),
            whole_dump.begin_end_check.is_complete,
            self._find_cut_reason(whole_dump),
        )
        modification_time = (
            self._modification_time()
            if whole_dump.begin_end_check.dump_time_ms is None
            else whole_dump.begin_end_check.dump_time_ms
        )
        return ClusterNodes(
            nodes,
            modification_time,
            revision,
            gaps,
            (self.note,),
            proves_absence=is_complete,
            damage=truncation_reason,
        )


class PathEtcdDumpStore(EtcdDumpStore):
    """A store that reads a dump of an etcd with ZooKeeper's paths as keys, as Pulsar's driver writes them."""

    keeps_marks = True
    note = NO_TIMES_NOTE
    root_parameter = "root"
    tree_of = LineStore.tree_of
    make_nodes = staticmethod(nodes_of_root)
    required_top_names = ("LAYOUT", "cookies")  # available itself has no key
    bookie_parent_names = ("available", "cookies")


def has_paths(records: Iterable[dict[str, Any]], root: str) -> bool:
    """Return whether the keys of an etcd dump are ZooKeeper's paths, as Pulsar's driver writes them.

    The first key that is possible in only one of the two layouts decides. If there is no such key, return
    False.

    >>> has_paths([{"path": "/ledgers/cookies/b:3181"}, {"path": "/ledgers/LAYOUT"}], "/ledgers")
    True
    """
    for record in records:
        path = record["path"]
        if path.startswith(f"{root}/"):
            top_name = path[len(root) + 1 :].partition("/")[0]
            if top_name in _PATH_LAYOUT_NAMES or top_name.isdigit():
                return True
            if top_name in _OWN_LAYOUT_NAMES:
                return False
    return False


MAX_RECORDS_SEARCHED = 10_000
"""Number of records of an etcd dump that `open_dump` reads to find its layout."""

_ZNODE_NUMBER_FIELDS = ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeralOwner")
_DEFAULT_ZNODE_FIELDS = {"ephemeralOwner": OWNER_UNKNOWN}
_SESSION_FIELD, _MODIFICATIONS_FIELD = "session", "modifications"


def open_dump(uri: MetadataUri) -> MetadataStore:
    """Return the store for a dump. The first readable record shows whether the dump comes from etcd.

    For etcd, the first `MAX_RECORDS_SEARCHED` records show whether the keys are ZooKeeper's paths. This
    number is enough, because the distinctive keys come first. Any other file is opened as a dump of
    ZooKeeper. If the file is not a dump, reading it raises an error that names the apparent kind of the
    file.
    """
    try:
        record = read_first_record(Path(uri.path))
        if not record or "modRevision" not in record:
            return ZooKeeperDumpStore(uri)
        first_records = islice(read_dump_records(Path(uri.path)), MAX_RECORDS_SEARCHED)
        return (PathEtcdDumpStore if has_paths(first_records, uri.root) else EtcdDumpStore)(uri)
    except OSError:
        return ZooKeeperDumpStore(uri)


def decode_znode_line(line: bytes) -> Znode:
    """Decode one line of a ZooKeeper or Oxia dump into a znode.

    >>> decode_znode_line(b'{"path": "/a", "data": "YQ==", "czxid": 1, "mzxid": 2, "ctime": 3, "mtime": 4,'
    ...            b' "version": 5, "ephemeralOwner": 0}').data
    b'a'
    """
    record = decode_record(line)
    if "modRevision" in record:
        raise StoreError(
            f"this dump mixes two stores: it begins with ZooKeeper's czxid, and {record['path']} has etcd's "
            "modRevision; save each store to its own file"
        )
    child_version = record.get("cversion")
    created_children = child_version if type(child_version) is int and child_version >= 0 else UNKNOWN_COUNT
    key_numbers = read_int64s(
        _DEFAULT_ZNODE_FIELDS | record | _owner_of_session(record), _ZNODE_NUMBER_FIELDS
    )
    znode = Znode(record["path"], decode_base64(record, "data"), *key_numbers)
    if _MODIFICATIONS_FIELD in record:
        [modifications] = read_int64s(record, (_MODIFICATIONS_FIELD,))
        return znode._replace(made=modifications + 1, modifications=modifications)
    return znode._replace(made=created_children)


def _owner_of_session(record: dict[str, Any]) -> dict[str, int]:
    """Return a dict with the field ``ephemeralOwner``, computed from the session of an Oxia record.

    Return an empty dict for the record of another store.
    """
    if _SESSION_FIELD not in record:
        return {}
    if record[_SESSION_FIELD] is None:
        return {"ephemeralOwner": 0}
    [session] = read_int64s(record, (_SESSION_FIELD,))
    return {"ephemeralOwner": owner_of_session(session)}


def znode_record(znode: Znode) -> dict[str, Any]:
    """Return the dump record of a ZooKeeper znode. `decode_znode_line` decodes the line of this record.

    ``znode.made`` and ``znode.children`` must not be `UNKNOWN_COUNT`.

    >>> from auditor.sources.metadata.dump.records import encode_line
    >>> znode = Znode("/a", b"a", 1, 2, 3, 4, 5, 0, made=7, children=3)
    >>> znode_record(znode)["cversion"], decode_znode_line(encode_line(znode_record(znode))).data
    (11, b'a')
    """
    key_numbers = (znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version, znode.ephemeral_owner)
    # cversion counts every creation and every deletion of a child.
    child_version = 2 * znode.made - znode.children
    record_fields = {"path": znode.path, "data": base64_text(znode.data)}
    return (
        record_fields
        | dict(zip(_ZNODE_NUMBER_FIELDS, key_numbers, strict=True))
        | {"cversion": child_version}
    )


def oxia_record(znode: Znode) -> dict[str, Any]:
    """Return the dump record of a znode from Oxia. `decode_znode_line` decodes the line of this record.

    >>> from auditor.sources.metadata.dump.records import encode_line
    >>> znode = Znode("/a", b"a", 0, 2, 3, 4, 2, 1, made=8, modifications=7)
    >>> oxia_record(znode)["session"], decode_znode_line(encode_line(oxia_record(znode))) == znode
    (0, True)
    """
    session = znode.ephemeral_owner - 1 if znode.ephemeral_owner else None
    key_numbers = (znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version)
    record: dict[str, Any] = {"path": znode.path, "data": base64_text(znode.data)}
    record |= dict(zip(_ZNODE_NUMBER_FIELDS, key_numbers, strict=False))
    return record | {_MODIFICATIONS_FIELD: znode.modifications, _SESSION_FIELD: session}


class ZooKeeperDumpStore(LineStore):
    """A store that reads a dump of ZooKeeper or Oxia."""

    decode_line = staticmethod(decode_znode_line)
    keeps_times = True
    required_top_names = ("LAYOUT", "available", "cookies")
    bookie_parent_names = ("available", "cookies")

    def cluster(self) -> ClusterNodes:
        """Read the whole file once, and return the cluster's own nodes.

        See `MetadataStore.cluster`.
        """
        whole_dump = self._load()
        newest_record, gaps = whole_dump.newest_record, tuple(whole_dump.gaps)
        if newest_record is None:
            raise self._empty_dump_error(
                f"{self._path} has no znode {self.root}", "pass the right root with ?root=/path", gaps
            )
        nodes = _with_id_generator_counts(
            {znode.path[len(self.root) + 1 :]: znode for znode in whole_dump.nodes}
        )
        scan_time = max(
            newest_record.ctime, newest_record.mtime, whole_dump.begin_end_check.dump_time_ms or 0
        )
        newest_zxid = max(newest_record.czxid, newest_record.mzxid)
        is_complete, truncation_reason = (
            whole_dump.begin_end_check.is_complete,
            self._find_cut_reason(whole_dump),
        )
        return ClusterNodes(
            nodes, scan_time, hex(newest_zxid), gaps, proves_absence=is_complete, damage=truncation_reason
        )


def _with_id_generator_counts(nodes: dict[str, Znode]) -> dict[str, Znode]:
    """Return the cluster's own znodes, with ``made`` set for each id generator.

    ``made`` is the number of children ever created below the generator. The function computes this number
    from the generator's cversion and the number of its present children. For other znodes, ``made`` stays
    unknown, because ``nodes`` does not contain the ledgers and marks below them. In a dump of Oxia,
    ``made`` is exact already and does not change.
    """
    child_counts = Counter(path.rpartition("/")[0] for path in nodes)
    nodes_with_counts = {}
    for path, znode in nodes.items():
        created_children = UNKNOWN_COUNT
        if znode.modifications != UNKNOWN_COUNT:  # Oxia: `made` is exact already
            created_children = znode.made
        elif znode.made != UNKNOWN_COUNT and path.partition("/")[0] in ("idgen", "idgen-long"):
            created_children = (znode.made + child_counts[path] + 1) // 2
        nodes_with_counts[path] = znode._replace(made=created_children)
    return nodes_with_counts
