from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.last_mark import LastMark
from auditor.sources.bookies.collections.collection import (
    DIRECTORIES_SCHEMA,
    PLACES_SCHEMA,
    directory_rows,
    parse_places,
    place_rows,
)
from auditor.sources.bookies.places import DeclaredRole, FoundDirectory, FoundPlace, read_marks

numbers = st.integers(0, 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
declared = st.builds(
    DeclaredRole, st.text(), st.sampled_from(["journal", "ledger", "index"]), numbers, numbers
)
directories = st.builds(
    FoundDirectory,
    path=st.text().map("/no/such/place/{}".format).filter(lambda path: "\0" not in path),
    parts_in_place=st.lists(st.text(), max_size=3).map(tuple),
    has_current=st.booleans(),
    version=st.none() | st.binary(max_size=20),
    version_error=st.none() | st.text(),
    marked_ms=st.none() | longs,
    has_rocksdb=st.booleans(),
    declared_role=st.none() | declared,
    marks=st.dictionaries(st.text(), st.builds(LastMark, longs, longs)).map(
        lambda marks: tuple(marks.items())
    ),
    unclean=st.none() | st.booleans(),
)
places = st.builds(
    FoundPlace,
    st.text(),
    st.text(),
    st.booleans(),
    st.lists(directories, max_size=3).map(tuple),
    st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple),
)


@given(st.lists(places, max_size=3))
def test_places_are_read_back_from_their_tables(found_places: list[FoundPlace]) -> None:
    tables = [
        pa.Table.from_pylist(place_rows(found_places), PLACES_SCHEMA),
        pa.Table.from_pylist(
            [row for number, place in enumerate(found_places) for row in directory_rows(number, place, {})],
            DIRECTORIES_SCHEMA,
        ),
    ]
    assert parse_places(*(table.to_pylist() for table in tables)) == found_places


def test_all_marks_are_read_and_invalid_marks_are_ignored(tmp_path: Path) -> None:
    current = tmp_path / "current"
    current.mkdir()
    assert read_marks(str(tmp_path)) == {}
    (current / "lastMark").write_bytes(struct.pack(">qq", 5, 900))
    (current / "lastMark.1").write_bytes(struct.pack(">qq", 7, 1))
    # The server reads the first 16 bytes, and takes no fewer.
    (current / "lastMark.2").write_bytes(struct.pack(">qq", 9, 9) + b"x")
    (current / "lastMark.3").write_bytes(struct.pack(">qq", 9, 9)[:-1])
    (current / "lastMark.4").mkdir()
    marks = {"lastMark": LastMark(5, 900), "lastMark.1": LastMark(7, 1), "lastMark.2": LastMark(9, 9)}
    assert read_marks(str(tmp_path)) == marks
