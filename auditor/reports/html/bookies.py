"""The map of bookies: one square for each, and a row for the worst."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from auditor.model.figures import BookieFigure, Figures
from auditor.model.states import BookieRead

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
