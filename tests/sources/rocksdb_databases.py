"""Databases as DbLedgerStorage writes them, written with rocksdict, which is also the second reader."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict

from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.groups import HEADER_STRUCT
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart

VERSION = b"5\n"
EXISTING = bytes.fromhex("080110001a00")
LIMBO = bytes.fromhex("080110011a036162632801")


def key(ledger: int, entry: int) -> bytes:
    return ledger.to_bytes(8, "big", signed=True) + entry.to_bytes(8, "big", signed=True)


def ledger_key(ledger: int) -> bytes:
    return ledger.to_bytes(8, "big", signed=True)


def location(place: int = 1028) -> bytes:
    return place.to_bytes(8, "big")


def open_database(path: Path, write_buffer: int | None = None) -> Rdict:
    """Open a database for writing; RocksDB compacts on its own only with a ``write_buffer`` (in bytes)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = Options(raw_mode=True)
    if write_buffer is None:
        options.set_disable_auto_compactions(True)
    else:
        options.set_write_buffer_size(write_buffer)
    return Rdict(str(path), options)


def write_database(path: Path, *flushed: dict[bytes, bytes], tail: dict[bytes, bytes] | None = None) -> Path:
    """Write each of ``flushed`` as a table, and leave ``tail`` in the log, as a killed bookie does."""
    with tempfile.TemporaryDirectory() as scratch:
        database = open_database(Path(scratch, "database"))
        for rows in flushed:
            for name, value in rows.items():
                database[name] = value
            database.flush()
        for name, value in (tail or {}).items():
            database[name] = value
        copy_of(Path(scratch, "database"), path)
        database.close()
    return path


def copy_of(database: Path, target: Path) -> Path:
    """Copy the files that a process killed now would leave; ``database`` must have no running compaction."""
    # RocksDB deletes in the background what it no longer needs: a file may go while it is copied.
    for again in reversed(range(10)):
        try:
            shutil.copytree(database, target, ignore=shutil.ignore_patterns("LOCK", "LOG", "*.json"))
            break
        except shutil.Error:
            if not again:
                raise
            shutil.rmtree(target)
    return target


def write_bookie(
    root: Path, contents: dict[int, Iterable[int]], ledgers: dict[bytes, bytes] | None = None
) -> Path:
    """Write a directory whose two databases list these entries of these ledgers."""
    rows = {key(ledger, entry): location() for ledger, entries in contents.items() for entry in entries}
    write_database(root / "current" / "locations", rows)
    write_database(
        root / "current" / "ledgers",
        {ledger_key(ledger): EXISTING for ledger in contents} if ledgers is None else ledgers,
    )
    (root / "current" / "VERSION").write_bytes(VERSION)
    return root


def read_directory(root: Path, position: int = 0, disk_count: int = 1) -> list[dict[str, Any]]:
    directory = IndexDirectory.from_version(str(root), VERSION, ROCKSDB, position, disk_count)
    part = IndexPart("bk", (directory,), ())
    return [row for batch in read_part(part) for row in batch.to_pylist()]


def entries(groups: bytes) -> list[int]:
    whole: list[int] = availability.expand(
        availability.decode(HEADER_STRUCT.pack(0, len(groups) // 24) + groups)
    ).tolist()
    return whole


def read_with_rocksdict(path: Path) -> dict[bytes, bytes]:
    """Return all rows as rocksdict reads them, through links because it writes a file next to them."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in path.iterdir():
            Path(scratch, file.name).symlink_to(file)
        database = Rdict(scratch, Options(raw_mode=True), access_type=AccessType.read_only())
        values = {}
        rows = database.iter()
        rows.seek_to_first()
        while rows.valid():
            values[rows.key()] = rows.value()
            rows.next()
        rows.status()  # raises where the scan broke off
        database.close()
    return values


def files_of(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return the length, mtime and bytes of ``path`` and every file and directory below it."""
    files = {}
    for below in [path, *path.rglob("*")]:
        status = below.stat()
        content = below.read_bytes() if below.is_file() else b""
        files[str(below)] = (status.st_size, status.st_mtime_ns, content)
    return files
