"""What a znode or key below the root is: a ledger, a step on the way to one, a broken one, or none of these.

The server does not check what it lists: it strings together whatever digits it finds in the names on the way
down, and its garbage collection acts on the ids that come out. So a znode that is not a ledger's path keeps
two facts: the id that Java would list, and the ids that it could stand for. A name that Java's own parser
takes for a ledger's (L and digits, in another width or tree) could be that ledger's metadata, put in the
wrong place. A name that no ledger can have (``Lnotanumber``, ``X1008``, ``notes``) stands for none: it says
nothing of any ledger.

A path that another layout has for a ledger could be that ledger's metadata as well, exactly as it stands: a
store whose LAYOUT was changed has a whole tree of them. `HIERARCHICAL` keeps both trees of digits, each for
ids of its own.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from auditor.keys import etcd, ledger_path
from auditor.keys.ledger_path import FLAT, LAYOUTS
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID, LayoutKind, LedgerId

__all__ = ["LayoutKind", "Place", "PlaceKind", "classify", "from_path", "to_path"]

PlaceKind = Literal["ledger", "inner", "malformed", "other"]


class Place(NamedTuple):
    """What one znode or key is.

    ``ledger_id``: the ledger's, or for ``malformed`` the id that Java would list, if any. ``low`` and
    ``high``: the ids it is, leads to, or could stand for, inclusive; both None where it stands for none. All
    three are signed 64-bit numbers; ``other`` has none. ``scope_id``: the scope of them (BP-35), signed too;
    None where it could be any.
    """

    kind: PlaceKind
    ledger_id: int | None = None
    low: int | None = None
    high: int | None = None
    scope_id: int | None = 0
    layout: LayoutKind | None = None
    """Of ``malformed``: the other layout that keeps a ledger at this very path, if one does."""


class _Shape(NamedTuple):
    """One tree: the width of its top names, how many levels of four digits follow before the leaves."""

    top: re.Pattern[str]
    depth: int
    digits: int
    clamped: bool  # Java keeps only the ids that lie within the leaf's parent, and takes no non-decimal name


_SHORT = _Shape(re.compile(r"[0-9]{2}"), 2, 10, clamped=True)
_LONG = _Shape(re.compile(r"[0-9]{3}"), 4, 19, clamped=False)
_SHAPES: dict[LayoutKind, tuple[_Shape, ...]] = {
    LayoutKind.FLAT: (),
    LayoutKind.LEGACY_HIERARCHICAL: (_SHORT,),
    LayoutKind.HIERARCHICAL: (_SHORT, _LONG),
    LayoutKind.LONG_HIERARCHICAL: (_LONG,),
}
_SPECIAL = {"available", "cookies", "LAYOUT", "INSTANCEID", "underreplication", "idgen", "idgen-long"}
_SEARCHED_LAYOUTS = (
    LayoutKind.FLAT,
    LayoutKind.HIERARCHICAL,
    LayoutKind.LEGACY_HIERARCHICAL,
    LayoutKind.LONG_HIERARCHICAL,
    LayoutKind.ETCD,
)
"""In the order in which a path that is not of the store's own layout is looked for in them."""
_LEVEL = re.compile(r"[0-9]{4}")
_NOT_DIGITS = re.compile(r"[^0-9]+")
_LEAF = re.compile(r"L[0-9]+")
_JAVA_LONG = re.compile(r"[+-]?[0-9]+")
_MAX_NAME = 64  # no id needs more digits; a longer name is not worth a number of its size


def to_path(kind: LayoutKind, ledger_id: int) -> str:
    """Where layout ``kind`` keeps a ledger of scope 0, relative to the root.

    >>> to_path(LayoutKind.FLAT, 7), to_path(LayoutKind.HIERARCHICAL, 7)
    ('L0000000007', '00/0000/L0007')
    """
    if kind is LayoutKind.ETCD:
        return etcd.to_path(LedgerId(ledger_id))
    return LAYOUTS[kind].to_path(ledger_id)


def from_path(kind: LayoutKind, rel: str) -> int | None:
    """The ledger of scope 0 kept at ``rel``, or None where `to_path` would never have put one.

    >>> from_path(LayoutKind.HIERARCHICAL, "00/0000/L0007")
    7
    """
    if kind is LayoutKind.ETCD:
        ledger = etcd.from_path(rel)
        return ledger.id if ledger is not None and ledger.scope == 0 and ledger.id >= 0 else None
    return LAYOUTS[kind].from_path(rel)


def classify(kind: LayoutKind, rel: str) -> Place:
    """Say what the znode at ``rel``, relative to the root, is in a tree of layout ``kind``.

    >>> classify(LayoutKind.HIERARCHICAL, "00/0000/L0042")
    Place(kind='ledger', ledger_id=42, low=42, high=42, scope_id=0, layout=None)
    >>> classify(LayoutKind.HIERARCHICAL, "00/0001")[:4]
    ('inner', None, 10000, 19999)
    >>> classify(LayoutKind.HIERARCHICAL, "00/0000/X12")[:4]
    ('malformed', 12, None, None)
    >>> classify(LayoutKind.HIERARCHICAL, "00/0000/L12")[:4]
    ('malformed', 12, 12, 12)
    >>> classify(LayoutKind.LONG_HIERARCHICAL, "00/0000/L0042")[2:]
    (42, 42, 0, <LayoutKind.HIERARCHICAL: 'hierarchical'>)
    >>> classify(LayoutKind.HIERARCHICAL, "cookies/bk1:3181")[:4]
    ('other', None, None, None)
    >>> classify(LayoutKind.ETCD, "ledgers/00000000-0000-0001-0000-000000000002")[:5]
    ('ledger', 2, 2, 2, 1)
    >>> classify(LayoutKind.FLAT, "scopes/0000/0000/0000/0001/0000/0000/0000/L0002")[:5]
    ('ledger', 2, 2, 2, 1)
    """
    if kind is LayoutKind.ETCD:
        return _etcd(rel)
    ledger_id = LAYOUTS[kind].from_path(rel)
    if ledger_id is not None:
        return Place("ledger", ledger_id, ledger_id, ledger_id)
    names = rel.split("/")
    if names[0] == ledger_path.SCOPES:  # beside the tree of every layout
        return _scoped_place(rel, names)
    own = Place("other")
    if kind is LayoutKind.FLAT:
        own = _below(_flat(names[0]), len(names) > 1)
    for shape in _SHAPES[kind]:
        if shape.top.fullmatch(names[0]):
            place = _hierarchical(kind, shape, names[: shape.depth + 1])
            own = _below(place, len(names) > shape.depth + 1)
    return own if own.kind == "inner" else _of_another(kind, rel, own)


def unread_place(kind: LayoutKind, rel: str) -> Place:
    """Which ledgers may lie unseen at or below ``rel``, which could not be read: its ``low`` to ``high``.

    >>> [unread_place(LayoutKind.HIERARCHICAL, rel).low for rel in ("00/0001", "notes")]
    [10000, None]
    >>> unread_place(LayoutKind.FLAT, "") == Place("inner", None, MIN_LEDGER_ID, MAX_LEDGER_ID, None)
    True
    """
    if rel.rstrip("/") in ("", etcd.LEDGERS if kind is LayoutKind.ETCD else ""):
        return Place("inner", None, MIN_LEDGER_ID, MAX_LEDGER_ID, None)
    return classify(kind, rel)


def _of_another(kind: LayoutKind, rel: str, own: Place) -> Place:
    """A path at which another layout keeps a ledger, or that leads to one; else what it is in this one."""
    for other_kind in _SEARCHED_LAYOUTS:
        ledger_id = None if other_kind is kind else from_path(other_kind, rel)
        if ledger_id is not None:
            return Place("malformed", own.ledger_id, ledger_id, ledger_id, layout=other_kind)
    names = rel.split("/")
    for shape in (_SHORT, _LONG):
        if own.kind == "other" and shape.top.fullmatch(names[0]) and len(names) <= shape.depth:
            place = _hierarchical(LayoutKind.HIERARCHICAL, shape, names)
            return place if place.kind == "inner" else own
    return own


def _below(place: Place, deeper: bool) -> Place:
    """A znode below a leaf is nothing that Java lists; it can stand for no more than the leaf could."""
    if not deeper or place.kind == "other":
        return place
    return Place("malformed", None, place.low, place.high)


def _etcd(rel: str) -> Place:
    """A key is one name and no path: the driver reads the id out of what stands after its last slash.

    A name that it cannot read makes its listing fail as a whole, so that nothing is collected; no ledger can
    have such a name, so it stands for none. Only below the key of a ledger it is taken to belong to that
    ledger. No ledger of scope 0 has an id below 0 (LedgerMetadataBuilder refuses it, the driver's listing
    ends before its key), so such a key stands for none either.
    """
    ledger = etcd.from_path(rel)
    if ledger is not None and (ledger.scope or ledger.id >= 0):
        return Place("ledger", ledger.id, ledger.id, ledger.id, ledger.scope)
    if not rel.startswith(f"{etcd.LEDGERS}/"):
        return _of_another(LayoutKind.ETCD, rel, Place("other"))
    listed = etcd.listed_by_java(rel)
    if listed is not None:  # the driver drops the scope of what it lists
        return Place("malformed", listed, listed, listed)
    above = "/".join(rel.split("/", 2)[:2])
    read = etcd.read_by_java(rel) or etcd.from_path(above)
    if read is None:
        return Place("malformed", scope_id=None)
    if read.id < 0 and not read.scope:
        return Place("malformed")
    return Place("malformed", None, read.id, read.id, read.scope)


def _scoped_place(rel: str, names: list[str]) -> Place:
    """Java passes over the whole tree, so it makes no id of anything in it.

    A ledger of scope 0 does not belong there; it could be one that was put in the wrong place.
    """
    ledger = ledger_path.ledger_of_path("/".join(names[: ledger_path.SCOPE_LEVELS + 2]))
    if ledger is not None:
        own = len(names) == ledger_path.SCOPE_LEVELS + 2 and ledger.scope != 0
        kind: PlaceKind = "ledger" if own else "malformed"
        return Place(kind, ledger.id if own else None, ledger.id, ledger.id, ledger.scope)
    span = ledger_path.scope_span(rel)
    if not ledger_path.is_inner_of_scopes(rel):
        return Place("malformed", scope_id=span.scope)
    return Place("inner", None, span.low, span.high, span.scope)


def _flat(name: str) -> Place:
    """Flat listings parse whatever follows the L as a signed number and skip what does not parse."""
    if not name.startswith("L") or name in _SPECIAL:
        return Place("other")
    ledger_id = FLAT.from_path(name)
    if ledger_id is not None:
        return Place("ledger", ledger_id, ledger_id, ledger_id)
    if _JAVA_LONG.fullmatch(name, 1) and len(name) <= _MAX_NAME:
        ledger_id = int(name[1:])
        if MIN_LEDGER_ID <= ledger_id <= MAX_LEDGER_ID:
            return Place("malformed", ledger_id, ledger_id, ledger_id)
    return Place("malformed")


def _hierarchical(kind: LayoutKind, shape: _Shape, names: list[str]) -> Place:
    inner = names[: shape.depth]
    good = all(_LEVEL.fullmatch(name) for name in inner[1:])
    if len(names) <= shape.depth:
        return Place("inner", None, *_span("".join(inner), shape.digits)) if good else Place("malformed")
    leaf = names[-1]
    if good:
        if leaf in _SPECIAL or leaf.startswith("ID-"):
            return Place("other")
        ledger_id = LAYOUTS[kind].from_path("/".join(names))
        if ledger_id is not None:  # asked for a znode below this ledger's
            return Place("ledger", ledger_id, ledger_id, ledger_id)
    listed = _bulk_listing_id(shape, inner, leaf)
    stands = listed if _LEAF.fullmatch(leaf) else None
    return Place("malformed", listed, stands, stands)


def _bulk_listing_id(shape: _Shape, inner: list[str], leaf: str) -> int | None:
    """The id that the server's bulk listing makes of a leaf: all digits on the way, as a wrapping long."""
    if shape.clamped and not all(_NOT_DIGITS.search(name) is None for name in inner):
        return None  # the server's listing fails here as a whole
    prefix = _java_long(_NOT_DIGITS.sub("", "".join(inner)))
    listed = _java_long(_NOT_DIGITS.sub("", "".join(inner) + leaf))
    if shape.clamped and not prefix * 10_000 <= listed <= prefix * 10_000 + 9_999:
        return None
    return listed


def _java_long(digits: str) -> int:
    """Digits read into a Java long, which overflows in silence.

    >>> _java_long("9999999999999999999")
    -8446744073709551617
    """
    value = 0
    for start in range(
        0, len(digits), 18
    ):  # in steps: the digits of a hostile name never become one huge number
        part = digits[start : start + 18]
        value = (value * 10 ** len(part) + int(part)) & (2**64 - 1)
    return value - 2**64 if value >> 63 else value


def _span(prefix: str, digits: int) -> tuple[int, int]:
    free_digits = digits - len(prefix)
    low = int(prefix + "0" * free_digits)
    return min(low, MAX_LEDGER_ID), min(low + 10**free_digits - 1, MAX_LEDGER_ID)
