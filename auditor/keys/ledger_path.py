"""Paths of ledgers and of their marks below the root in ZooKeeper, and their conversion from ids and back.

    flat                  L0000000001                       every ledger is a child of the root
    legacy hierarchical   00/0000/L0001                     ids of up to ten digits
    long hierarchical     000/0000/0000/0000/L0001
    hierarchical          legacy below 2^31 - 1 (Integer.MAX_VALUE), long from that id on

A ledger id has a scope (BP-35: the upper 64 of 128 bits). Stock BookKeeper only creates ledgers of scope 0.
Ledgers outside scope 0 (the long-long hierarchical layout) are below ``scopes``:

    scopes/0000/0000/0000/0001/0000/0000/0000/L0002       scope 1, ledger 2

BP-35 keeps scope 0 in the long hierarchical layout and leaves the other scopes to "a different znode". This
program itself chose the name ``scopes`` and the groups of four hexadecimal digits. The server's listing and
garbage collection skip this name. A directory has at most 65,536 children, which fit into one answer. Scope
and ledger id are written as unsigned numbers, because a signed id from a UUID can be negative.

Under-replication (ZkLedgerUnderreplicationManager) uses marks and locks:

    underreplication/ledgers/hhhh/hhhh/hhhh/hhhh/urL<id>     a mark: the ledger needs re-replication
    underreplication/locks/urL<id>                           a lock: a replication worker repairs the ledger

Each ``hhhh`` is 16 bits of the ledger id in hexadecimal. The id in the last name is decimal and padded to ten
digits. All these paths are relative to the root. The server takes the id from the name of a mark, and then
reads the path of this id. It therefore does not find a mark in the directories of a different id.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Literal, NamedTuple, Protocol

from auditor.errors import UsageError
from auditor.model.ledger_id import MAX_LEDGER_ID, LayoutKind, LedgerId

FIRST_LONG_ID = 2**31 - 1


class KeyLayout(Protocol):
    """A mapping between paths and the ledgers of scope 0 (the upper half of their 128-bit ids is 0)."""

    def to_path(self, ledger_id: int) -> str:
        """Return the path of a ledger, relative to the root."""

    def from_path(self, relative_path: str) -> int | None:
        """Return the ledger at ``relative_path``, or None for a path that `to_path` never returns."""


class _DigitsLayout:
    """A layout that splits the decimal digits of an id into groups of the given widths.

    The width of the last group is a minimum: it has more digits if the id is longer. ``max_id`` is the
    largest id that the layout can store.
    """

    def __init__(self, *group_widths: int, max_id: int = MAX_LEDGER_ID) -> None:
        self._group_ends = [
            sum(group_widths[: width_number + 1]) for width_number in range(len(group_widths) - 1)
        ]
        self._digit_count = sum(group_widths)
        *directory_widths, leaf_width = group_widths
        digit_groups = [
            *(f"([0-9]{{{group_width}}})" for group_width in directory_widths),
            f"L([0-9]{{{leaf_width},19}})",
        ]
        self._path = re.compile("/".join(digit_groups))
        self._max_id = max_id

    def to_path(self, ledger_id: int) -> str:
        if ledger_id > self._max_id:  # the server silently drops the last digits of a longer id
            raise UsageError(
                f"ledger id {ledger_id} exceeds {self._max_id}, the largest id of the legacy hierarchical "
                "layout"
            )
        digits = f"{ledger_id:0{self._digit_count}d}"
        group_starts = [0, *self._group_ends]
        digit_groups = [
            digits[group_start:group_end]
            for group_start, group_end in zip(group_starts, [*self._group_ends, None], strict=True)
        ]
        return "/".join([*digit_groups[:-1], f"L{digit_groups[-1]}"])

    def from_path(self, relative_path: str) -> int | None:
        path_match = self._path.fullmatch(relative_path)
        ledger_id = int("".join(path_match.groups())) if path_match else MAX_LEDGER_ID + 1
        return ledger_id if ledger_id <= self._max_id and self.to_path(ledger_id) == relative_path else None


class _HierarchicalLayout:
    """A layout with two trees of directories.

    The directories are named by digits of ledger ids. One tree is for small ids, the other for large ids.
    """

    def to_path(self, ledger_id: int) -> str:
        return (LEGACY_HIERARCHICAL if ledger_id < FIRST_LONG_ID else LONG_HIERARCHICAL).to_path(ledger_id)

    def from_path(self, relative_path: str) -> int | None:
        for layout in (LEGACY_HIERARCHICAL, LONG_HIERARCHICAL):
            ledger_id = layout.from_path(relative_path)
            if ledger_id is not None:
                return ledger_id if self.to_path(ledger_id) == relative_path else None
        return None


FLAT: KeyLayout = _DigitsLayout(10)
LEGACY_HIERARCHICAL: KeyLayout = _DigitsLayout(2, 4, 4, max_id=9_999_999_999)
LONG_HIERARCHICAL: KeyLayout = _DigitsLayout(3, 4, 4, 4, 4)
HIERARCHICAL: KeyLayout = _HierarchicalLayout()

LAYOUTS = {
    LayoutKind.FLAT: FLAT,
    LayoutKind.LEGACY_HIERARCHICAL: LEGACY_HIERARCHICAL,
    LayoutKind.HIERARCHICAL: HIERARCHICAL,
    LayoutKind.LONG_HIERARCHICAL: LONG_HIERARCHICAL,
}


SCOPES_DIRECTORY = "scopes"
"""Child of the root that holds all ledgers outside scope 0."""

SCOPE_ID_PATH_LEVELS = 7
"""Number of directories between `SCOPES_DIRECTORY` and a ledger: four for its scope, three for its id."""

_SCOPE_LEDGER_PATH_PATTERN = re.compile(
    SCOPES_DIRECTORY + r"/" + "/".join(["([0-9a-f]{4})"] * SCOPE_ID_PATH_LEVELS) + r"/L([0-9a-f]{4})"
)
_SCOPE_DIRECTORY_PATTERN = re.compile(r"[0-9a-f]{4}")
_SCOPE_ID_HEX_DIGITS = 16


def to_scope_id_path(ledger: LedgerId) -> str:
    """Return the path of a ledger whose scope (upper half of the 128-bit id) is not 0.

    The path is relative to the root.

    >>> to_scope_id_path(LedgerId(2, scope=1))
    'scopes/0000/0000/0000/0001/0000/0000/0000/L0002'
    """
    name = ledger.qualified_name
    digit_groups = [name[group_start : group_start + 4] for group_start in range(0, 32, 4)]
    return "/".join([SCOPES_DIRECTORY, *digit_groups[:7], f"L{digit_groups[7]}"])


def ledger_of_path(relative_path: str) -> LedgerId | None:
    """Return the ledger at a path below `SCOPES_DIRECTORY`, or None if the path is not that of a ledger.

    Ledgers there should have a scope (upper half of a 128-bit id) other than 0. The result may still be a
    ledger of scope 0, because a client may have put it there.

    >>> ledger_of_path("scopes/0000/0000/0000/0000/0000/0000/0000/L0002")
    LedgerId(id=2, scope=0)
    """
    path_match = _SCOPE_LEDGER_PATH_PATTERN.fullmatch(relative_path)
    return None if path_match is None else LedgerId.parse("".join(path_match.groups()))


def is_inner_scope_id_path(relative_path: str) -> bool:
    """Return whether ``relative_path`` is a directory above ledgers outside scope 0.

    The scope is the upper half of a 128-bit ledger id. The result is True for `SCOPES_DIRECTORY` itself, and
    for every path below it that has the form of a directory.

    >>> [is_inner_scope_id_path(path) for path in ("scopes", "scopes/0000/0000", "scopes/x")]
    [True, True, False]
    """
    top_name, *scope_directories = relative_path.split("/")
    return (
        top_name == SCOPES_DIRECTORY
        and len(scope_directories) <= SCOPE_ID_PATH_LEVELS
        and all(map(_SCOPE_DIRECTORY_PATTERN.fullmatch, scope_directories))
    )


class ScopeIdSpan(NamedTuple):
    """Ledgers that can be below a znode: their scope (upper half of a 128-bit id) and range of ids.

    The ids are from ``low`` to ``high``, both included. ``scope`` is None if any scope is possible.
    """

    scope: int | None
    low: int
    high: int


def scope_id_span(relative_path: str) -> ScopeIdSpan:
    """Return the scope and the range of ids that ledgers at or below ``relative_path`` can have.

    The path is below ``scopes``. Each directory name narrows the range. The first name that is not four
    hexadecimal digits is ignored, and so are all names after it.

    >>> scope_id_span("scopes/0000/0000/0000/0001/ffff")
    ScopeIdSpan(scope=1, low=-281474976710656, high=-1)
    >>> scope_id_span("scopes/0000/x/0000/0001").scope is None
    True
    """
    digits = "".join(
        takewhile(_SCOPE_DIRECTORY_PATTERN.fullmatch, relative_path.split("/")[1 : SCOPE_ID_PATH_LEVELS + 1])
    )
    if len(digits) < _SCOPE_ID_HEX_DIGITS:
        return ScopeIdSpan(None, -(2**63), 2**63 - 1)
    scope_id = LedgerId.parse(digits[:_SCOPE_ID_HEX_DIGITS] + "0" * 16).scope
    if len(digits) == _SCOPE_ID_HEX_DIGITS:
        return ScopeIdSpan(scope_id, -(2**63), 2**63 - 1)
    # The first step of an id contains its sign bit, so the ids below it are adjacent as signed numbers too.
    first_and_last_id = (
        LedgerId.parse(digits.ljust(2 * _SCOPE_ID_HEX_DIGITS, padding_digit)).id for padding_digit in "0f"
    )
    return ScopeIdSpan(scope_id, *first_and_last_id)


MARKS_PATH = "underreplication/ledgers"
LOCKS_PATH = "underreplication/locks"

MarkKind = Literal["mark", "misplaced", "malformed", "inner", "other"]

_UINT64_MASK = 2**64 - 1
_MARK_NAME_PATTERN = re.compile(r"urL([0-9]+)")
_MARK_DIRECTORY_PATTERN = re.compile(r"(?:[0-9a-f]{4}(?:/[0-9a-f]{4}){0,3})?")
_MAX_MARK_DIGITS = 19


class MarkPath(NamedTuple):
    """The kind (`classify_mark`) of a znode among under-replication marks, and the ledger id in its name.

    ``ledger_id`` is None if the name contains no ledger id.
    """

    kind: MarkKind
    ledger_id: int | None = None


def mark_to_path(ledger_id: int) -> str:
    """Return the path of a ledger's under-replication mark, relative to the root.

    >>> mark_to_path(0x0123456789abcdef)
    'underreplication/ledgers/0123/4567/89ab/cdef/urL81985529216486895'
    """
    digits = f"{ledger_id & _UINT64_MASK:016x}"
    return f"{MARKS_PATH}/{digits[:4]}/{digits[4:8]}/{digits[8:12]}/{digits[12:]}/urL{ledger_id:010d}"


def classify_mark(relative_path: str) -> MarkPath:
    """Classify the znode at a path, relative to the root, with regard to under-replication marks.

        mark        a mark at the path that belongs to its id
        misplaced   a mark in the directories of a different id, or a mark whose id is written differently.
                    The server does not see it.
        malformed   below the root of the marks, but neither a mark nor a directory of marks. If the name
                    starts with ``urL`` and has no id, the server's listing fails.
        inner       a directory of marks
        other       not below the root of the marks

    >>> classify_mark("underreplication/ledgers/0000/0000/0000/0002/urL0000000001")
    MarkPath(kind='misplaced', ledger_id=1)
    """
    if relative_path == MARKS_PATH:
        return MarkPath("inner")
    if not relative_path.startswith(MARKS_PATH + "/"):
        return MarkPath("other")
    parent_path, _, name = relative_path.removeprefix(MARKS_PATH + "/").rpartition("/")
    ledger_id = _id_of_name(name)
    if ledger_id is not None:
        return MarkPath("mark" if mark_to_path(ledger_id) == relative_path else "misplaced", ledger_id)
    mark_directory_match = _MARK_DIRECTORY_PATTERN.fullmatch(f"{parent_path}/{name}" if parent_path else name)
    return MarkPath("inner" if mark_directory_match else "malformed")


def lock_to_path(ledger_id: int) -> str:
    """Return the path, relative to the root, of a replication worker's lock on a ledger.

    >>> lock_to_path(1)
    'underreplication/locks/urL0000000001'
    """
    return f"{LOCKS_PATH}/urL{ledger_id:010d}"


def lock_from_path(relative_path: str) -> int | None:
    """Return the id of the ledger whose replication lock is at ``relative_path``.

    Returns None for a path that `lock_to_path` never returns.

    >>> lock_from_path("underreplication/locks/urL0000000001"), lock_from_path("underreplication/locks")
    (1, None)
    """
    ledger_id = _id_of_name(relative_path.rpartition("/")[2])
    return ledger_id if ledger_id is not None and lock_to_path(ledger_id) == relative_path else None


def _id_of_name(name: str) -> int | None:
    match = _MARK_NAME_PATTERN.fullmatch(name)
    digits = match[1].lstrip("0") if match else None
    if digits is None or len(digits) > _MAX_MARK_DIGITS:
        return None
    ledger_id = int(digits or "0")
    return ledger_id if ledger_id <= MAX_LEDGER_ID else None
