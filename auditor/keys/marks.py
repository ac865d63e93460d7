"""Ledger id ⇄ znodes of under-replication: marks and locks (ZkLedgerUnderreplicationManager).

    underreplication/ledgers/hhhh/hhhh/hhhh/hhhh/urL<id>     a mark: 16 bits of the id a level, in hexadecimal
    underreplication/locks/urL<id>                           a lock: held while a replication worker repairs

The id in the last name is decimal, padded to ten digits. Paths are relative to the root. The server finds
marks by name and then reads the path that the *id* says: a mark in another branch is invisible to it.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MARKS = "underreplication/ledgers"
LOCKS = "underreplication/locks"
MAX_LEDGER_ID = 2**63 - 1

MarkKind = Literal["mark", "misplaced", "malformed", "inner", "other"]

_MASK = 2**64 - 1
_NAME = re.compile(r"urL([0-9]+)")
_INNER = re.compile(r"(?:[0-9a-f]{4}(?:/[0-9a-f]{4}){0,3})?")
_MAX_DIGITS = 19


class MarkPlace(NamedTuple):
    """What a znode below the marks is; ``ledger_id`` is None where no id can be read from its name."""

    kind: MarkKind
    ledger_id: int | None = None


def to_path(ledger_id: int) -> str:
    """Where the mark of a ledger lies, relative to the root.

    >>> to_path(0x0123456789abcdef)
    'underreplication/ledgers/0123/4567/89ab/cdef/urL81985529216486895'
    """
    digits = f"{ledger_id & _MASK:016x}"
    return f"{MARKS}/{digits[:4]}/{digits[4:8]}/{digits[8:12]}/{digits[12:]}/urL{ledger_id:010d}"


def from_path(rel: str) -> int | None:
    """The ledger whose mark lies at ``rel``, or None where `to_path` would never have put one.

    >>> from_path("underreplication/ledgers/0000/0000/0000/0001/urL0000000001"), from_path("LAYOUT")
    (1, None)
    """
    place = classify(rel)
    return place.ledger_id if place.kind == "mark" else None


def classify(rel: str) -> MarkPlace:
    """Say what a znode is, from its path relative to the root.

    ``mark``: a mark in its place. ``misplaced``: a mark that the server does not see, in another branch or
    not written as the server writes it. ``malformed``: neither a mark nor a directory of them; a name that
    starts with ``urL`` and holds no id makes the server's listing fail. ``inner``: a directory. ``other``:
    not below the marks.

    >>> classify("underreplication/ledgers/0000/0000/0000/0002/urL0000000001")
    MarkPlace(kind='misplaced', ledger_id=1)
    """
    if rel == MARKS:
        return MarkPlace("inner")
    if not rel.startswith(MARKS + "/"):
        return MarkPlace("other")
    branch, _, name = rel.removeprefix(MARKS + "/").rpartition("/")
    ledger_id = _id_of_name(name)
    if ledger_id is not None:
        return MarkPlace("mark" if to_path(ledger_id) == rel else "misplaced", ledger_id)
    inner = _INNER.fullmatch(f"{branch}/{name}" if branch else name)
    return MarkPlace("inner" if inner else "malformed")


def lock_to_path(ledger_id: int) -> str:
    """Where the lock of a ledger lies, relative to the root.

    >>> lock_to_path(1)
    'underreplication/locks/urL0000000001'
    """
    return f"{LOCKS}/urL{ledger_id:010d}"


def lock_from_path(rel: str) -> int | None:
    """The ledger whose lock lies at ``rel``, or None where `lock_to_path` would never have put one.

    >>> lock_from_path("underreplication/locks/urL0000000001"), lock_from_path("underreplication/locks")
    (1, None)
    """
    ledger_id = _id_of_name(rel.rpartition("/")[2])
    return ledger_id if ledger_id is not None and lock_to_path(ledger_id) == rel else None


def _id_of_name(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    digits = match[1].lstrip("0") if match else None
    if digits is None or len(digits) > _MAX_DIGITS:
        return None
    ledger_id = int(digits or "0")
    return ledger_id if ledger_id <= MAX_LEDGER_ID else None
