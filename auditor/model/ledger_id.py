"""Ledger ids, their qualified names (BP-35), and the layouts in which BookKeeper stores ledgers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from auditor.errors import UsageError

MIN_LEDGER_ID, MAX_LEDGER_ID = -(2**63), 2**63 - 1
_LONG_MASK = (1 << 64) - 1
_QUALIFIED_NAME = re.compile(
    r"(?:0x)?([0-9a-f]{16})([0-9a-f]{16})|([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4})-([0-9a-f]{4}-[0-9a-f]{12})",
    re.IGNORECASE | re.ASCII,
)
_MAX_ID_DIGITS = 19  # number of digits of the largest ledger id
_MAX_SHOWN_CHARACTERS = 60  # largest part of a wrong name in an error, in characters


@dataclass(frozen=True, slots=True, order=True)
class LedgerId:
    """A 64-bit ledger id in a 64-bit scope (BP-35). Both are signed numbers, as in the server.

    Scope 0 contains every ledger that was written before scopes existed. Ids in scope 0 are never negative.

    >>> LedgerId(42, scope=1).qualified_name
    '0000000000000001000000000000002a'
    >>> LedgerId.parse('0000000000000001000000000000002a')
    LedgerId(id=42, scope=1)
    """

    id: int
    scope: int = 0

    @property
    def qualified_name(self) -> str:
        """The scope and then the ledger id, together in 32 hexadecimal digits.

        >>> LedgerId(-1).qualified_name
        '0000000000000000ffffffffffffffff'
        """
        return f"{self.scope & _LONG_MASK:016x}{self.id & _LONG_MASK:016x}"

    @property
    def display_name(self) -> str:
        """The name of the ledger for sentences: "ledger 7", or "ledger 7 of scope 1"."""
        return f"ledger {self.id}" + (f" of scope {self.scope}" if self.scope else "")

    @property
    def full_display_name(self) -> str:
        """The name of the ledger for sentences. If the scope is not 0, the qualified name is added."""
        return self.display_name + (f" ({self.qualified_name})" if self.scope else "")

    @classmethod
    def parse(cls, qualified_name: str) -> LedgerId:
        """Parse a qualified name. This is the inverse of ``qualified_name``.

        The name has 32 hexadecimal digits, in upper or lower case, with or without ``0x``. The dashed form
        of a UUID is also accepted, because etcd keys use it.

        >>> LedgerId.parse("0x0000000000000000000000000000002A").id
        42
        >>> LedgerId.parse("ffffffff-ffff-ffff-ffff-fffffffffffe")
        LedgerId(id=-2, scope=-1)

        Raises:
            UsageError: the text is not a qualified name.
        """
        match = _QUALIFIED_NAME.fullmatch(qualified_name)
        if match is None:
            shown_name = qualified_name[:_MAX_SHOWN_CHARACTERS]
            digits = qualified_name.lstrip("0")
            if digits.isdecimal() and (len(digits) > _MAX_ID_DIGITS or int(digits) >= 2**63):
                raise UsageError(
                    f"{shown_name!r} is larger than the largest ledger id, {2**63 - 1} (2^63 - 1)"
                )
            raise UsageError(
                f"{shown_name!r} is not a qualified ledger name, which has 32 hexadecimal digits, scope first"
            )
        scope, id_ = (
            int(hex_half.replace("-", ""), 16) for hex_half in match.groups() if hex_half is not None
        )
        return cls(_to_signed(id_), _to_signed(scope))


def _to_signed(hex_half: int) -> int:
    """Convert one half of a qualified name from an unsigned to a signed number, as Java does."""
    return hex_half - (1 << 64) if hex_half >> 63 else hex_half


class LayoutKind(StrEnum):
    """Layout (ledger manager) that the audit can read. ZooKeeper layouts have BookKeeper's names.

    >>> LayoutKind("longhierarchical").name
    'LONG_HIERARCHICAL'
    """

    FLAT = "flat"
    LEGACY_HIERARCHICAL = "legacyhierarchical"
    HIERARCHICAL = "hierarchical"
    LONG_HIERARCHICAL = "longhierarchical"
    ETCD = "etcd"  # the only one there; no suffix of a URI, and no name in BookKeeper's configuration
