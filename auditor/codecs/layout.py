r"""Which ledger manager a cluster uses: the LAYOUT znode, and etcd's layout key (LedgerLayout).

2\n<factory class>:<factory version>      since 4.2; what follows a second newline is ignored
1\n<type name>:<factory version>          before; the type is flat or hierarchical
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.errors import DecodeError, RuleError
from auditor.model.layout import LayoutKind

WHAT = "layout"

_NUMBER = re.compile(rb"[+-]?0{0,20}[0-9]{1,10}")
_FACTORY_VERSION = 1  # of every manager that is kept in ZooKeeper
_PACKAGE = "org.apache.bookkeeper.meta."
_FACTORIES = {
    "FlatLedgerManagerFactory": LayoutKind.FLAT,
    "LegacyHierarchicalLedgerManagerFactory": LayoutKind.LEGACY_HIERARCHICAL,
    # Also what clusters from before 4.5 say, with short paths only; the class was made anew under its name.
    "HierarchicalLedgerManagerFactory": LayoutKind.HIERARCHICAL,
    "LongHierarchicalLedgerManagerFactory": LayoutKind.LONG_HIERARCHICAL,
}
_TYPES = {"flat": LayoutKind.FLAT, "hierarchical": LayoutKind.HIERARCHICAL}


@dataclass(frozen=True, slots=True)
class Layout:
    """What the layout says: the manager is a class in format 2, a type name in format 1."""

    format_version: int
    manager: str
    manager_version: int

    @property
    def kind(self) -> LayoutKind:
        """The tree that the manager keeps. Raises `RuleError` if it keeps none that can be read.

        >>> Layout(2, "shaded.org.apache.bookkeeper.meta.FlatLedgerManagerFactory", 1).kind
        <LayoutKind.FLAT: 'flat'>
        """
        if self.format_version == 1:
            kind = _TYPES.get(self.manager)
        else:
            package, dot, factory = self.manager.rpartition(".")
            kind = _FACTORIES.get(factory) if (package + dot).endswith(_PACKAGE) else None
        if kind is None:
            raise RuleError(WHAT, "layout-unknown", f"no known ledger manager: {self.manager[:120]!r}", self)
        if self.manager_version != _FACTORY_VERSION:
            reason = f"version {self.manager_version} of the {kind} ledger manager, not {_FACTORY_VERSION}"
            raise RuleError(WHAT, "layout-unknown", reason, self)
        return kind


def decode(data: bytes) -> Layout:
    r"""Read a layout; raises `DecodeError` where the server would refuse to.

    >>> decode(b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1").kind
    <LayoutKind.HIERARCHICAL: 'hierarchical'>
    """
    first, newline, rest = data.partition(b"\n")
    format_version = _number(first, 0, "format version")
    if format_version not in (1, 2):
        raise DecodeError(WHAT, 0, f"format version {format_version} is neither 1 nor 2")
    second, at = rest.partition(b"\n")[0], len(first) + len(newline)
    if not second:
        raise DecodeError(WHAT, at, "no ledger manager")
    parts = second.split(b":")
    if len(parts) != 2 or not parts[1]:
        raise DecodeError(WHAT, at, "the ledger manager is no name and version")
    manager_version = _number(parts[1], at + len(parts[0]) + 1, "version of the ledger manager")
    return Layout(format_version, parts[0].decode("utf-8", "replace"), manager_version)


def _number(text: bytes, at: int, what: str) -> int:
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not -(2**31) <= value < 2**31:
        raise DecodeError(WHAT, at, f"the {what} is no 32-bit integer")
    return value
