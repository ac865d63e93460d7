"""(scope, ledger) ⇄ znode path of ledgers outside scope 0 (BP-35's long-long hierarchical layout).

    scopes/0000/0000/0000/0001/0000/0000/0000/L0002       scope 1, ledger 2

The proposal keeps scope 0 in the long hierarchical layout and leaves the rest to "a different znode". The
name ``scopes`` and the groups of four hexadecimal digits are this program's choice: the server's listing and
garbage collection pass over such a name, and 65,536 children fit into one answer. Both halves are unsigned
here, because an id that is taken from a UUID is negative as a signed number.
"""

from __future__ import annotations

import re

from auditor.model.ledger_id import LedgerId

TOP = "scopes"
"""The child of the root below which all of them lie."""

_PATH = re.compile(TOP + r"/" + "/".join(["([0-9a-f]{4})"] * 7) + r"/L([0-9a-f]{4})")
_INNER = re.compile(TOP + r"((?:/[0-9a-f]{4}){0,7})")


def to_path(ledger: LedgerId) -> str:
    """Where a ledger of a scope other than 0 is kept, relative to the root.

    >>> to_path(LedgerId(2, scope=1))
    'scopes/0000/0000/0000/0001/0000/0000/0000/L0002'
    """
    name = ledger.qualified_name
    fours = [name[at : at + 4] for at in range(0, 32, 4)]
    return "/".join([TOP, *fours[:7], f"L{fours[7]}"])


def from_path(rel: str) -> LedgerId | None:
    """The ledger kept at ``rel``, or None where `to_path` would never have put one.

    Scope 0 is at home in the layouts that the server knows, so its ids are none here.

    >>> from_path("scopes/0000/0000/0000/0001/ffff/ffff/ffff/Lfffe")
    LedgerId(id=-2, scope=1)
    >>> from_path("scopes/0000/0000/0000/0000/0000/0000/0000/L0002") is None
    True
    """
    match = _PATH.fullmatch(rel)
    if match is None:
        return None
    ledger = LedgerId.parse("".join(match.groups()))
    return ledger if ledger.scope else None


def is_inner(rel: str) -> bool:
    """Whether ``rel`` is a step on the way to such a ledger.

    >>> is_inner("scopes"), is_inner("scopes/0000/0000"), is_inner("scopes/x")
    (True, True, False)
    """
    return _INNER.fullmatch(rel) is not None
