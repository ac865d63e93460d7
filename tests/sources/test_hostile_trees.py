"""Bookie directories with added loops, pipes, devices and strange names.

Every read ends, reports what it could not read, and reads the rest. Paths in a collection never cause
access to files outside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from auditor.collect.collect import collect
from auditor.keys import index_path
from auditor.model.states import IndexState
from auditor.sources.bookies.collections.collection import Collection
from auditor.sources.bookies.collections.copied_rows import CopiedRowsReader, make_shares
from auditor.sources.bookies.collections.places import PieceOwner, collected_places
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of
from auditor.sources.bookies.entry_logs.rows import sizes_of
from auditor.sources.bookies.journal.files import JournalDirectory
from auditor.sources.bookies.journal.tails import JournalTailPart, read_tail
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import IndexDirectory, plan_parts
from auditor.sources.bookies.places import find_places
from tests.codecs.journals import journal
from tests.reports.hostile import BOOKIE

# What does not end is ended.
pytestmark = pytest.mark.timeout(20)

NAMES = (
    "a\nb",
    "\x1b[31mred",
    "<script>",
    "=1+1",
    BOOKIE.replace("/", "|"),
    "é" * 100,
    "\udcff",
    " ",
    "..x",
    "-rf",
)
VERSION = b'5\nbookieHost: "bk1:3181"\njournalDir: "/j"\nledgerDirs: "1\\t/ledgers"\n'
INDEX = b"BKLE" + bytes(1020) + np.array([1028], ">i8").tobytes()


def spoil(directory: Path) -> None:
    """Add loops, links to the outside, a pipe, a device, and files and directories of each strange name."""
    (directory / "loop").symlink_to(directory)
    (directory / "up").symlink_to("..")
    (directory / "out").symlink_to("/proc/self/fdinfo")
    (directory / "self").symlink_to("self")
    (directory / "device").symlink_to("/dev/zero")
    os.mkfifo(directory / "pipe")
    for name in NAMES:
        (directory / name).mkdir()
        (directory / name / f"{name}.idx").write_bytes(b"")
        (directory / name / "5.idx").write_bytes(b"")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the directory of one bookie that is sound except for added files."""
    bookie = tmp_path / "bookies" / "bk1_3181"
    for name in ("ledgers", "j"):
        (bookie / name / "current").mkdir(parents=True)
        (bookie / name / "current/VERSION").write_bytes(VERSION)
    current = bookie / "ledgers/current"
    file = current / index_path.to_path(7)
    file.parent.mkdir(parents=True)
    file.write_bytes(INDEX)
    (bookie / "j/current/5.txn").write_bytes(journal([(7, 0)]))
    for directory in (
        tmp_path / "bookies",
        bookie,
        bookie / "ledgers",
        current,
        file.parent.parent,
        file.parent,
    ):
        spoil(directory)
    spoil(bookie / "j/current")
    for ledger, target in ((8, "/dev/zero"), (9, "9.idx"), (10, "../../..")):
        link = current / index_path.to_path(ledger)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
    os.mkfifo(current / index_path.to_path(11).replace("/b/", "/7/"))
    os.mkfifo(current / "1.log")
    os.mkfifo(bookie / "j/current/6.txn")
    return bookie


def test_places_are_found_once_despite_links_and_strange_files(place: Path) -> None:
    matches = [entry for entry in find_places([str(place.parent)]) if entry.name == "bk1_3181"]
    [bookie] = matches
    directories = [entry for entry in bookie.directories if entry.version is not None]
    assert sorted(entry.path for entry in directories) == [str(place / "j"), str(place / "ledgers")]


def test_index_is_read_completely_and_unreadable_files_are_reported(place: Path) -> None:
    directory = IndexDirectory.from_version(str(place / "ledgers"), VERSION)
    rows = [
        row
        for part in plan_parts([("bk1", (directory,))], 2)
        for batch in read_part(part)
        for row in batch.to_pylist()
    ]
    by_ledger = {row["ledger_id"]: row["state"] for row in rows if row["ledger_id"] is not None}
    assert by_ledger[7] == IndexState.OK
    assert {by_ledger[ledger] for ledger in (8, 9, 10)} == {IndexState.UNREADABLE}
    assert by_ledger.keys() == {5, 7, 8, 9, 10, 11}


def test_journals_logs_and_sizes_are_read_despite_pipes_and_links(place: Path) -> None:
    journal_directory = JournalDirectory(
        str(place / "j"), str(IndexDirectory.from_version("", VERSION).version_sha256), 5, 0
    )
    states = [
        row["state"]
        for batch in read_tail(JournalTailPart("bk1", (journal_directory,)))
        for row in batch.to_pylist()
    ]
    assert states == ["ok", "gap"]
    logs = [
        row["state"]
        for batch in read_logs_of(LogPart("bk1", 0, str(place / "ledgers"), None))
        for row in batch.to_pylist()
    ]
    assert logs == ["unreadable"]
    assert sizes_of(str(place / "ledgers"))


OPENED_PATHS: list[str] = []
AUDIT_EVENTS = {"open", "os.scandir", "os.listdir"}


@pytest.fixture
def watched() -> Iterator[list[str]]:
    """Yield the list of files and directories that Python opens; `os.stat` precedes each open by pyarrow."""
    on = [True]
    OPENED_PATHS.clear()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if on[0] and event in AUDIT_EVENTS and isinstance(arguments[0], str | bytes | os.PathLike):
            OPENED_PATHS.append(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)  # it stays for good, and does nothing
    yield OPENED_PATHS
    on[0] = False


def test_collection_read_opens_no_path_of_the_source_host(
    place: Path, tmp_path: Path, watched: list[str]
) -> None:
    collection = Collection(collect([str(place.parent)], str(tmp_path / "collection")).path)
    watched.clear()
    collected = collected_places([collection.path])
    assert not collected.unreadable_collections
    pieces = {
        str(directory.piece_id): PieceOwner("bk1", (directory.path,))
        for directory in collected.directories.values()
        if directory.piece_id is not None
    }
    manifest = collection.manifest()
    rows = [
        row
        for share in make_shares([(collection, manifest)], pieces, 1)
        for batch in CopiedRowsReader(pieces).read(share)
        for row in batch.to_pylist()
    ]
    assert {row["ledger_id"] for row in rows} >= {7}
    assert not [path for path in watched if path.startswith(str(place.parent))]
