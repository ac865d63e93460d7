"""Tests of index files of real 4.17.2 bookies against the answers of their Java code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auditor.keys import index_path
from auditor.model.ledger_id import LedgerId
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import IndexDirectory, IndexPart, plan_parts
from auditor.tables.index_counts import find_page_sizes
from tests.corpora.cluster import index_bytes
from tests.sources.bookie_corpora import make_directory, oracle, unpack_bookies

BOOKIES = {
    "interleaved-hier": {
        "127.0.101.1:3181": ["ledgers0"],
        "127.0.101.2:3181": ["ledgers0"],
        "127.0.101.3:3181": ["ledgers0", "ledgers1"],
        "127.0.101.4:3181": ["index0"],
    },
    "flat-v1": {f"bookie{n}.dc1.example:3181": ["ledgers0"] for n in range(1, 5)},
}
SPOILED = {
    ("127.0.101.3:3181", 0): ("unreadable", 0),
    ("127.0.101.2:3181", 1): ("unreadable", 0),
    ("127.0.101.2:3181", 2): ("unreadable", 10),
    ("127.0.101.1:3181", 4): ("cut", 1048),
    ("127.0.101.1:3181", 5): ("unreadable", 4),
}


def corpus_parts(corpus: str, folder: Path, part_count: int) -> list[IndexPart]:
    root = unpack_bookies(corpus, folder)

    def index_directory(bookie: str, name: str) -> IndexDirectory:
        directory = root / bookie.replace(":", "_") / name
        return IndexDirectory.from_version(str(directory), (directory / "current" / "VERSION").read_bytes())

    bookies = [
        (bookie, [index_directory(bookie, name) for name in names])
        for bookie, names in BOOKIES[corpus].items()
    ]
    return plan_parts(bookies, part_count)


def read_all(all_parts: list[IndexPart]) -> list[dict[str, Any]]:
    """Return all rows without stamps. Files get stamps only some time after they were written."""
    rows = [batch.drop_columns(["stamp"]).to_pylist() for part in all_parts for batch in read_part(part)]
    return [row for batch in rows for row in batch]


def entries(groups: bytes) -> list[int]:
    numbers = np.frombuffer(groups, ">i8,>i8,>i4,>i4").tolist()
    return sorted(
        start + within
        for first, last, size, period in numbers
        for start in range(first, last + 1, period or 1)
        for within in range(size)
    )


@pytest.mark.parametrize("part_count", [1, 7])
@pytest.mark.parametrize("corpus", BOOKIES)
def test_readable_indexes_equal_the_listings_of_the_bookies(
    tmp_path: Path, corpus: str, part_count: int
) -> None:
    rows = read_all(corpus_parts(corpus, tmp_path, part_count))
    read = {(row["bookie_id"], row["ledger_id"]): row for row in rows if row["ledger_id"] is not None}
    assert len(read) == sum(row["ledger_id"] is not None for row in rows)
    compared = 0
    for ledger, answers in oracle(corpus)["availability"].items():
        for bookie, answer in answers.items():
            row = read.pop((bookie, int(ledger)), None)
            if "bytes" not in answer:
                assert row is None or row["state"] == "unreadable"
            elif row is None:
                assert answer["entries"] == 0
            elif row["state"] == "ok":
                assert entries(row["groups"]) == entries(bytes.fromhex(answer["bytes"])[64:])
                compared += 1
    assert read == {}
    assert compared > 100


def test_damaged_index_files_have_the_expected_state_and_offset(tmp_path: Path) -> None:
    rows = read_all(corpus_parts("interleaved-hier", tmp_path, 4))
    ledger_rows = [row for row in rows if row["ledger_id"] is not None and row["state"] != "ok"]
    assert {
        (row["bookie_id"], row["ledger_id"]): (row["state"], row["offset"]) for row in ledger_rows
    } == SPOILED
    by_ledger = {(row["bookie_id"], row["ledger_id"]): row for row in rows}
    # Java lists whole pages only and answers with nothing here; the slots that are there are held.
    assert entries(by_ledger["127.0.101.1:3181", 4]["groups"]) == [0, 1, 2]
    assert by_ledger["127.0.101.1:3181", 3]["page_bytes"] == 0
    assert ("127.0.101.2:3181", 7) not in by_ledger
    rows_without_ledger = [row for row in rows if row["ledger_id"] is None]
    assert [(row["state"], row["path"].rpartition("current/")[2]) for row in rows_without_ledger] == [
        ("stray", "0/0/notes.txt")
    ]


def test_page_size_follows_from_the_file_lengths(tmp_path: Path) -> None:
    lengths: dict[str, dict[int, int]] = {}
    for row in read_all(corpus_parts("interleaved-hier", tmp_path, 4)):
        if row["page_bytes"] is not None:
            counts = lengths.setdefault(row["bookie_id"], {})
            counts[row["page_bytes"]] = counts.get(row["page_bytes"], 0) + 1
    assert find_page_sizes(lengths) == {
        "127.0.101.1:3181": 8192,
        "127.0.101.2:3181": 1024,
        "127.0.101.3:3181": 4096,
        "127.0.101.4:3181": 2048,
    }


def test_rows_have_the_published_columns_with_comments(tmp_path: Path) -> None:
    for part in corpus_parts("flat-v1", tmp_path, 2):
        for batch in read_part(part):
            assert batch.schema.equals(SCHEMA, check_metadata=True)
            assert batch["mtime"].null_count == 0
            batch.validate(full=True)
    assert all(field.metadata[b"comment"] for field in SCHEMA)


def test_stray_files_are_returned_in_bounded_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.sources.bookies.part_rows.MAX_BATCH_ROWS", 20)
    monkeypatch.setattr("auditor.sources.bookies.part_rows.BATCH_UNITS", 10)
    leaf = tmp_path / "current" / "0" / "0"
    leaf.mkdir(parents=True)
    for n in range(95):
        (leaf / f"{n}.txt").touch()
    batches = list(read_part(IndexPart("bk", (IndexDirectory(str(tmp_path), None),), ("0",))))
    assert sum(batch.num_rows for batch in batches) == 95
    assert max(batch.num_rows for batch in batches) <= 20


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda current: (current / "VERSION").unlink(), id="vanished"),
        pytest.param(lambda current: (current / "VERSION").write_bytes(b"another"), id="changed"),
        pytest.param(lambda current: current.rename(current.parent / "moved"), id="all vanished"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("when", ["before", "while"])
def test_version_file_changed_since_planning_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], threads: int, when: str
) -> None:
    directories = [make_directory(tmp_path / name, b"5\n...") for name in ("l0", "l1")]
    part = IndexPart(
        "bk",
        tuple(IndexDirectory.from_version(str(directory), b"5\n...") for directory in directories),
        ("0",),
        threads=threads,
    )
    assert list(read_part(part)) == []
    if when == "before":
        spoil(directories[1] / "current")
    else:

        def listing(_: IndexPart) -> Iterator[IndexFiles]:
            yield IndexFiles(np.array([1]), [os.fsencode(tmp_path / "1.idx")])
            spoil(directories[1] / "current")

        monkeypatch.setattr("auditor.sources.bookies.part_rows.list_part", listing)
    rows = read_all([part])
    assert [row["path"] for row in rows if row["state"] == "gap"] == [f"{directories[1]}/current/VERSION"]


def test_threads_read_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.sources.bookies.index_files.listing.BATCH_FILES", 3)
    planned = corpus_parts("interleaved-hier", tmp_path, 2)
    in_threads = read_all([replace(part, threads=3) for part in planned])
    assert sorted(in_threads, key=itemgetter("path")) == sorted(read_all(planned), key=itemgetter("path"))


def test_rows_have_the_scope_of_their_ledger(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "l0", b"5\n...")
    entries_by_ledger = {LedgerId(2): [0, 1], LedgerId(2, scope=1): [0, 5], LedgerId(-2, scope=-1): [7]}
    for ledger, entry_ids in entries_by_ledger.items():
        path = index_path.scoped_ledger_to_path(ledger) if ledger.scope else index_path.to_path(ledger.id)
        file = directory / "current" / path
        file.parent.mkdir(parents=True)
        file.write_bytes(index_bytes(entry_ids))
    wrong = directory / "current/00000000/00000001/00000000/00000003/4.idx"
    wrong.parent.mkdir()
    wrong.touch()
    (directory / "current" / "notes.txt").touch()
    rows = read_all(plan_parts([("bk", [IndexDirectory.from_version(str(directory), b"5\n...")])], 3))
    assert {
        LedgerId(row["ledger_id"], row["scope_id"]): entries(row["groups"])
        for row in rows
        if row["state"] == "ok"
    } == entries_by_ledger
    ids_by_state = {row["state"]: (row["scope_id"], row["ledger_id"]) for row in rows if row["state"] != "ok"}
    assert ids_by_state == {"misplaced": (1, 4), "stray": (None, None)}
