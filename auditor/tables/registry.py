"""The bookies of a cluster: cookies, registrations and directories joined, with one row per bookie.

The number of bookies limits the number of these rows. So the driver builds the rows, and then makes tables
of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.codecs.store import service_info
from auditor.errors import DecodeError, RuleError
from auditor.model.bookie_id import Address, Registration, UnresolvedBookie, resolve_address
from auditor.model.columns import make_schema
from auditor.model.cookie import Cookie
from auditor.sources.metadata.store import NO_TIME, OWNER_UNKNOWN, ClusterNodes, Znode

COOKIES = make_schema(
    ("bookie_id", pa.string(), "bookie id, which is the name of the znode"),
    ("layout", pa.int32(), "layout version, 3 to 5"),
    ("bookie_host", pa.string(), "bookie id in the cookie"),
    ("journal_dirs", pa.string(), "journal directories, joined by commas"),
    ("ledger_dirs", pa.list_(pa.string()), "ledger directories, in order"),
    ("index_dirs", pa.list_(pa.string()), "index directories; null: same as the ledger directories"),
    ("instance_id", pa.string(), "instance id of the cluster in the cookie"),
    ("damage", pa.string(), "reason why the cookie could not be read; null: it was read"),
    ("version", pa.int64(), "version of the cookie's znode; on etcd: the modification revision of its key"),
)
REGISTRATIONS = make_schema(
    ("bookie_id", pa.string(), "bookie id, which is the name of the znode"),
    ("mode", pa.string(), "writable or readonly"),
    (
        "endpoints",
        pa.list_(
            pa.struct(
                [("id", pa.string()), ("host", pa.string()), ("port", pa.int32()), ("protocol", pa.string())]
            )
        ),
        "endpoints in the service info; empty if the bookie registered without service info",
    ),
    ("ctime", pa.int64(), "time of the registration (ms since 1970, UTC); null: the store keeps no times"),
    ("damage", pa.string(), "reason why the service info could not be read"),
    ("empty", pa.bool_(), "whether the registration has no data"),
    (
        "ephemeral",
        pa.bool_(),
        "whether the registration ends with the bookie's session or lease. false: it does not prove "
        "that the bookie is running. null: not known (a dump)",
    ),
    (
        "used",
        pa.bool_(),
        "whether clients use this registration; false: it is read-only, and the bookie is also "
        "registered as writable",
    ),
    ("host", pa.string(), "host that clients connect to; null: clients have no address for the bookie"),
    ("port", pa.int32(), "port that clients connect to; null: clients have no address for the bookie"),
    ("unresolved", pa.string(), "reason why clients have no address for the bookie"),
)


@dataclass(frozen=True, slots=True)
class StoreCookie:
    """A cookie in the metadata store. ``cookie`` is None if it could not be read.

    ``version`` is the version of the cookie's znode, or the revision of its etcd key. It is None for a cookie
    on disk.
    """

    bookie_id: str
    cookie: Cookie | None
    damage: str | None
    version: int | None = None

    def make_row(self) -> dict[str, Any]:
        """Return the row of this cookie in the table ``cookies``."""
        cookie = self.cookie
        return {
            "bookie_id": self.bookie_id,
            "layout": cookie.layout if cookie else None,
            "bookie_host": cookie.bookie_id if cookie else None,
            "journal_dirs": cookie.journal_dirs if cookie else None,
            "ledger_dirs": list(cookie.ledger_dirs) if cookie else None,
            "index_dirs": list(cookie.index_dirs) if cookie and cookie.index_dirs else None,
            "instance_id": cookie.instance_id if cookie else None,
            "damage": self.damage,
            "version": self.version,
        }


def store_cookies(cluster: ClusterNodes) -> list[StoreCookie]:
    """Return all cookies in the store, ordered by bookie. ``damage`` says why a cookie could not be read."""
    return [
        StoreCookie(bookie_name, *cookie_codec.read(znode.data), znode.version)
        for bookie_name, znode in _find_child_znodes(cluster, "cookies/")
    ]


def registrations(cluster: ClusterNodes, *, reads_registrations: bool = True) -> list[dict[str, Any]]:
    """Return the rows of the table ``registrations``: registered bookies and their addresses.

    ``reads_registrations`` is whether clients of this store use the addresses in registrations
    (`auditor.model.bookie_id`).
    """
    writable_rows = [
        (bookie_name, "writable", znode)
        for bookie_name, znode in _find_child_znodes(cluster, "available/")
        if bookie_name != "readonly"
    ]
    readonly_rows = [
        (bookie_name, "readonly", znode)
        for bookie_name, znode in _find_child_znodes(cluster, "available/readonly/")
    ]
    # If a bookie has both registrations, clients use the writable one.
    writable_names = {bookie_name for bookie_name, _, _ in writable_rows}
    return [
        _make_registration(bookie_name, mode, znode, reads_registrations)
        | {"used": mode == "writable" or bookie_name not in writable_names}
        for bookie_name, mode, znode in sorted(writable_rows + readonly_rows)
    ]


def _make_registration(
    bookie_name: str, mode: str, znode: Znode, reads_registrations: bool
) -> dict[str, Any]:
    endpoints: tuple[service_info.Endpoint, ...] = ()
    damage = None
    try:
        endpoints = service_info.decode(znode.data, bookie_name).endpoints
    except (DecodeError, RuleError) as error:
        damage = str(error)
    is_empty = not znode.data
    registration = Registration(None) if is_empty else Registration(endpoints, damage)
    resolved_address = resolve_address(bookie_name, registration, reads_registrations=reads_registrations)
    address = resolved_address if isinstance(resolved_address, Address) else None
    return {
        "bookie_id": bookie_name,
        "mode": mode,
        "endpoints": [
            {"id": endpoint.id, "host": endpoint.host, "port": endpoint.port, "protocol": endpoint.protocol}
            for endpoint in endpoints
        ],
        # etcd keeps no times, so the time is null, not 0 (1970).
        "ctime": None if znode.ctime == NO_TIME else znode.ctime,
        "damage": damage,
        "empty": is_empty,
        "ephemeral": None if znode.ephemeral_owner == OWNER_UNKNOWN else znode.ephemeral_owner != 0,
        "host": address.host if address else None,
        "port": address.port if address else None,
        "unresolved": resolved_address.reason if isinstance(resolved_address, UnresolvedBookie) else None,
    }


def _find_child_znodes(cluster: ClusterNodes, parent: str) -> list[tuple[str, Znode]]:
    # Only direct children, because available/ has the child readonly/ with other bookies.
    child_znodes = [
        (path[len(parent) :], znode) for path, znode in cluster.nodes.items() if path.startswith(parent)
    ]
    return sorted((bookie_name, znode) for bookie_name, znode in child_znodes if "/" not in bookie_name)


def instance_id(cluster: ClusterNodes) -> str | None:
    """Return the cluster's INSTANCEID, or None if it has none (allowed in old clusters)."""
    znode = cluster.nodes.get("INSTANCEID")
    # An empty INSTANCEID counts as a missing one.
    return znode.data.decode("utf-8", "replace").strip() or None if znode else None


def instance_id_missing(cluster: ClusterNodes) -> bool:
    """Return whether the cluster certainly has no INSTANCEID. If znodes could not be read, return False."""
    return instance_id(cluster) is None and not cluster.gaps


def find_registered_modes(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the mode of each registered bookie: writable, readonly or both.

    Registrations that are not ephemeral are left out.
    """
    mode_by_bookie: dict[str, str] = {}
    for row in rows:
        if row["ephemeral"] is False:
            continue
        bookie_name, mode = row["bookie_id"], row["mode"]
        mode_by_bookie[bookie_name] = mode if mode_by_bookie.get(bookie_name, mode) == mode else "both"
    return mode_by_bookie


BOOKIES = make_schema(
    (
        "bookie_id",
        pa.string(),
        "a bookie id that an ensemble, cookie, registration, under-replication mark or directory contains",
    ),
    ("named", pa.bool_(), "whether an ensemble contains the bookie"),
    ("ledgers", pa.int64(), "number of ledgers that have the bookie in an ensemble"),
    (
        "depending",
        pa.int64(),
        "number of ledgers that need the bookie for their entries or for their open last segment",
    ),
    (
        "replicas",
        pa.int64(),
        "number of ledgers for which the audit compares the bookie's expected entries with its entries",
    ),
    (
        "registered",
        pa.string(),
        "how the bookie is registered: writable, readonly or both; null: not registered",
    ),
    (
        "registered_twice",
        pa.bool_(),
        "whether the bookie is registered as writable and as read-only in every scan of the metadata",
    ),
    ("has_cookie", pa.bool_(), "whether the store has a cookie of the bookie"),
    ("marked", pa.bool_(), "whether an under-replication mark mentions the bookie"),
    ("found", pa.bool_(), "whether at least one directory of the bookie was found"),
    (
        "read",
        pa.string(),
        "read: the whole index was read. partial: a part was read, and the entries of other parts "
        "are unknown. unread: nothing was read",
    ),
    ("reason", pa.string(), "reason why the bookie's index was not read completely"),
    (
        "absent_directories",
        pa.list_(pa.string()),
        "configured index directories that are empty or were not found; listed only if nothing else "
        "prevents reading the bookie",
    ),
    (
        "index_time",
        pa.int64(),
        "time (ms since 1970, UTC) up to which the index certainly has all entries of the bookie; "
        "null: not known",
    ),
    (
        "index_time_basis",
        pa.string(),
        "source of index_time: option, journal-read, last-write, clean-stop, older-journal, "
        "first-start or index-log",
    ),
    (
        "page_size",
        pa.int32(),
        "page size of the bookie's index files in bytes, computed from their lengths; null: not known",
    ),
    (
        "storage",
        pa.string(),
        "format of the bookie's index: idx (Interleaved or SortedLedgerStorage) or rocksdb "
        "(DbLedgerStorage); null: not known",
    ),
    (
        "suspect",
        pa.bool_(),
        "whether a directory of the bookie is at another bookie's path or has another bookie's id",
    ),
    (
        "foreign_instance",
        pa.bool_(),
        "whether all directories of the bookie have the instance id of another cluster",
    ),
    (
        "tail",
        pa.string(),
        "state of the bookie's journal after lastMark. read: read completely. stopped: the bookie shut down "
        "cleanly, so all entries are in its index. unread: not read completely. null: no index of the "
        "bookie was read",
    ),
    ("tail_reason", pa.string(), "reason why the bookie's journal was not read completely"),
)
DIRECTORIES = make_schema(
    ("place", pa.string(), "the bookie that should use the directory, according to the directory's path"),
    ("path", pa.string(), "path at which the directory was found"),
    ("role", pa.string(), "role of the directory: journal, ledger, index or unknown"),
    ("owner", pa.string(), "the bookie to which the audit attributes the directory's data"),
    ("cookie_bookie_id", pa.string(), "bookie id in the directory's VERSION"),
    ("instance_id", pa.string(), "instance id in the directory's VERSION"),
    (
        "index_time",
        pa.int64(),
        "earliest possible time of the newest lastMark in the directory (ms since 1970, UTC); null: "
        "not known",
    ),
    ("damage", pa.string(), "reason why the directory's VERSION could not be read"),
    ("layout", pa.int32(), "layout version in the directory's VERSION"),
    ("journal_dirs", pa.string(), "journal directories in the directory's VERSION, joined by commas"),
    ("ledger_dirs", pa.list_(pa.string()), "ledger directories in the directory's VERSION, in order"),
    (
        "index_dirs",
        pa.list_(pa.string()),
        "index directories in the directory's VERSION; null: same as the ledger directories",
    ),
    ("version_absent", pa.bool_(), "whether it is certain that the directory has no VERSION file"),
    (
        "empty",
        pa.bool_(),
        "for a directory without a VERSION file: whether its subdirectory current is empty; null: not known",
    ),
    (
        "configured",
        pa.string(),
        "configured path of this directory, according to its VERSION file; null: not clear",
    ),
)
