"""The ways in which BookKeeper lays ledgers out in a tree of znodes."""

from __future__ import annotations

from enum import StrEnum


class LayoutKind(StrEnum):
    """The ledger managers whose trees can be read; named as in BookKeeper's configuration.

    >>> LayoutKind("longhierarchical").name
    'LONG_HIERARCHICAL'
    """

    FLAT = "flat"
    LEGACY_HIERARCHICAL = "legacyhierarchical"
    HIERARCHICAL = "hierarchical"
    LONG_HIERARCHICAL = "longhierarchical"
