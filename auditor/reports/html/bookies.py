"""Bookies on the page: a map and rows of the worst, what their entry logs are full of, and their disks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from auditor.model.report_source import BookieFigure, Figures
from auditor.model.space import DISK_BYTES, DiskTotal, SpaceTotal
from auditor.model.states import BookieRead, SpaceClass
from auditor.reports.space import free_words

ROWS = 100
MAP_FROM = 20  # of fewer bookies the rows alone are a map
_WIDE = 80  # squares in a row of the map
_PITCH = 12

KINDS = {
    "missing": "lacking entries",
    "unknown": "not known in full",
    "surplus": "whole, with too much besides",
    "whole": "whole",
    "idle": "with nothing expected",
}
"""What a square says, the worst first: a bookie is drawn as the first that is true of it."""


def bookies_shown(figures: Figures) -> dict[str, Any]:
    """The worst bookies as rows with bars in per mille, and all of them as paths of a map."""
    rows = figures.bookies[:ROWS]
    most = max((max(each.missing, each.too_much) for each in rows), default=0) or 1
    return {
        "bookies": [
            {
                "figure": each,
                "kind": kind_of(each),
                "bar": _stack((each.whole, each.missing, each.unknown)),
                "left": _scale(each.missing, most),
                "right": _scale(each.too_much, most),
            }
            for each in rows
        ],
        "bookies_total": figures.bookies_total,
        "kinds": KINDS,
        **(_map(figures) if len(figures.bookies) >= MAP_FROM else {"squares": {}}),
    }


def kind_of(bookie: BookieFigure) -> str:
    """The worst that is true of a bookie: a key of `KINDS`.

    >>> kind_of(BookieFigure("bk-a:3181", replicas=9, unknown=1)), kind_of(BookieFigure("bk-b:3181"))
    ('unknown', 'idle')
    """
    if bookie.missing:
        return "missing"
    if bookie.unknown or bookie.read != BookieRead.READ:
        return "unknown"
    if bookie.too_much:
        return "surplus"
    return "whole" if bookie.replicas else "idle"


def _stack(parts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Parts of a whole as (start, width) in per mille; what is there at all is never invisible."""
    total = sum(parts)
    if not total:
        return [(0, 0)] * len(parts)
    widths = [max(part * 1000 // total, 8) if part else 0 for part in parts]
    widest = widths.index(max(widths))
    widths[widest] += 1000 - sum(widths)
    return [(sum(widths[:number]), width) for number, width in enumerate(widths)]


def _scale(number: int, most: int) -> int:
    return max(number * 1000 // most, 12) if number else 0


def _map(figures: Figures) -> dict[str, Any]:
    """One path of each kind, squares in the order of ids: a bookie keeps its place while none is added."""
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    ordered = sorted(figures.bookies, key=lambda each: each.bookie_id)
    for number, bookie in enumerate(ordered):
        x, y = number % _WIDE * _PITCH, number // _WIDE * _PITCH
        by_kind[kind_of(bookie)].append(f"M{x} {y}")
    counts = Counter(kind_of(each) for each in ordered)
    return {
        "squares": {kind: "".join(f"{at}{_SHAPES[kind]}" for at in by_kind[kind]) for kind in KINDS},
        "square_counts": {kind: counts[kind] for kind in KINDS},
        "key": {kind: f"M0 0{shape}" for kind, shape in _SHAPES.items()},
        "map_size": (
            min(len(ordered), _WIDE) * _PITCH,
            ((len(ordered) - 1) // _WIDE + 1) * _PITCH,
        ),
    }


# Each from the corner of its square, ten wide; told apart by shape as well as by colour.
_SHAPES = {
    "missing": "m1 1h8v8h-8zm1 1l6 6m0-6l-6 6",
    "unknown": "m1 1h8v8h-8zm0 4l4-4m0 8l4-4",
    "surplus": "m1 1h8v8h-8zm4 1.5v5m-2.5-2.5h5",
    "whole": "m1 1h8v8h-8z",
    "idle": "m4 4h2v2h-2z",
}


SPACE_ROWS = 50
_WIDTH = 1000

SPACE_WORDS = {
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
    used = [each for each in SPACE_WORDS if any(total.classes.get(each) for total in fullest)]
    return {
        "space": [{"total": each, "parts": _parts(each, most)} for each in fullest[:SPACE_ROWS]],
        "space_left": len(fullest[SPACE_ROWS:]),
        "space_words": {str(each): SPACE_WORDS[each] for each in used},
    }


def _parts(total: SpaceTotal, most: int) -> list[tuple[str, int, int]]:
    parts, at = [], 0
    for each in SPACE_WORDS:
        if size := total.classes.get(each, 0):
            # What is there at all is seen.
            width = max(size * _WIDTH // most, 2)
            parts.append((str(each), at, width))
            at += width
    return parts


DISK_WORDS = {kind.name: kind.words[0].upper() + kind.words[1:] for kind in DISK_BYTES}
"""How a page names each kind of bytes."""


def disks_shown(space: Sequence[SpaceTotal], disks: Sequence[DiskTotal]) -> dict[str, Any]:
    """The bookies whose bars are drawn, in their order, each with what is free in words.

    >>> disks_shown([], [DiskTotal("bk1:3181", 10, 0, 0, 0, ())])["disks"][0][1]
    'not seen'
    """
    sizes = {each.name: each.bytes for each in space}
    ordered = sorted(disks, key=lambda each: (-sizes.get(each.name, 0), each.name))
    return {"disks": [(each, free_words(each)) for each in ordered[:SPACE_ROWS]], "disk_words": DISK_WORDS}
