"""What BookKeeper's etcd driver keeps under which key, both ways.

    <scope>                               empty; it is there once the cluster is initialised
    <scope>/layout, <scope>/instanceid
    <scope>/cookies/<bookie id>
    <scope>/bookies/writable/<bookie id>  empty, on the bookie's lease; readonly likewise
    <scope>/ledgers/<uuid>                ledger metadata; scope id and ledger id as one UUID
    <scope>/buckets/<000 to 127>          empty; the key's etcd version is what ids of that bucket are made of
    <scope>/underreplication              empty, and nothing below

Keys are UTF-8. There is no tree: what looks like a directory is a key of its own, with an empty value, and
listing is a range of keys. The scope is taken as it is written, trailing slashes included. Paths below are
relative to it, without a slash in front. Source: EtcdUtils, EtcdConstants, EtcdIdGenerator.
"""

from __future__ import annotations

import re

from auditor.model.ledger_id import LedgerId

LEDGERS = "ledgers"
BUCKETS = "buckets"
BUCKET_COUNT = 128
"""Ids are made as ``bucket << 56 | n``; a negative id would be none of the driver's."""

_UUID = re.compile(r"ledgers/([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})")
_GROUP = re.compile(r"\+?([0-9a-fA-F]+)")
_GROUP_BITS = (32, 16, 16, 16, 48)
_JAVA_LENGTH = 36

_NAMES = {
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
_PARENTS = {
    "cookies/": "cookies/",
    "bookies/writable/": "available/",
    "bookies/readonly/": "available/readonly/",
    "buckets/": "buckets/",
}
_READONLY = "available/readonly"


def to_path(ledger: LedgerId) -> str:
    """Where a ledger's metadata is kept, relative to the scope.

    >>> to_path(LedgerId(2, scope=1))
    'ledgers/00000000-0000-0001-0000-000000000002'
    """
    name = ledger.qualified_name
    return f"{LEDGERS}/{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def from_path(rel: str) -> LedgerId | None:
    """The ledger kept at ``rel``, or None where `to_path` would never have put one.

    >>> from_path("ledgers/00000000-0000-0001-0000-000000000002"), from_path("ledgers/0-0-0-0-1")
    (LedgerId(id=2, scope=1), None)
    """
    match = _UUID.fullmatch(rel)
    return LedgerId.parse("".join(match.groups())) if match else None


def read_by_java(rel: str) -> LedgerId | None:
    """The ledger that the driver reads out of a key, canonical or not; None where it fails.

    Java's ``UUID.fromString`` (11 and later) takes groups of other lengths, in either case, with a plus
    sign, and drops the bits that do not fit; whatever stands before the last slash is not looked at. Digits
    of other scripts, which it also takes, are not read here.

    >>> read_by_java("ledgers/0-0-0-0-1"), read_by_java("ledgers/old/0-0-1-0-1FFFFFFFFFFFF")
    (LedgerId(id=1, scope=0), LedgerId(id=281474976710655, scope=1))
    >>> read_by_java("ledgers/L0001"), read_by_java("ledgers/")
    (None, None)
    """
    name = rel.rpartition("/")[2]
    groups = name.split("-")
    if len(name) > _JAVA_LENGTH or len(groups) != len(_GROUP_BITS):
        return None
    value = 0
    for group, bits in zip(groups, _GROUP_BITS, strict=True):
        match = _GROUP.fullmatch(group)
        number = int(match[1], 16) if match else -1
        if not 0 <= number < 2**63:
            return None
        value = value << bits | number & ((1 << bits) - 1)
    return LedgerId.parse(f"{value:032x}")


def listed_by_java(rel: str) -> int | None:
    """The id that the driver's own listing makes of a key, as garbage collection uses it.

    The listing goes from the key of id 0 to that of the largest id, which it leaves out, and drops the scope
    of what it reads.

    >>> listed_by_java("ledgers/00000000-0000-0000-0000-000000000007")
    7
    >>> listed_by_java("ledgers/00000000-0000-0000-7fff-ffffffffffff") is None  # left out
    True
    >>> listed_by_java("ledgers/00000000-0000-0000-1-5")  # in between by its bytes
    281474976710661
    """
    ledger = read_by_java(rel)
    first, last = (to_path(LedgerId(id_)).encode() for id_ in (0, 2**63 - 1))
    return ledger.id if ledger is not None and first <= key_bytes(rel) < last else None


def node_name(rel: str) -> str | None:
    """The name that a key of the cluster's own has in ZooKeeper; None for ledgers and for unknown keys.

    What ZooKeeper has no counterpart of keeps its name. A bookie called ``readonly`` has none: ZooKeeper
    keeps the read-only bookies there.

    >>> node_name("layout"), node_name("bookies/readonly/bk1:3181"), node_name("ledgers/x")
    ('LAYOUT', 'available/readonly/bk1:3181', None)
    """
    if rel in _NAMES:
        return _NAMES[rel]
    for below, parent in _PARENTS.items():
        child = rel.removeprefix(below)
        if child != rel and child and "/" not in child and parent + child != _READONLY:
            return parent + child
    return None


def children(scope: str, rel: str) -> tuple[bytes, bytes]:
    """The range of keys below ``rel``: its first key, and the end that is not in it.

    The byte after "/" is "0". Nothing but the slash keeps a neighbour out: a range from ``/a`` to ``/a0``
    would hold ``/a-other`` too.

    >>> children("/bk", "ledgers")
    (b'/bk/ledgers/', b'/bk/ledgers0')
    """
    stem = key_bytes(f"{scope}/{rel}")
    return stem + b"/", stem + b"0"


def key_bytes(path: str) -> bytes:
    """The key at an absolute path."""
    return path.encode("utf-8", "surrogatepass")


def key_text(key: bytes) -> str:
    r"""A key as a path; bytes that are no UTF-8, which the driver never writes, as escapes.

    >>> key_text(b"/bk/ledgers/\xff")
    '/bk/ledgers/\\xff'
    """
    return key.decode("utf-8", "backslashreplace")
