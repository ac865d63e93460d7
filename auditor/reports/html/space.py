"""What bookies' entry logs are full of: a stacked bar for each of the fullest bookies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auditor.model.space import SpaceTotal
from auditor.model.states import SpaceClass

ROWS = 50
_WIDTH = 1000

WORDS = {
    SpaceClass.LIVE: "live",
    SpaceClass.SURPLUS: "surplus entries",
    SpaceClass.OVER_REPLICATED: "over-replicated",
    SpaceClass.ORPHAN: "orphans",
    SpaceClass.SUPERSEDED: "superseded",
    SpaceClass.OWNER_UNKNOWN: "owner unknown",
    SpaceClass.NOT_YET_MAPPED: "not yet mapped",
    SpaceClass.HEADERS_AND_MAPS: "headers and maps",
}
"""How a page names each class, in the order of a bar: what stays, what may go, what is unknown, the rest."""


def space_shown(totals: Sequence[SpaceTotal]) -> dict[str, Any]:
    """The fullest bookies with the parts of their bars, (class, start, width); the longest bar is 1,000 wide.

    >>> space_shown([SpaceTotal("bk1:3181", {"live": 30, "orphan": 10})])["space"][0]["parts"]
    [('live', 0, 750), ('orphan', 750, 250)]
    """
    fullest = sorted(totals, key=lambda each: (-each.bytes, each.name))
    most = max((each.bytes for each in fullest), default=0) or 1
    used = [each for each in WORDS if any(total.classes.get(each) for total in fullest)]
    return {
        "space": [{"total": each, "parts": _parts(each, most)} for each in fullest[:ROWS]],
        "space_left": len(fullest[ROWS:]),
        "space_words": {str(each): WORDS[each] for each in used},
    }


def _parts(total: SpaceTotal, most: int) -> list[tuple[str, int, int]]:
    parts, at = [], 0
    for each in WORDS:
        if size := total.classes.get(each, 0):
            # What is there at all is seen.
            width = max(size * _WIDTH // most, 2)
            parts.append((str(each), at, width))
            at += width
    return parts
