"""The ways in which BookKeeper lays ledgers out, in a tree of znodes or under keys of etcd."""

from __future__ import annotations

from enum import StrEnum


class LayoutKind(StrEnum):
    """The ledger managers whose ledgers can be found; in ZooKeeper named as in BookKeeper's configuration.

    >>> LayoutKind("longhierarchical").name
    'LONG_HIERARCHICAL'
    """

    FLAT = "flat"
    LEGACY_HIERARCHICAL = "legacyhierarchical"
    HIERARCHICAL = "hierarchical"
    LONG_HIERARCHICAL = "longhierarchical"
    ETCD = "etcd"  # the only one there; no suffix of a URI, and no name in BookKeeper's configuration
