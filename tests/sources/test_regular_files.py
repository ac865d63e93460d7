"""Only regular files are opened: a named pipe in place of a file is damage, and no read waits.

Opening a pipe waits for a writer. A test that does so is ended.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from auditor.errors import DamagedError, RunError, StoreError, UnreadError, UsageError
from auditor.keys import index_path
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.states import EntryLogState, IndexState, TailState, UncheckedReason
from auditor.runs.reader import RunReader
from auditor.sources.bookies.collections.collection import Collection
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.rows import read_logs
from auditor.sources.bookies.entry_logs.whole_entries import EntrySample, Secrets, read_whole_entries
from auditor.sources.bookies.journal.files import JournalDirectory
from auditor.sources.bookies.journal.tails import JournalTailPart, read_tail
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import IndexDirectory, IndexPart
from auditor.sources.bookies.places import find_places, read_inventory, read_marks
from auditor.sources.bookies.rocksdb.scan import open_rocksdb
from auditor.sources.metadata.secret_file import SecretFile
from auditor.sources.metadata.store import Tree
from auditor.sources.metadata.stores import open_store
from auditor.sources.regular_file import (
    NotRegularError,
    open_descriptor,
    open_regular,
    read_regular,
    read_toml,
    require_regular,
)
from tests.codecs.journals import journal
from tests.made_runs import made_run
from tests.sources.rocksdb_databases import copy_of, key, location, write_database
from tests.syntax import syntax_nodes

OPENERS = (open_descriptor, open_regular, read_regular, require_regular)


def test_regular_file_and_link_to_a_regular_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        assert read_regular(tmp_path / name) == read_regular(os.fsencode(tmp_path / name)) == b"bytes"
        descriptor, state = open_descriptor(str(tmp_path / name))
        assert (os.read(descriptor, 9), state.st_size) == (b"bytes", 5)
        os.close(descriptor)
        require_regular(tmp_path / name)


@pytest.mark.parametrize("opener", OPENERS)
def test_error_names_the_kind_of_a_file_that_is_not_regular(opener: object, tmp_path: Path) -> None:
    assert callable(opener)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name, kind in (
            ("pipe", "a named pipe"),
            ("link", "a named pipe"),
            ("device", "a character device"),
            ("socket", "a socket"),
        ):
            with pytest.raises(NotRegularError) as error:
                opener(tmp_path / name)
            assert error.value.strerror == f"{kind}, not a regular file"


@pytest.mark.parametrize("opener", OPENERS)
def test_directories_and_missing_files_raise_the_system_errors(opener: object, tmp_path: Path) -> None:
    assert callable(opener)
    with pytest.raises(IsADirectoryError):
        opener(tmp_path)
    with pytest.raises(FileNotFoundError):
        opener(tmp_path / "nowhere")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises((IsADirectoryError, NotRegularError)):
            open_descriptor(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


pytestmark = pytest.mark.timeout(20)

SOURCES = Path(__file__).parents[2] / "auditor" / "sources"
DATA = Path(__file__).parents[1] / "data"
PIPE = "a named pipe, not a regular file"
VERSION = b"5\n"


def pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def test_pipe_as_a_mark_is_no_mark_and_as_a_cookie_is_unreadable(tmp_path: Path) -> None:
    current = tmp_path / "bk1_3181" / "ledgers" / "current"
    pipe(current / "lastMark")
    pipe(current / "VERSION")
    assert read_marks(str(current.parent)) == {}
    result = {entry.path: entry for entry in find_places([str(tmp_path)])[0].directories}[str(current.parent)]
    assert (result.version, result.version_error, result.version_absent) == (None, PIPE, False)


def test_pipe_as_an_index_file_is_unreadable_and_other_files_are_read(tmp_path: Path) -> None:
    current = tmp_path / "current"
    for ledger in (1, 2, 3):
        place = current / index_path.to_path(ledger)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"BKLE" + bytes(1020) + np.array([1028], ">i8").tobytes())
    pipe(current / index_path.to_path(2))
    (current / "VERSION").write_bytes(VERSION)
    directory = IndexDirectory(str(tmp_path), hashlib.sha256(VERSION).hexdigest())
    part = IndexPart("bk1", (directory,), ("0",))
    rows = {row["ledger_id"]: row for batch in read_part(part) for row in batch.to_pylist()}
    assert {ledger: row["state"] for ledger, row in rows.items()} == {
        1: IndexState.OK,
        2: IndexState.UNREADABLE,
        3: IndexState.OK,
    }
    assert rows[2]["reason"] == PIPE
    pipe(current / "VERSION")
    assert PIPE in [row["reason"] for batch in read_part(part) for row in batch.to_pylist()]


def test_pipe_as_an_entry_log_is_unreadable(tmp_path: Path) -> None:
    current = tmp_path / "current"
    place = current / index_path.to_path(1)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"BKLE" + bytes(1020) + np.array([1028], ">i8").tobytes())
    pipe(current / "0.log")
    assert [(row["state"], row["reason"]) for row in read_logs(str(tmp_path))] == [
        (EntryLogState.UNREADABLE, PIPE)
    ]
    part = IndexPart("bk1", (IndexDirectory(str(tmp_path), None),), ("0",))
    (row,) = (row for batch in read_locations({"bk1": [str(tmp_path)]}, part) for row in batch.to_pylist())
    assert (row["ledger_id"], row["probe"]) == (1, "past-end")
    sample = EntrySample(0, 100, 1 << 20)
    (row,) = (
        row
        for batch in read_whole_entries(part, [str(tmp_path)], sample, Secrets(None, b""))
        for row in batch.to_pylist()
    )
    assert (row["entries"], row["reason"]) == (1, UncheckedReason.LOG)


def test_pipe_as_an_index_file_has_no_locations(tmp_path: Path) -> None:
    pipe(tmp_path / "current" / index_path.to_path(1))
    part = IndexPart("bk1", (IndexDirectory(str(tmp_path), None),), ("0",))
    assert [batch.num_rows for batch in read_locations({"bk1": [str(tmp_path)]}, part)] == []


def test_pipe_as_a_journal_is_a_gap(tmp_path: Path) -> None:
    current = tmp_path / "current"
    pipe(current / "6.txn")
    (current / "5.txn").write_bytes(journal([(1, 0)]))
    (current / "VERSION").write_bytes(VERSION)
    directory = JournalDirectory(str(tmp_path), hashlib.sha256(VERSION).hexdigest(), 5, 0)
    rows = [row for batch in read_tail(JournalTailPart("bk1", (directory,))) for row in batch.to_pylist()]
    assert [(row["state"], row["reason"]) for row in rows] == [(TailState.OK, None), (TailState.GAP, PIPE)]


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.log", "*.sst"])
def test_pipe_in_a_database_is_damage_at_its_path(name: str, tmp_path: Path) -> None:
    rows = {key(1, entry): location() for entry in range(50)}
    whole = write_database(tmp_path / "whole", rows, tail={key(2, 0): location()})
    database = copy_of(whole, tmp_path / "database")
    (file,) = (path for path in sorted(database.glob(name))[-1:])
    pipe(file)
    with pytest.raises(DamagedError) as error, open_rocksdb(str(database)):
        pass
    assert error.value.path == str(file)


def test_pipe_as_a_snapshot_is_skipped_and_as_a_log_is_a_gap(tmp_path: Path) -> None:
    shutil.copytree(DATA / "interleaved-hier" / "zookeeper", tmp_path, dirs_exist_ok=True)
    version2 = tmp_path / "version-2"
    newest = max(int(path.name.split(".")[1], 16) for path in version2.iterdir())
    pipe(version2 / f"snapshot.{newest + 1:x}")
    pipe(version2 / f"log.{newest + 1:x}")
    store = open_store(f"zk-snapshot://{tmp_path}")
    cluster = store.cluster()
    assert any(PIPE in note and "was skipped" in note for note in cluster.notes)
    assert [reason for _, reason in cluster.gaps if PIPE in reason]
    for path in version2.glob("snapshot.*"):
        pipe(path)
    with pytest.raises(StoreError, match=PIPE):
        open_store(f"zk-snapshot://{tmp_path}").cluster()


@pytest.mark.parametrize("uri", ["dump://{}?root=/ledgers", "etcd-snapshot://{}?scope=/ledgers"])
def test_pipe_as_saved_metadata_is_an_error(uri: str, tmp_path: Path) -> None:
    store = open_store(uri.format(pipe(tmp_path / "saved")))
    with pytest.raises(StoreError, match=PIPE):
        store.cluster()
    with pytest.raises(StoreError, match=PIPE):
        store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)


def test_pipe_in_a_collection_is_an_error(tmp_path: Path) -> None:
    pipe(tmp_path / "collection.json")
    pipe(tmp_path / "places" / "part-00000.parquet")
    collection = Collection(str(tmp_path))
    with pytest.raises(UnreadError, match=PIPE):
        collection.manifest()
    with pytest.raises(UnreadError, match=PIPE):
        list(collection.read_rows("places", None))


def test_pipe_in_a_run_is_an_error(tmp_path: Path) -> None:
    run = Path(made_run(tmp_path / "run").path)
    part = next((run / "findings").glob("*.parquet"))
    pipe(part)
    with pytest.raises(RunError, match=PIPE):
        list(RunReader(run).findings)
    pipe(run / "report.json")
    with pytest.raises(RunError, match=PIPE):
        RunReader(run)


def test_pipe_as_settings_is_a_usage_error(tmp_path: Path) -> None:
    file = pipe(tmp_path / "settings.toml")
    for read in (read_toml, SecretFile, read_inventory):
        with pytest.raises(UsageError, match=PIPE):
            read(file)


OPENING_CALLS = {
    "open",
    "read_bytes",
    "read_text",
    "fromfile",
    "memmap",
    "open_input_file",
    "open_input_stream",
    "ParquetFile",
    "read_table",
    "read_metadata",
}
OPEN_FUNCTIONS = {"open_descriptor", "open_regular", "read_regular", "require_regular", "require_file"}
EXEMPT_MODULE = "scratch.py"
EXEMPT_CALLS = {"Journal.open", "gzip.open"}


def calls(function: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}


def test_every_source_opens_files_by_the_regular_file_functions() -> None:
    """A function may also open files through a library if it calls one of these functions too."""
    wrong = []
    for module in sorted(SOURCES.rglob("*.py")):
        if module.name == EXEMPT_MODULE:
            continue
        for function in syntax_nodes(module):
            if not isinstance(function, ast.FunctionDef):
                continue
            names = calls(function)
            opens = {name for name in names - EXEMPT_CALLS if name.rpartition(".")[2] in OPENING_CALLS}
            if opens and not names & OPEN_FUNCTIONS:
                wrong.append(f"{module.relative_to(SOURCES)}: {function.name}: {', '.join(sorted(opens))}")
    assert wrong == []
