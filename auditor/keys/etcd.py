"""Keys of BookKeeper's etcd driver, and their conversion from ledger ids and back.

    <scope>                               empty; it exists once the cluster is initialised
    <scope>/layout, <scope>/instanceid
    <scope>/cookies/<bookie id>
    <scope>/bookies/writable/<bookie id>  empty, attached to the bookie's lease
    <scope>/bookies/readonly/<bookie id>  empty, attached to the bookie's lease
    <scope>/ledgers/<uuid>                ledger metadata; the UUID consists of scope id and ledger id
    <scope>/buckets/<000 to 127>          empty; new ids of a bucket come from the key's etcd version
    <scope>/underreplication              empty; there are no keys below it

``<scope>`` is BookKeeper's name for the prefix of all keys of a cluster. It is not the scope of a ledger id
(BP-35). The driver uses this name exactly as written, including trailing slashes. Keys are encoded in UTF-8.
etcd has no tree: a directory is a separate key with an empty value. A listing is a range of keys. Paths in
this module are relative to the etcd scope, without a leading slash. Source: EtcdUtils, EtcdConstants,
EtcdIdGenerator.
"""

from __future__ import annotations

import re

from auditor.model.ledger_id import LedgerId

LEDGERS_KEY = "ledgers"
BUCKETS_KEY = "buckets"
BUCKET_COUNT = 128
"""Number of buckets. An id is ``bucket << 56 | n``, so bucket number 128 would give negative ids."""

_UUID_KEY_PATTERN = re.compile(
    r"ledgers/([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})"
)
_JAVA_HEX_NUMBER = re.compile(r"\+?([0-9a-fA-F]+)")
_UUID_GROUP_BITS = (32, 16, 16, 16, 48)
_JAVA_UUID_LENGTH = 36

_NODE_NAMES_BY_KEY = {
    "layout": "LAYOUT",
    "instanceid": "INSTANCEID",
    "cookies": "cookies",
    "bookies/writable": "available",
    "bookies/readonly": "available/readonly",
    "bookies": "bookies",
    "ledgers": "ledgers",
    "buckets": "buckets",
    "underreplication": "underreplication",
}
_NODE_PATHS_BY_PARENT_KEY = {
    "cookies/": "cookies/",
    "bookies/writable/": "available/",
    "bookies/readonly/": "available/readonly/",
    "buckets/": "buckets/",
}
_READONLY_BOOKIES_NODE = "available/readonly"


def to_path(ledger: LedgerId) -> str:
    """Return the key of a ledger's metadata, relative to the cluster's etcd scope.

    The scope of the ledger id (BP-35) is the first half of the UUID.

    >>> to_path(LedgerId(2, scope=1))
    'ledgers/00000000-0000-0001-0000-000000000002'
    """
    name = ledger.qualified_name
    return f"{LEDGERS_KEY}/{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def from_path(relative_key: str) -> LedgerId | None:
    """Return the ledger whose metadata is stored at ``relative_key``.

    Returns None for a key that `to_path` never returns.

    >>> from_path("ledgers/00000000-0000-0001-0000-000000000002"), from_path("ledgers/0-0-0-0-1")
    (LedgerId(id=2, scope=1), None)
    """
    uuid_match = _UUID_KEY_PATTERN.fullmatch(relative_key)
    return LedgerId.parse("".join(uuid_match.groups())) if uuid_match else None


def java_read_ledger(relative_key: str) -> LedgerId | None:
    """Return the ledger that the Java driver reads from a key, even if the key is irregular.

    Returns None if the driver fails on the key. The driver ignores everything before the last slash. Java's
    ``UUID.fromString`` (11 and later) accepts groups of unusual length, upper-case letters, and a plus
    sign. If a group is too long, Java drops its upper bits. Java also accepts digits of other scripts. This
    function does not accept them.

    >>> java_read_ledger("ledgers/0-0-0-0-1"), java_read_ledger("ledgers/old/0-0-1-0-1FFFFFFFFFFFF")
    (LedgerId(id=1, scope=0), LedgerId(id=281474976710655, scope=1))
    >>> java_read_ledger("ledgers/L0001"), java_read_ledger("ledgers/")
    (None, None)
    """
    name = relative_key.rpartition("/")[2]
    uuid_groups = name.split("-")
    if len(name) > _JAVA_UUID_LENGTH or len(uuid_groups) != len(_UUID_GROUP_BITS):
        return None
    unsigned_id = 0
    for uuid_group, bit_count in zip(uuid_groups, _UUID_GROUP_BITS, strict=True):
        group_match = _JAVA_HEX_NUMBER.fullmatch(uuid_group)
        group_number = int(group_match[1], 16) if group_match else -1
        if not 0 <= group_number < 2**63:
            return None
        unsigned_id = unsigned_id << bit_count | group_number & ((1 << bit_count) - 1)
    return LedgerId.parse(f"{unsigned_id:032x}")


def java_listed_id(relative_key: str) -> int | None:
    """Return the ledger id that the Java driver lists for a key. None if the driver skips the key.

    Garbage collection uses the driver's listing of ledgers. The listing begins with the key of id 0 and
    ends before the key of the largest id. The listing drops the scope of each id.

    >>> java_listed_id("ledgers/00000000-0000-0000-0000-000000000007")
    7
    >>> java_listed_id("ledgers/00000000-0000-0000-7fff-ffffffffffff") is None  # left out
    True
    >>> java_listed_id("ledgers/00000000-0000-0000-1-5")  # in between by its bytes
    281474976710661
    """
    ledger = java_read_ledger(relative_key)
    first_key, last_key = (to_path(LedgerId(edge_id)).encode() for edge_id in (0, 2**63 - 1))
    return ledger.id if ledger is not None and first_key <= key_bytes(relative_key) < last_key else None


def node_name(relative_key: str) -> str | None:
    """Return the path that ZooKeeper uses for one of the cluster's own keys, such as ``layout``.

    Returns None for ledgers and for keys that this module does not know. A key that has no counterpart in
    ZooKeeper keeps its name. The result is also None for a writable bookie with the id ``readonly``. In
    ZooKeeper, its path would be the directory of the read-only bookies.

    >>> node_name("layout"), node_name("bookies/readonly/bk1:3181"), node_name("ledgers/x")
    ('LAYOUT', 'available/readonly/bk1:3181', None)
    """
    if relative_key in _NODE_NAMES_BY_KEY:
        return _NODE_NAMES_BY_KEY[relative_key]
    for parent_path, parent in _NODE_PATHS_BY_PARENT_KEY.items():
        node_child_name = relative_key.removeprefix(parent_path)
        if (
            node_child_name != relative_key
            and node_child_name
            and "/" not in node_child_name
            and parent + node_child_name != _READONLY_BOOKIES_NODE
        ):
            return parent + node_child_name
    return None


def children(etcd_scope: str, relative_key: str) -> tuple[bytes, bytes]:
    """Return the range of keys below ``relative_key``: the first key, and the exclusive end.

    The first key ends with "/". The end has "0" instead of this "/", because "0" is the next byte. The first
    key must not lack the slash: a range from ``/a`` to ``/a0`` would also contain ``/a-other``.

    >>> children("/bk", "ledgers")
    (b'/bk/ledgers/', b'/bk/ledgers0')
    """
    key_prefix = key_bytes(f"{etcd_scope}/{relative_key}")
    return key_prefix + b"/", key_prefix + b"0"


def key_bytes(path: str) -> bytes:
    """Return the bytes of the key at an absolute path."""
    return path.encode("utf-8", "surrogatepass")


def key_text(key: bytes) -> str:
    r"""Return a key as text. Bytes that are not UTF-8 become escapes; the driver never writes such bytes.

    >>> key_text(b"/bk/ledgers/\xff")
    '/bk/ledgers/\\xff'
    """
    return key.decode("utf-8", "backslashreplace")
