r"""The ledger manager of a cluster, from the LAYOUT znode or etcd's layout key (LedgerLayout).

2\n<factory class>:<factory version>      since 4.2; everything after a second newline is ignored
1\n<type name>:<factory version>          before 4.2; the type is flat or hierarchical
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.errors import DecodeError, RuleError
from auditor.model.ledger_id import LayoutKind

FORMAT_NAME = "layout"

_NUMBER_PATTERN = re.compile(rb"[+-]?0{0,20}[0-9]{1,10}")
_PACKAGE = "org.apache.bookkeeper.meta."
_ETCD_FACTORY = "org.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory"
_PULSAR_FACTORY = "org.apache.pulsar.metadata.bookkeeper.PulsarLedgerManagerFactory"
"""Manager class of Pulsar's own driver. It uses both hierarchical trees, by the size of the id."""
_KIND_BY_FACTORY = {
    "FlatLedgerManagerFactory": LayoutKind.FLAT,
    "LegacyHierarchicalLedgerManagerFactory": LayoutKind.LEGACY_HIERARCHICAL,
    # Also what clusters from before 4.5 say, with short paths only; the class was made anew under its name.
    "HierarchicalLedgerManagerFactory": LayoutKind.HIERARCHICAL,
    "LongHierarchicalLedgerManagerFactory": LayoutKind.LONG_HIERARCHICAL,
    # BP-35's: its ledgers of scope 0 lie as the long layout has them, those of other scopes beside.
    "LongLongHierarchicalLedgerManagerFactory": LayoutKind.LONG_HIERARCHICAL,
}
_KIND_BY_TYPE_NAME = {"flat": LayoutKind.FLAT, "hierarchical": LayoutKind.HIERARCHICAL}


@dataclass(frozen=True, slots=True)
class Layout:
    """The content of a layout. ``manager`` is a class name in format 2, and a type name in format 1."""

    format_version: int
    manager: str
    manager_version: int

    @property
    def kind(self) -> LayoutKind:
        """Return the kind of tree in which the manager stores ledgers.

        Raises `RuleError` if this program does not know the manager or its version.

        >>> Layout(2, "shaded.org.apache.bookkeeper.meta.FlatLedgerManagerFactory", 1).kind
        <LayoutKind.FLAT: 'flat'>
        """
        kind = _KIND_BY_TYPE_NAME.get(self.manager) if self.format_version == 1 else _kind_of(self.manager)
        if kind is None:
            raise RuleError(
                FORMAT_NAME, "layout-unknown", f"unknown ledger manager: {self.manager[:120]!r}", self
            )
        expected_version = 0 if kind is LayoutKind.ETCD else 1
        if self.manager_version != expected_version:
            reason = (
                f"version {self.manager_version} of the {kind} ledger manager; {expected_version} expected"
            )
            raise RuleError(FORMAT_NAME, "layout-unknown", reason, self)
        return kind


def decode(data: bytes) -> Layout:
    r"""Read a layout. Raises `DecodeError` if the server would reject it.

    >>> decode(b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1").kind
    <LayoutKind.HIERARCHICAL: 'hierarchical'>
    """
    first_line, newline, manager_lines = data.partition(b"\n")
    format_version = _parse_number(first_line, 0, "format version")
    if format_version not in (1, 2):
        raise DecodeError(FORMAT_NAME, 0, f"format version {format_version} is neither 1 nor 2")
    second_line, offset = manager_lines.partition(b"\n")[0], len(first_line) + len(newline)
    if not second_line:
        raise DecodeError(FORMAT_NAME, offset, "no ledger manager")
    parts = second_line.split(b":")
    if len(parts) != 2 or not parts[1]:
        raise DecodeError(FORMAT_NAME, offset, "the ledger manager is not a name and a version")
    manager_version = _parse_number(parts[1], offset + len(parts[0]) + 1, "version of the ledger manager")
    return Layout(format_version, parts[0].decode("utf-8", "replace"), manager_version)


def _kind_of(manager: str) -> LayoutKind | None:
    """Return the kind of tree that a manager class uses, or None if the class is unknown.

    The package of the class may have a prefix, because shaded copies exist.
    """
    if f".{manager}".endswith(f".{_ETCD_FACTORY}"):
        return LayoutKind.ETCD
    if f".{manager}".endswith(f".{_PULSAR_FACTORY}"):
        return LayoutKind.HIERARCHICAL
    package, dot, factory = manager.rpartition(".")
    return _KIND_BY_FACTORY.get(factory) if (package + dot).endswith(_PACKAGE) else None


def _parse_number(number_text: bytes, offset: int, format_name: str) -> int:
    value = int(number_text) if _NUMBER_PATTERN.fullmatch(number_text) else None
    if value is None or not -(2**31) <= value < 2**31:
        raise DecodeError(FORMAT_NAME, offset, f"the {format_name} is not a 32-bit integer")
    return value
