"""(scope, ledger) ⇄ znode path of ledgers outside scope 0 (BP-35's long-long hierarchical layout).

    scopes/0000/0000/0000/0001/0000/0000/0000/L0002       scope 1, ledger 2

The proposal keeps scope 0 in the long hierarchical layout and leaves the rest to "a different znode". The
name ``scopes`` and the groups of four hexadecimal digits are this program's choice: the server's listing and
garbage collection pass over such a name, and 65,536 children fit into one answer. Both halves are unsigned
here, because an id that is taken from a UUID is negative as a signed number.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

from auditor.model.ledger_id import LedgerId

TOP = "scopes"
"""The child of the root below which all of them lie."""

LEVELS = 7
"""Steps between `TOP` and a ledger: four of its scope, three of its id."""

_PATH = re.compile(TOP + r"/" + "/".join(["([0-9a-f]{4})"] * LEVELS) + r"/L([0-9a-f]{4})")
_STEP = re.compile(r"[0-9a-f]{4}")
_SCOPE_DIGITS = 16


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
    ledger = ledger_spelt(rel)
    return ledger if ledger is not None and ledger.scope else None


def ledger_spelt(rel: str) -> LedgerId | None:
    """The ledger that ``rel`` spells, of scope 0 too: where none belongs, and one could still be put.

    >>> ledger_spelt("scopes/0000/0000/0000/0000/0000/0000/0000/L0002")
    LedgerId(id=2, scope=0)
    """
    match = _PATH.fullmatch(rel)
    return None if match is None else LedgerId.parse("".join(match.groups()))


def is_inner(rel: str) -> bool:
    """Whether ``rel`` is a step on the way to such a ledger.

    >>> is_inner("scopes"), is_inner("scopes/0000/0000"), is_inner("scopes/x")
    (True, True, False)
    """
    top, *steps = rel.split("/")
    return top == TOP and len(steps) <= LEVELS and all(map(_STEP.fullmatch, steps))


class ScopeSpan(NamedTuple):
    """Ids that a znode could lead to: ``low`` to ``high`` of one scope, or of any where that is None."""

    scope: int | None
    low: int
    high: int


def span(rel: str) -> ScopeSpan:
    """What a ledger could be that lies at or below ``rel``: as far as its steps, from the top, spell one.

    >>> span("scopes/0000/0000/0000/0001/ffff")
    ScopeSpan(scope=1, low=-281474976710656, high=-1)
    >>> span("scopes/0000/x/0000/0001").scope is None
    True
    """
    digits = "".join(takewhile(_STEP.fullmatch, rel.split("/")[1 : LEVELS + 1]))
    if len(digits) < _SCOPE_DIGITS:
        return ScopeSpan(None, -(2**63), 2**63 - 1)
    scope = LedgerId.parse(digits[:_SCOPE_DIGITS] + "0" * 16).scope
    if len(digits) == _SCOPE_DIGITS:
        return ScopeSpan(scope, -(2**63), 2**63 - 1)
    # The first step of an id has its sign, so the ids below it are neighbours as signed numbers too.
    ends = (LedgerId.parse(digits.ljust(2 * _SCOPE_DIGITS, digit)).id for digit in "0f")
    return ScopeSpan(scope, *ends)
