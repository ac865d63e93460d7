"""Ledger id ⇄ path of its index file below ``current`` (IndexPersistenceMgr).

Two directories from the two lowest bytes of the id, then the whole id; hexadecimal, lower case, unpadded.
"""

from __future__ import annotations

import re

MAX_LEDGER_ID = 2**63 - 1

_MASK = 2**64 - 1
_NAME = re.compile(r"(0|[1-9a-f][0-9a-f]{0,15})\.idx")


def to_path(ledger_id: int) -> str:
    """Where Sorted and Interleaved storage keep the index of a ledger, relative to ``current``.

    >>> to_path(1), to_path(0x1234)
    ('0/1/1.idx', '12/34/1234.idx')
    """
    unsigned = ledger_id & _MASK
    return f"{unsigned >> 8 & 0xFF:x}/{unsigned & 0xFF:x}/{unsigned:x}.idx"


def from_name(name: str) -> int | None:
    """The ledger whose index a file is by its name, or None if it is not an index file's name.

    The server does not look at the directories either; compare with `to_path` to see whether they fit.

    >>> from_name("1234.idx"), from_name("0001.idx"), from_name("notes.txt")
    (4660, None, None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    ledger_id = int(match[1], 16)
    return ledger_id if ledger_id <= MAX_LEDGER_ID else None
