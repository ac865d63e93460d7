"""BP-35: where bookies store ledgers of scope 0, and where they store those of other scopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.codecs.bookie.index_file import decode_header
from auditor.keys import index_path
from auditor.model.ledger_id import LedgerId
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import IndexDirectory, plan_parts
from auditor.sources.bookies.rocksdb.ledgers import KEY_BYTES, SCOPED_DATABASE_NAME
from tests.corpora.cluster import index_bytes
from tests.sources.bookie_corpora import make_directory
from tests.sources.rocksdb_databases import (
    entries,
    key,
    location,
    read_directory,
    write_bookie,
    write_database,
)
from tests.specification.sentences import sentence

VERSION = b"5\n"
SCOPE_0, SCOPE_1 = LedgerId(0x1234), LedgerId(0x1234, scope=1)


def scoped_key(scope: int, ledger: int, entry: int) -> bytes:
    return scope.to_bytes(8, "big", signed=True) + key(ledger, entry)


def entries_by_ledger(rows: list[dict[str, Any]]) -> dict[LedgerId, list[int]]:
    return {LedgerId(row["ledger_id"], row["scope_id"]): entries(row["groups"]) for row in rows}


def read_index_files(root: Path, **files: list[int]) -> dict[LedgerId, list[int]]:
    """Return the entries read from index files at these paths, by ledger."""
    directory = make_directory(root, VERSION)
    for path, ids in files.items():
        file = directory / "current" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(index_bytes(ids))
    parts = plan_parts([("bk", [IndexDirectory.from_version(str(directory), VERSION)])], 1)
    return entries_by_ledger(
        [row for part in parts for batch in read_part(part) for row in batch.to_pylist()]
    )


@sentence("35-50")
def test_index_file_path_of_scope_0_has_two_directories() -> None:
    assert index_path.to_path(SCOPE_0.id) == "12/34/1234.idx"


@sentence("35-51")
def test_index_files_of_scope_0_are_read_from_unscoped_path(tmp_path: Path) -> None:
    assert read_index_files(tmp_path / "l0", **{"12/34/1234.idx": [0, 2]}) == {SCOPE_0: [0, 2]}


@sentence("35-52")
def test_index_files_of_other_scopes_are_four_directories_deep(tmp_path: Path) -> None:
    path = "00000000/00000001/00000000/00001234/1234.idx"
    assert index_path.scoped_ledger_to_path(SCOPE_1) == path
    assert read_index_files(tmp_path / "l0", **{path: [1]}) == {SCOPE_1: [1]}


@sentence("35-53")
def test_index_files_are_distinguished_by_scope_and_id(tmp_path: Path) -> None:
    files = {index_path.to_path(0x1234): [0], index_path.scoped_ledger_to_path(SCOPE_1): [1]}
    assert read_index_files(tmp_path / "l0", **files) == {SCOPE_0: [0], SCOPE_1: [1]}


@sentence("35-54")
def test_index_file_format_is_the_same_in_every_scope(tmp_path: Path) -> None:
    data = index_bytes([0, 5])
    assert decode_header(data) == decode_header(index_bytes([0]))
    path = index_path.scoped_ledger_to_path(SCOPE_1)
    assert read_index_files(tmp_path / "l0", **{path: [0, 5]}) == {SCOPE_1: [0, 5]}


@sentence("35-55")
def test_rocksdb_finds_entries_by_ledger_and_entry(tmp_path: Path) -> None:
    assert len(key(7, 3)) == KEY_BYTES == 16
    assert entries_by_ledger(read_directory(write_bookie(tmp_path / "l0", {7: [3]}))) == {LedgerId(7): [3]}


@sentence("35-56")
def test_rocksdb_stores_scope_0_in_unscoped_database(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {0x1234: [0, 1]})
    assert not (root / "current" / SCOPED_DATABASE_NAME).exists()
    assert entries_by_ledger(read_directory(root)) == {SCOPE_0: [0, 1]}


@sentence("35-57")
def test_other_scopes_use_separate_rocksdb_database_with_scope_in_key(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {0x1234: [0]})
    write_database(root / "current" / SCOPED_DATABASE_NAME, {scoped_key(1, 0x1234, 5): location()})
    assert entries_by_ledger(read_directory(root)) == {SCOPE_0: [0], SCOPE_1: [5]}


@sentence("35-58")
def test_scoped_key_is_eight_bytes_longer() -> None:
    assert len(scoped_key(1, 7, 3)) - KEY_BYTES == 8
