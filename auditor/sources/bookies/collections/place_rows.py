"""Places and their directories as rows of a collection, and back again.

`auditor.sources.bookies.owners` decides whose data a directory holds when the cluster's ids are known, so a
collection keeps all that it asks: where each directory lay, the bytes of its VERSION, its lastMark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from auditor.codecs.bookie.last_mark import LastMark
from auditor.model.columns import schema_of
from auditor.sources.bookies.inventory import DeclaredRole
from auditor.sources.bookies.last_marks import NAME
from auditor.sources.bookies.places import DirectoryFound, PlaceFound

PLACES = schema_of(
    ("place", pa.int32(), "number of the place in this collection"),
    ("name", pa.string(), "its name: a bookie's id with ':' written '_', or the id in an inventory"),
    ("path", pa.string(), "where it is, or the inventory that names it"),
    ("names_bookie", pa.bool_(), "its name is a bookie's id as it is written"),
    (
        "gaps",
        pa.list_(pa.struct([("path", pa.string()), ("reason", pa.string())])),
        "what below it could not be listed",
    ),
)
DIRECTORIES = schema_of(
    ("place", pa.int32(), "number of its place"),
    ("path", pa.string(), "where it was found"),
    ("inside", pa.list_(pa.string()), "the parts of its path from the place on, the place's name first"),
    ("has_current", pa.bool_(), "it has a directory current, as a bookie's have"),
    ("version", pa.binary(), "the bytes of its VERSION"),
    ("version_error", pa.string(), "why its VERSION could not be read"),
    ("marked_ms", pa.int64(), "when its newest lastMark was written, ms"),
    ("mark_file_id", pa.int64(), "its greatest lastMark: the journal file; null where it has none"),
    ("mark_offset", pa.int64(), "its greatest lastMark: the offset in that file"),
    (
        "marks",
        pa.list_(pa.struct([("name", pa.string()), ("file_id", pa.int64()), ("offset", pa.int64())])),
        "all its lastMark files",
    ),
    ("unclean", pa.bool_(), "DIRTY lies in it; null: not known"),
    ("has_rocksdb", pa.bool_(), "it is an index of DbLedgerStorage"),
    ("version_absent", pa.bool_(), "it surely has no VERSION"),
    ("empty", pa.bool_(), "without VERSION: nothing lies in its current; null: not known"),
    ("old_data", pa.bool_(), "it keeps files of before layout 3, and has no current"),
    (
        "declared",
        pa.struct(
            [("path", pa.string()), ("role", pa.string()), ("position", pa.int32()), ("of", pa.int32())]
        ),
        "what an inventory says of it",
    ),
    ("piece", pa.string(), "the piece of availability that its index is in; null: no index of it was read"),
)
_ALWAYS = ("path", "has_current", "version", "version_error", "marked_ms", "has_rocksdb")
# What older collections do not say is not known.
_LATER: dict[str, Any] = {"version_absent": False, "empty": None, "old_data": False, "unclean": None}
_OF_DIRECTORY = (*_ALWAYS, *_LATER)


def place_rows(places: Sequence[PlaceFound]) -> list[dict[str, Any]]:
    """Rows of `PLACES`, numbered in their order."""
    return [
        {
            "place": number,
            "name": place.name,
            "path": place.path,
            "names_bookie": place.names_bookie,
            "gaps": [{"path": path, "reason": reason} for path, reason in place.gaps],
        }
        for number, place in enumerate(places)
    ]


def directory_rows(
    number: int, place: PlaceFound, pieces: dict[tuple[int, str], str]
) -> list[dict[str, Any]]:
    """Rows of `DIRECTORIES` of one place; ``pieces`` by place and path."""
    rows = []
    for each in place.directories:
        mark = max((mark for _, mark in each.marks), default=None)
        rows.append(
            {name: getattr(each, name) for name in _OF_DIRECTORY}
            | {
                "place": number,
                "inside": list(each.inside),
                "mark_file_id": mark.file_id if mark else None,
                "mark_offset": mark.offset if mark else None,
                "marks": [{"name": name, **mark._asdict()} for name, mark in each.marks],
                "declared": asdict(each.declared) if each.declared else None,
                "piece": pieces.get((number, each.path)),
            }
        )
    return rows


def places_of(places: Iterable[dict[str, Any]], directories: Iterable[dict[str, Any]]) -> list[PlaceFound]:
    """The places that `place_rows` and `directory_rows` were made of.

    Raises KeyError, TypeError for rows that they did not make.
    """
    found: dict[int, list[DirectoryFound]] = {}
    for row in directories:
        found.setdefault(row["place"], []).append(
            DirectoryFound(
                **{name: row[name] for name in _ALWAYS},
                **{name: row.get(name, unknown) for name, unknown in _LATER.items()},
                inside=tuple(row["inside"]),
                declared=DeclaredRole(**row["declared"]) if row["declared"] else None,
                marks=_marks(row),
            )
        )
    return [
        PlaceFound(
            row["name"],
            row["path"],
            row["names_bookie"],
            tuple(found.get(row["place"], ())),
            tuple((gap["path"], gap["reason"]) for gap in row["gaps"]),
        )
        for row in sorted(places, key=lambda row: row["place"])
    ]


def _marks(row: dict[str, Any]) -> tuple[tuple[str, LastMark], ...]:
    """The marks of a directory; older collections have the greatest, which is the only one of one journal."""
    if (marks := row.get("marks")) is not None:
        return tuple((mark["name"], LastMark(mark["file_id"], mark["offset"])) for mark in marks)
    if row.get("mark_file_id") is None:
        return ()
    return ((NAME, LastMark(row["mark_file_id"], row["mark_offset"])),)
