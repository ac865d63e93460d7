"""Ids in doubt as a line of a report: how many, and why."""

from __future__ import annotations

from auditor.model.amounts import plural
from auditor.model.report import InDoubt


def doubtful_ids_line(doubt: InDoubt) -> str:
    """How many ids may be there unseen, and the part of the store that leaves most of them open.

    >>> doubtful_ids_line({"ids": "10000", "reasons": ["/ledgers/00/0000: its children could not be listed"]})
    '10,000 ids: /ledgers/00/0000: its children could not be listed'
    >>> doubtful_ids_line({"ids": None, "reasons": ["/ledgers: line at byte 7: cut off", "/ledgers/L01: x"]})
    'every id: /ledgers: line at byte 7: cut off; and 1 reason more'
    """
    ids = "every id" if doubt["ids"] is None else plural(int(doubt["ids"]), "id", "ids")
    first, *others = doubt["reasons"]
    more = f"; and {plural(len(others), 'reason', 'reasons')} more" if others else ""
    return f"{ids}: {first}{more}"
