"""Classification of znodes and keys below the root: ledgers, directories of ledgers, malformed paths, others.

The server does not check the paths that it lists. It joins all digits in a path into one ledger id, and
garbage collection acts on that id. A znode may be at a path that is not the path of a ledger. For such a
znode, this module returns two facts. (1) The id that the server (Java) would list. (2) The ids of ledgers
that the znode could belong to. A znode named ``L`` and digits could belong to the ledger with these digits.
The number of digits or the tree may be wrong. Java accepts such a name too. A znode named ``Lnotanumber``,
``X1008`` or ``notes`` belongs to no ledger, because no ledger has such a name.

A different layout may use the path for a ledger. The znode could then contain the metadata of that ledger. If
somebody changed the LAYOUT of a store, the store has a whole tree of such paths. The layout `HIERARCHICAL`
has two trees of directories that are named by digits. One is for small ids, the other for large ids.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from auditor.keys import etcd, ledger_path
from auditor.keys.ledger_path import FLAT, LAYOUTS
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID, LayoutKind, LedgerId

__all__ = ["LayoutKind", "ClassifiedPath", "PathKind", "classify", "from_path", "to_path"]

PathKind = Literal["ledger", "inner", "malformed", "other"]


class ClassifiedPath(NamedTuple):
    """The kind of one znode or key, and the ledgers that it belongs to. Ids are signed 64-bit numbers.

    Attributes:
        kind: see `classify`.
        ledger_id: the ledger's id. For ``malformed``, the id that Java would list. None if there is no id.
        low: smallest id of the ledgers that are at or below the path, or that the znode could belong to.
            None if there is no such ledger.
        high: largest of these ids, included in the range. None if ``low`` is None.
        scope_id: scope of these ids (upper half of a 128-bit id). None if any scope is possible.
    """

    kind: PathKind
    ledger_id: int | None = None
    low: int | None = None
    high: int | None = None
    scope_id: int | None = 0
    layout: LayoutKind | None = None
    """For ``malformed``: another layout in which this path is a ledger's; None if there is none."""


class _TreeShape(NamedTuple):
    """The shape of a tree whose directories are named by the digits of ledger ids.

    ``top_name_pattern`` matches the names directly below the root. ``depth`` is the number of directories
    above a ledger. ``digits`` is the number of digits in the whole path of a ledger.
    """

    top_name_pattern: re.Pattern[str]
    depth: int
    digits: int
    is_id_within_parent_range: (
        bool  # Java accepts only ids within the range of the leaf's parent, and only decimal names
    )


_SHORT_TREE_SHAPE = _TreeShape(re.compile(r"[0-9]{2}"), 2, 10, is_id_within_parent_range=True)
_LONG_TREE_SHAPE = _TreeShape(re.compile(r"[0-9]{3}"), 4, 19, is_id_within_parent_range=False)
_SHAPES_BY_LAYOUT: dict[LayoutKind, tuple[_TreeShape, ...]] = {
    LayoutKind.FLAT: (),
    LayoutKind.LEGACY_HIERARCHICAL: (_SHORT_TREE_SHAPE,),
    LayoutKind.HIERARCHICAL: (_SHORT_TREE_SHAPE, _LONG_TREE_SHAPE),
    LayoutKind.LONG_HIERARCHICAL: (_LONG_TREE_SHAPE,),
}
_RESERVED_NAMES = {"available", "cookies", "LAYOUT", "INSTANCEID", "underreplication", "idgen", "idgen-long"}
_SEARCHED_LAYOUTS = (
    LayoutKind.FLAT,
    LayoutKind.HIERARCHICAL,
    LayoutKind.LEGACY_HIERARCHICAL,
    LayoutKind.LONG_HIERARCHICAL,
    LayoutKind.ETCD,
)
"""Layouts in which to look up a path that does not fit the store's own layout, in this order."""
_LEVEL_NAME_PATTERN = re.compile(r"[0-9]{4}")
_NON_DIGITS_PATTERN = re.compile(r"[^0-9]+")
_LEAF_NAME_PATTERN = re.compile(r"L[0-9]+")
_JAVA_LONG_PATTERN = re.compile(r"[+-]?[0-9]+")
_MAX_NAME_LENGTH = 64  # no id needs more digits; longer names are not parsed


def to_path(kind: LayoutKind, ledger_id: int) -> str:
    """Return the path, relative to the root, of a ledger with a 64-bit id (scope 0) in layout ``kind``.

    >>> to_path(LayoutKind.FLAT, 7), to_path(LayoutKind.HIERARCHICAL, 7)
    ('L0000000007', '00/0000/L0007')
    """
    if kind is LayoutKind.ETCD:
        return etcd.to_path(LedgerId(ledger_id))
    return LAYOUTS[kind].to_path(ledger_id)


def from_path(kind: LayoutKind, relative_path: str) -> int | None:
    """Return the 64-bit id (scope 0) of the ledger at a path; None if `to_path` never returns this path.

    >>> from_path(LayoutKind.HIERARCHICAL, "00/0000/L0007")
    7
    """
    if kind is LayoutKind.ETCD:
        ledger = etcd.from_path(relative_path)
        return ledger.id if ledger is not None and ledger.scope == 0 and ledger.id >= 0 else None
    return LAYOUTS[kind].from_path(relative_path)


def classify(kind: LayoutKind, relative_path: str) -> ClassifiedPath:
    """Return the kind of a znode, and its ledgers, in a tree with the layout ``kind``.

    ``relative_path`` is the path of the znode, relative to the root. The kinds are:

        ledger      the path of a ledger
        inner       a directory above ledgers
        malformed   among the ledgers, but not at the path of a ledger in this layout; or at the path of a
                    ledger in a different layout
        other       any other znode

    >>> classify(LayoutKind.HIERARCHICAL, "00/0000/L0042")
    ClassifiedPath(kind='ledger', ledger_id=42, low=42, high=42, scope_id=0, layout=None)
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
        return _etcd_path(relative_path)
    ledger_id = LAYOUTS[kind].from_path(relative_path)
    if ledger_id is not None:
        return ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id)
    names = relative_path.split("/")
    if names[0] == ledger_path.SCOPES_DIRECTORY:  # exists in every layout
        return _scope_id_path(relative_path, names)
    own_layout_path = ClassifiedPath("other")
    if kind is LayoutKind.FLAT:
        own_layout_path = _classify_below(_flat_path(names[0]), len(names) > 1)
    for tree_shape in _SHAPES_BY_LAYOUT[kind]:
        if tree_shape.top_name_pattern.fullmatch(names[0]):
            tree_path = _hierarchical_path(kind, tree_shape, names[: tree_shape.depth + 1])
            own_layout_path = _classify_below(tree_path, len(names) > tree_shape.depth + 1)
    return (
        own_layout_path
        if own_layout_path.kind == "inner"
        else _path_of_other_layout(kind, relative_path, own_layout_path)
    )


def classify_unread_path(kind: LayoutKind, relative_path: str) -> ClassifiedPath:
    """Return the classification of a path that could not be read.

    Ledgers with ids from ``low`` to ``high`` may be at or below the path. Both are None if no ledger can be
    there.

    >>> [classify_unread_path(LayoutKind.HIERARCHICAL, rel).low for rel in ("00/0001", "notes")]
    [10000, None]
    >>> classify_unread_path(LayoutKind.FLAT, "")[2:4] == (MIN_LEDGER_ID, MAX_LEDGER_ID)
    True
    """
    if relative_path.rstrip("/") in ("", etcd.LEDGERS_KEY if kind is LayoutKind.ETCD else ""):
        return ClassifiedPath("inner", None, MIN_LEDGER_ID, MAX_LEDGER_ID, None)
    return classify(kind, relative_path)


def _path_of_other_layout(
    kind: LayoutKind, relative_path: str, own_layout_path: ClassifiedPath
) -> ClassifiedPath:
    """Classify a path by another layout than ``kind``, if that layout puts ledgers at or below the path.

    If no layout does, return ``own_layout_path``, the classification in the store's own layout.
    """
    for other_layout in _SEARCHED_LAYOUTS:
        ledger_id = None if other_layout is kind else from_path(other_layout, relative_path)
        if ledger_id is not None:
            return ClassifiedPath(
                "malformed", own_layout_path.ledger_id, ledger_id, ledger_id, layout=other_layout
            )
    names = relative_path.split("/")
    for tree_shape in (_SHORT_TREE_SHAPE, _LONG_TREE_SHAPE):
        if (
            own_layout_path.kind == "other"
            and tree_shape.top_name_pattern.fullmatch(names[0])
            and len(names) <= tree_shape.depth
        ):
            tree_path = _hierarchical_path(LayoutKind.HIERARCHICAL, tree_shape, names)
            return tree_path if tree_path.kind == "inner" else own_layout_path
    return own_layout_path


def _classify_below(tree_path: ClassifiedPath, has_children: bool) -> ClassifiedPath:
    """Classify a znode that is a leaf in a tree of ledgers, or a znode below such a leaf.

    ``tree_path`` is the classification of the leaf. If ``has_children`` is False, the znode is the leaf, and
    the result is ``tree_path``. If it is True, the znode is below the leaf. Such a znode could belong to the
    ledgers of the leaf, but Java does not list it.
    """
    if not has_children or tree_path.kind == "other":
        return tree_path
    return ClassifiedPath("malformed", None, tree_path.low, tree_path.high)


def _etcd_path(relative_path: str) -> ClassifiedPath:
    """Classify a key of BookKeeper's etcd driver. The driver reads the id after the last slash.

    If the driver cannot read an id there, its whole listing fails, and garbage collection deletes nothing.
    No ledger can have such a name, so the key belongs to no ledger. There is one exception: a key below a
    ledger's key belongs to that ledger. A key with a negative 64-bit id (scope 0) belongs to no ledger.
    LedgerMetadataBuilder refuses such ids, and the driver's listing ends before their keys.
    """
    ledger = etcd.from_path(relative_path)
    if ledger is not None and (ledger.scope or ledger.id >= 0):
        return ClassifiedPath("ledger", ledger.id, ledger.id, ledger.id, ledger.scope)
    if not relative_path.startswith(f"{etcd.LEDGERS_KEY}/"):
        return _path_of_other_layout(LayoutKind.ETCD, relative_path, ClassifiedPath("other"))
    server_listed_id = etcd.java_listed_id(relative_path)
    if server_listed_id is not None:  # the driver drops the scope of what it lists
        return ClassifiedPath("malformed", server_listed_id, server_listed_id, server_listed_id)
    ledger_key_path = "/".join(relative_path.split("/", 2)[:2])
    key_ledger = etcd.java_read_ledger(relative_path) or etcd.from_path(ledger_key_path)
    if key_ledger is None:
        return ClassifiedPath("malformed", scope_id=None)
    if key_ledger.id < 0 and not key_ledger.scope:
        return ClassifiedPath("malformed")
    return ClassifiedPath("malformed", None, key_ledger.id, key_ledger.id, key_ledger.scope)


def _scope_id_path(relative_path: str, names: list[str]) -> ClassifiedPath:
    """Classify a path below ``scopes``, the tree of ledgers outside scope 0 (upper half of a 128-bit id).

    Java skips this tree, so it lists no id for the path. A ledger of scope 0 does not belong there, but a
    znode there could contain its metadata.
    """
    ledger = ledger_path.ledger_of_path("/".join(names[: ledger_path.SCOPE_ID_PATH_LEVELS + 2]))
    if ledger is not None:
        is_ledger_path = len(names) == ledger_path.SCOPE_ID_PATH_LEVELS + 2 and ledger.scope != 0
        kind: PathKind = "ledger" if is_ledger_path else "malformed"
        return ClassifiedPath(kind, ledger.id if is_ledger_path else None, ledger.id, ledger.id, ledger.scope)
    id_span = ledger_path.scope_id_span(relative_path)
    if not ledger_path.is_inner_scope_id_path(relative_path):
        return ClassifiedPath("malformed", scope_id=id_span.scope)
    return ClassifiedPath("inner", None, id_span.low, id_span.high, id_span.scope)


def _flat_path(name: str) -> ClassifiedPath:
    """Classify a name in the flat layout.

    Java parses the text after L as a signed number, and skips names that it cannot parse.
    """
    if not name.startswith("L") or name in _RESERVED_NAMES:
        return ClassifiedPath("other")
    ledger_id = FLAT.from_path(name)
    if ledger_id is not None:
        return ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id)
    if _JAVA_LONG_PATTERN.fullmatch(name, 1) and len(name) <= _MAX_NAME_LENGTH:
        ledger_id = int(name[1:])
        if MIN_LEDGER_ID <= ledger_id <= MAX_LEDGER_ID:
            return ClassifiedPath("malformed", ledger_id, ledger_id, ledger_id)
    return ClassifiedPath("malformed")


def _hierarchical_path(kind: LayoutKind, tree_shape: _TreeShape, names: list[str]) -> ClassifiedPath:
    inner_names = names[: tree_shape.depth]
    is_valid = all(_LEVEL_NAME_PATTERN.fullmatch(name) for name in inner_names[1:])
    if len(names) <= tree_shape.depth:
        return (
            ClassifiedPath("inner", None, *_id_span("".join(inner_names), tree_shape.digits))
            if is_valid
            else ClassifiedPath("malformed")
        )
    leaf_name = names[-1]
    if is_valid:
        if leaf_name in _RESERVED_NAMES or leaf_name.startswith("ID-"):
            return ClassifiedPath("other")
        ledger_id = LAYOUTS[kind].from_path("/".join(names))
        if ledger_id is not None:  # the path is below that of this ledger
            return ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id)
    server_listed_id = _id_in_server_listing(tree_shape, inner_names, leaf_name)
    server_listed_leaf_id = server_listed_id if _LEAF_NAME_PATTERN.fullmatch(leaf_name) else None
    return ClassifiedPath("malformed", server_listed_id, server_listed_leaf_id, server_listed_leaf_id)


def _id_in_server_listing(tree_shape: _TreeShape, inner_names: list[str], leaf_name: str) -> int | None:
    """Return the id that the server's bulk listing gives for a leaf.

    Returns None if the listing skips the leaf or fails. The server joins all digits of the path into one
    number. It reads this number as a Java long, which overflows silently.
    """
    if tree_shape.is_id_within_parent_range and not all(
        _NON_DIGITS_PATTERN.search(name) is None for name in inner_names
    ):
        return None  # the server's listing fails here as a whole
    id_prefix = _java_long(_NON_DIGITS_PATTERN.sub("", "".join(inner_names)))
    server_listed_id = _java_long(_NON_DIGITS_PATTERN.sub("", "".join(inner_names) + leaf_name))
    if (
        tree_shape.is_id_within_parent_range
        and not id_prefix * 10_000 <= server_listed_id <= id_prefix * 10_000 + 9_999
    ):
        return None
    return server_listed_id


def _java_long(digits: str) -> int:
    """Return the value of decimal digits as a Java long. Like Java, it overflows silently.

    >>> _java_long("9999999999999999999")
    -8446744073709551617
    """
    unsigned_id = 0
    for group_start in range(0, len(digits), 18):  # in steps: a hostile name must not become one huge number
        digit_group = digits[group_start : group_start + 18]
        unsigned_id = (unsigned_id * 10 ** len(digit_group) + int(digit_group)) & (2**64 - 1)
    return unsigned_id - 2**64 if unsigned_id >> 63 else unsigned_id


def _id_span(id_prefix: str, digits: int) -> tuple[int, int]:
    open_digit_count = digits - len(id_prefix)
    lowest_id = int(id_prefix + "0" * open_digit_count)
    return min(lowest_id, MAX_LEDGER_ID), min(lowest_id + 10**open_digit_count - 1, MAX_LEDGER_ID)
