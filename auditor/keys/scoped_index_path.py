"""(scope, ledger) ⇄ path of the index file of a ledger outside scope 0, below ``current`` (BP-35).

    00000000/00000001/00000000/00000002/2.idx       scope 1, ledger 2

The proposal names four directories, the halves of the scope and those of the ledger; the padding and the name
of the file are this program's choice. With eight digits they are none of the directories of scope 0, which
have one or two, and the server's scan, which looks two levels down, finds no file in them. Directories
without the padding are read as well (``0/1/0/2/2.idx``): a directory ``0/1`` then has indexes of scope 0 and
steps to those of scope 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from auditor.model.ledger_id import LedgerId

STEPS = 4
"""Directories between ``current`` and the file."""

_TOP = re.compile(r"[0-9a-f]{8}")
_STEP = re.compile(r"0|[1-9a-f][0-9a-f]{0,7}|[0-9a-f]{8}")
_NAME = re.compile(r"(0|[1-9a-f][0-9a-f]{0,15})\.idx")


def to_path(ledger: LedgerId) -> str:
    """Where the index of a ledger of a scope other than 0 is kept, relative to ``current``.

    >>> to_path(LedgerId(-2, scope=1))
    '00000000/00000001/ffffffff/fffffffe/fffffffffffffffe.idx'
    """
    name = ledger.qualified_name
    eights = [name[at : at + 8] for at in range(0, 32, 8)]
    return "/".join([*eights, f"{int(name[16:], 16):x}.idx"])


def paths(ledger: LedgerId) -> Iterator[str]:
    """Every path that is read as that of a ledger's index: with the padding first, then without some of it.

    >>> list(paths(LedgerId(2, scope=1)))[-1]
    '0/1/0/2/2.idx'
    """
    *steps, file = to_path(ledger).split("/")
    return (f"{each}/{file}" for each in spellings([int(each, 16) for each in steps]))


def spellings(steps: Sequence[int]) -> Iterator[str]:
    """Every way to write some steps, the one with all of the padding first.

    >>> list(spellings([0xdeadbeef, 2]))
    ['deadbeef/00000002', 'deadbeef/2']
    """
    # A dict keeps the order, and what needs no padding comes once.
    return map("/".join, product(*(dict.fromkeys((f"{step:08x}", f"{step:x}")) for step in steps)))


def third_step(place: str, name: str) -> tuple[int, ...] | None:
    """The three steps to a directory below two others, where they lead to a scope other than 0.

    >>> third_step("0/1", "0"), third_step("0/0", "0"), third_step("0/1", "notes")
    ((0, 1, 0), None, None)
    """
    steps = [step(each) for each in (*place.split("/"), name)]
    found = tuple(each for each in steps if each is not None)
    return found if len(found) == len(steps) and any(found[:2]) else None


def is_top(name: str) -> bool:
    """Whether a directory in ``current`` is the first step to such files.

    >>> is_top("00000000"), is_top("0"), is_top("locations")
    (True, False, False)
    """
    return _TOP.fullmatch(name) is not None


def step(name: str) -> int | None:
    """The half that a directory below the first one stands for, padded or not; None if it is not a step.

    >>> step("0000001f"), step("1f"), step("01f")
    (31, 31, None)
    """
    return int(name, 16) if _STEP.fullmatch(name) else None


def ledger_spelt(steps: Sequence[int]) -> LedgerId:
    """The ledger whose directories these are; what is not there counts as 0.

    >>> ledger_spelt([0, 1, 0, 2])
    LedgerId(id=2, scope=1)
    >>> ledger_spelt([0, 1])
    LedgerId(id=0, scope=1)
    """
    return LedgerId.parse("".join(f"{each:08x}" for each in steps).ljust(32, "0"))


def from_name(name: str) -> int | None:
    """The id in its scope of the ledger whose index a file is by its name, or None if it is no such name.

    >>> from_name("fffffffffffffffe.idx"), from_name("0002.idx")
    (-2, None)
    """
    match = _NAME.fullmatch(name)
    return None if match is None else LedgerId.parse(match[1].zfill(32)).id
