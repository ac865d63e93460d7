"""The bookies of a cluster: cookies, registrations and directories joined, one row per bookie.

The number of bookies bounds all these rows. So the driver builds them, and then makes tables of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.codecs.store import service_info
from auditor.errors import DecodeError, RuleError
from auditor.model.bookie_id import Address, Registration, UnresolvedBookie, resolve
from auditor.model.columns import schema_of
from auditor.model.cookie import Cookie
from auditor.sources.metadata.store import NO_TIME, OWNER_UNKNOWN, ClusterNodes, Znode

COOKIES = schema_of(
    ("bookie_id", pa.string(), "the name of its znode"),
    ("layout", pa.int32(), "layout version, 3 to 5"),
    ("bookie_host", pa.string(), "bookie id in the cookie"),
    ("journal_dirs", pa.string(), "journal directories, joined by commas"),
    ("ledger_dirs", pa.list_(pa.string()), "ledger directories, in order"),
    ("index_dirs", pa.list_(pa.string()), "index directories; null: the ledger ones"),
    ("instance_id", pa.string(), "instance id of the cluster in the cookie"),
    ("damage", pa.string(), "why it could not be read"),
    ("version", pa.int64(), "version of its znode; etcd: its modification revision"),
)
REGISTRATIONS = schema_of(
    ("bookie_id", pa.string(), "the name of its znode"),
    ("mode", pa.string(), "writable or readonly"),
    (
        "endpoints",
        pa.list_(
            pa.struct(
                [("id", pa.string()), ("host", pa.string()), ("port", pa.int32()), ("protocol", pa.string())]
            )
        ),
        "endpoints in its service info; empty for an old bookie",
    ),
    ("ctime", pa.int64(), "when it registered, ms; null if the store keeps no times"),
    ("damage", pa.string(), "why the service info could not be read"),
    ("empty", pa.bool_(), "it registered without data"),
    (
        "ephemeral",
        pa.bool_(),
        "it ends with a session or lease; false: it proves no live bookie; null: unknown (a dump)",
    ),
    ("used", pa.bool_(), "clients use it; false for the read-only registration of a bookie with both"),
    ("host", pa.string(), "where clients look for the bookie; null: nowhere"),
    ("port", pa.int32(), "where clients look for the bookie; null: nowhere"),
    ("unresolved", pa.string(), "why clients look nowhere for the bookie"),
)


@dataclass(frozen=True, slots=True)
class StoreCookie:
    """A cookie in the metadata store. ``cookie`` is None if it could not be read.

    ``version`` is the version of its znode, or the revision of its etcd key. It is None for a cookie on disk.
    """

    bookie_id: str
    cookie: Cookie | None
    damage: str | None
    version: int | None = None

    def row(self) -> dict[str, Any]:
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
    """Return every cookie of the store, in order of bookies. An unreadable cookie has the reason."""
    return [
        StoreCookie(name, *cookie_codec.read(znode.data), znode.version)
        for name, znode in _children(cluster, "cookies/")
    ]


def registrations(cluster: ClusterNodes, *, reads_registrations: bool = True) -> list[dict[str, Any]]:
    """Return the rows of the table ``registrations``: registered bookies and their addresses.

    ``reads_registrations`` is whether clients of this store read registrations (`auditor.model.bookie_id`).
    """
    writable = [
        (name, "writable", znode) for name, znode in _children(cluster, "available/") if name != "readonly"
    ]
    readonly = [(name, "readonly", znode) for name, znode in _children(cluster, "available/readonly/")]
    # Of a bookie with both, clients go by the writable one.
    first = {name for name, _, _ in writable}
    return [
        _registration(name, mode, znode, reads_registrations)
        | {"used": mode == "writable" or name not in first}
        for name, mode, znode in sorted(writable + readonly)
    ]


def _registration(name: str, mode: str, znode: Znode, reads_registrations: bool) -> dict[str, Any]:
    endpoints: tuple[service_info.Endpoint, ...] = ()
    damage = None
    try:
        endpoints = service_info.decode(znode.data, name).endpoints
    except (DecodeError, RuleError) as error:
        damage = str(error)
    empty = not znode.data
    registration = Registration(None) if empty else Registration(endpoints, damage)
    resolution = resolve(name, registration, reads_registrations=reads_registrations)
    address = resolution if isinstance(resolution, Address) else None
    return {
        "bookie_id": name,
        "mode": mode,
        "endpoints": [
            {"id": end.id, "host": end.host, "port": end.port, "protocol": end.protocol} for end in endpoints
        ],
        # etcd keeps no times: null is not known, and 0 would be 1970.
        "ctime": None if znode.ctime == NO_TIME else znode.ctime,
        "damage": damage,
        "empty": empty,
        "ephemeral": None if znode.ephemeral_owner == OWNER_UNKNOWN else znode.ephemeral_owner != 0,
        "host": address.host if address else None,
        "port": address.port if address else None,
        "unresolved": resolution.reason if isinstance(resolution, UnresolvedBookie) else None,
    }


def _children(cluster: ClusterNodes, below: str) -> list[tuple[str, Znode]]:
    # Only direct children: below available/ lies readonly/, with bookies of its own.
    children = [
        (path[len(below) :], znode) for path, znode in cluster.nodes.items() if path.startswith(below)
    ]
    return sorted((name, znode) for name, znode in children if "/" not in name)


def instance_id(cluster: ClusterNodes) -> str | None:
    """Return the cluster's INSTANCEID; None if it has none (allowed in old clusters)."""
    znode = cluster.nodes.get("INSTANCEID")
    # An empty one says no more than none.
    return znode.data.decode("utf-8", "replace").strip() or None if znode else None


def instance_id_missing(cluster: ClusterNodes) -> bool:
    """Return whether the cluster certainly has no INSTANCEID. False if znodes could not be read."""
    return instance_id(cluster) is None and not cluster.gaps


def registered_modes(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the mode of registered bookies: writable, readonly or both.

    Registrations that are not ephemeral are left out.
    """
    modes: dict[str, str] = {}
    for row in rows:
        if row["ephemeral"] is False:
            continue
        name, mode = row["bookie_id"], row["mode"]
        modes[name] = mode if modes.get(name, mode) == mode else "both"
    return modes


BOOKIES = schema_of(
    ("bookie_id", pa.string(), "every id that an ensemble, cookie, registration, mark or directory names"),
    ("named", pa.bool_(), "an ensemble names it"),
    ("ledgers", pa.int64(), "ledgers whose ensembles name it"),
    ("depending", pa.int64(), "of these, ledgers with entries on it, or with an open end there"),
    ("replicas", pa.int64(), "of these, ledgers of which it should hold judged entries"),
    ("registered", pa.string(), "writable, readonly or both; null if not connected"),
    ("registered_twice", pa.bool_(), "it is writable and read-only at every scan of the metadata"),
    ("has_cookie", pa.bool_(), "the store has its cookie"),
    ("marked", pa.bool_(), "an under-replication mark names it"),
    ("found", pa.bool_(), "at least one of its directories was found"),
    (
        "read",
        pa.string(),
        "read: its whole index; partial: entries in it are present, all others unknown; unread",
    ),
    ("reason", pa.string(), "why it was not read completely"),
    (
        "absent_directories",
        pa.list_(pa.string()),
        "configured index directories that were not found or are empty, where nothing else keeps it from "
        "being read",
    ),
    (
        "index_time",
        pa.int64(),
        "time up to which its entries are known at least, ms; null: not known",
    ),
    (
        "index_time_basis",
        pa.string(),
        "source of that time: option, journal-read, last-write, clean-stop, older-journal, first-start or "
        "index-log",
    ),
    ("page_size", pa.int32(), "page size of its index files in bytes, from their lengths; null: not known"),
    (
        "storage",
        pa.string(),
        "how its index is kept: idx (Interleaved or Sorted) or rocksdb (DbLedgerStorage); null: not known",
    ),
    ("suspect", pa.bool_(), "one of its directories is in another bookie's place or has another bookie's id"),
    ("foreign_instance", pa.bool_(), "all its directories carry another cluster's instance id"),
    (
        "tail",
        pa.string(),
        "its journal after the mark: read (whole), stopped (it went down cleanly, all is in its index) or "
        "unread; null: no index of it was read",
    ),
    ("tail_reason", pa.string(), "why its journal was not read completely"),
)
DIRECTORIES = schema_of(
    ("place", pa.string(), "the bookie that the place of the directory belongs to"),
    ("path", pa.string(), "where it was found"),
    ("role", pa.string(), "journal, ledger, index or unknown"),
    ("owner", pa.string(), "the bookie to which the audit attributes its data"),
    ("cookie_bookie_id", pa.string(), "the bookie that its VERSION names"),
    ("instance_id", pa.string(), "the cluster that its VERSION names"),
    ("index_time", pa.int64(), "time of its greatest lastMark at least, ms; null: not known"),
    ("damage", pa.string(), "why its VERSION could not be read"),
    ("layout", pa.int32(), "layout version of its VERSION"),
    ("journal_dirs", pa.string(), "journal directories that its VERSION names, joined by commas"),
    ("ledger_dirs", pa.list_(pa.string()), "ledger directories that its VERSION names, in order"),
    ("index_dirs", pa.list_(pa.string()), "index directories that its VERSION names; null: the ledger ones"),
    ("version_absent", pa.bool_(), "it certainly has no VERSION"),
    ("empty", pa.bool_(), "without VERSION: its current is empty; null: not known"),
    ("configured", pa.string(), "the path in its own VERSION that it stands for; null: not clear"),
)
