"""Tests that a changed database is detected and never read as a shorter one, and that nothing is modified."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from auditor.errors import DamagedError, UnreadError
from auditor.sources.bookies.rocksdb import scan as rocksdb_copy
from auditor.sources.bookies.rocksdb.scan import open_rocksdb, scan
from tests.sources.rocksdb_databases import (
    copy_of,
    files_of,
    key,
    location,
    open_database,
    read_directory,
    read_with_rocksdict,
    write_bookie,
    write_database,
)

FIRST = {key(1, entry): location() for entry in range(500)}
SECOND = {key(2, entry): location() for entry in range(500)}
TAIL = {key(3, entry): location() for entry in range(50)}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a database with two tables and a tail in the log."""
    return write_database(tmp_path / "database", FIRST, SECOND, tail=TAIL)


def at_each_pause(monkeypatch: pytest.MonkeyPatch, change: Callable[[float], object]) -> None:
    """Call ``change`` whenever a copy waits. The sleep of other threads stays unchanged."""
    monkeypatch.setattr(rocksdb_copy, "time", SimpleNamespace(sleep=change))


def read(path: Path) -> dict[bytes, bytes]:
    values_by_key = {}
    with open_rocksdb(str(path)) as database:
        for rows in scan(database, str(path)):
            for row in range(len(rows.keys.offsets) - 1):
                values_by_key[rows.keys.string(row)] = rows.values.string(row)
    return values_by_key


def last_match(path: Path, pattern: str) -> Path:
    return sorted(path.glob(pattern))[-1]


def log_with_data(path: Path) -> Path:
    [data_log] = [log for log in path.glob("*.log") if log.stat().st_size]
    return data_log


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def cut(path: Path, by: int) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def test_tables_and_log_tail_are_read_like_a_second_reader(database: Path) -> None:
    assert read(database) == read_with_rocksdict(database) == FIRST | SECOND | TAIL


def test_rows_only_in_the_log_are_read(tmp_path: Path) -> None:
    path = write_database(tmp_path / "database", tail=TAIL)
    assert not list(path.glob("*.sst"))
    assert read(path) == TAIL


def test_reading_leaves_the_directory_unchanged(database: Path) -> None:
    before = files_of(database)
    database.chmod(0o555)
    read(database)
    database.chmod(0o755)
    assert files_of(database) == before


def test_failed_reading_leaves_the_directory_unchanged(database: Path) -> None:
    flip(log_with_data(database), 30)
    before = files_of(database)
    with pytest.raises(DamagedError):
        read(database)
    assert files_of(database) == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: last_match(path, "*.sst").unlink(), id="a table is gone"),
        pytest.param(lambda path: cut(last_match(path, "*.sst"), 100), id="a table is cut"),
        pytest.param(lambda path: flip(last_match(path, "*.sst"), 40), id="a block of a table is flipped"),
        pytest.param(lambda path: flip(last_match(path, "*.sst"), -3), id="the foot of a table is flipped"),
        pytest.param(lambda path: (path / "CURRENT").unlink(), id="CURRENT is gone"),
        pytest.param(lambda path: (path / "CURRENT").write_bytes(b""), id="CURRENT is empty"),
        pytest.param(lambda path: (path / "CURRENT").write_bytes(b"MANIFEST-00"), id="CURRENT is cut"),
        pytest.param(lambda path: last_match(path, "MANIFEST-*").unlink(), id="the MANIFEST is gone"),
        pytest.param(lambda path: flip(last_match(path, "MANIFEST-*"), 60), id="the MANIFEST is flipped"),
        pytest.param(lambda path: cut(last_match(path, "MANIFEST-*"), 1), id="the MANIFEST is cut"),
        pytest.param(lambda path: log_with_data(path).unlink(), id="the log is gone"),
        pytest.param(lambda path: cut(log_with_data(path), 1), id="the log is cut"),
        pytest.param(lambda path: flip(log_with_data(path), 30), id="the log is flipped"),
        pytest.param(lambda path: flip(log_with_data(path), -3), id="the end of the log is flipped"),
    ],
)
def test_damage_is_reported_with_its_path(database: Path, damage: Callable[[Path], object]) -> None:
    damage(database)
    with pytest.raises(DamagedError) as error:
        read(database)
    assert error.value.path.startswith(str(database))
    assert rocksdb_copy.SCRATCH_NAME_PREFIX not in str(error.value)


def test_log_cut_inside_a_record_is_damage_with_its_offset(tmp_path: Path) -> None:
    path = write_database(tmp_path / "database", tail={key(1, 0): location(), key(1, 1): location()})
    log = log_with_data(path)
    whole = log.read_bytes()
    for length in range(1, len(whole)):
        log.write_bytes(whole[:length])
        if length == len(whole) // 2:  # between the two records: what nobody can notice
            assert len(read(path)) == 1
            continue
        with pytest.raises(DamagedError) as error:
            read(path)
        assert error.value.offset == (0 if length < len(whole) // 2 else len(whole) // 2)


def test_log_missing_between_two_logs_is_damage(tmp_path: Path) -> None:
    """A table that could not be flushed yet keeps its log. The next log continues with the next number."""
    path = write_database(tmp_path / "database", FIRST, tail=TAIL)
    log = log_with_data(path)
    later = path / f"{int(log.stem) + 50:06}.log"
    database = open_database(tmp_path / "other")
    for name, value in (FIRST | TAIL).items():
        database[name] = value
    database[key(9, 9)] = location()
    copy_of(tmp_path / "other", tmp_path / "copy")
    database.close()
    records = log_with_data(tmp_path / "copy").read_bytes()
    # The last record stands alone: its number follows on the ones in the log that is there.
    last = records[records.rindex(key(9, 9)) - 21 :]
    later.write_bytes(last)
    assert set(read(path)) == {*FIRST, *TAIL, key(9, 9)}
    log.write_bytes(b"")
    with pytest.raises(DamagedError, match="writes before it are missing") as error:
        read(path)
    assert error.value.path == str(later)


def test_empty_log_does_not_replace_a_missing_log(database: Path) -> None:
    log_with_data(database).rename(database / "000060.log")
    assert read(database) == FIRST | SECOND | TAIL  # nothing is missing: the numbers go on
    (database / "000060.log").write_bytes(b"")
    with pytest.raises(DamagedError, match="needed by the MANIFEST"):
        read(database)


def test_directory_that_cannot_be_listed_is_unread(tmp_path: Path) -> None:
    with pytest.raises(UnreadError) as error:
        read(tmp_path / "nothing")
    assert not isinstance(error.value, DamagedError)


def test_changing_directory_is_copied_again(
    database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = log_with_data(database)
    whole = log.read_bytes()
    log.write_bytes(whole[:-5])
    at_each_pause(monkeypatch, lambda _: log.write_bytes(whole))
    assert read(database) == FIRST | SECOND | TAIL


def test_directory_that_never_stops_changing_is_unread(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_with_data(database)
    data = log.read_bytes()
    lengths = iter(range(len(data) - 1, 0, -3))
    at_each_pause(monkeypatch, lambda _: log.write_bytes(data[: next(lengths)]))
    log.write_bytes(data[:-2])
    with pytest.raises(UnreadError, match="changed during each of") as error:
        read(database)
    assert not isinstance(error.value, DamagedError)


def test_damage_in_every_copy_of_a_changing_directory_is_damage(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_match(database, "*.sst").unlink()
    other_table = database / "000999.sst"
    counter = iter(range(100))
    at_each_pause(monkeypatch, lambda _: other_table.write_bytes(bytes(next(counter))))
    with pytest.raises(DamagedError, match="listed in the MANIFEST"):
        read(database)


def test_tables_deleted_during_a_read_are_still_read(database: Path) -> None:
    with open_rocksdb(str(database)) as handle:
        shutil.rmtree(database)
        assert sum(len(rows.keys.offsets) - 1 for rows in scan(handle, str(database))) == 1050


def test_no_scratch_directory_is_left_behind(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with open_rocksdb(str(database)):
        assert list(scratch.iterdir()) == []
    (database / "CURRENT").unlink()
    with pytest.raises(DamagedError):
        read(database)
    assert list(scratch.iterdir()) == []


WRITER = """
import sys
import tempfile
import time
from pathlib import Path
from tests.sources.rocksdb_databases import key, location, open_database

database = open_database(Path(sys.argv[1]), write_buffer=64 << 10)
print("ready", flush=True)
for number in range(10**9):
    database[key(number // 1000, number % 1000)] = location()
    if number % 1_000 == 999:
        time.sleep(0.1)  # some six flushes a second: a bookie makes one a minute
    if number % 20_000 == 19_999:
        database.compact_range(None, None)
"""


def test_database_being_written_is_read_as_a_prefix_of_its_writes(tmp_path: Path) -> None:
    """The database has many flushes and compactions meanwhile. Each read has all writes up to some moment."""
    path = tmp_path / "bookie" / "locations"
    path.parent.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=Path(__file__).parents[4],
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            counts = [0]
            deadline = time.monotonic() + 60
            while len(counts) < 8 and time.monotonic() < deadline:
                keys = sorted(read(path))
                assert keys == [key(number // 1000, number % 1000) for number in range(len(keys))]
                assert len(keys) >= counts[-1]
                counts.append(len(keys))
                time.sleep(0.1)
            assert counts[-1] > 0
            assert not [name for name in path.iterdir() if rocksdb_copy.SCRATCH_NAME_PREFIX in name.name]
        finally:
            writer.kill()


def test_bookie_directory_with_a_damaged_database_has_one_damaged_row(tmp_path: Path) -> None:
    root = write_bookie(tmp_path / "l0", {ledger: range(10) for ledger in range(5)})
    flip(last_match(root / "current" / "locations", "*.sst"), 40)
    [row] = read_directory(root)
    assert (row["ledger_id"], row["state"], row["storage"]) == (None, "damaged", "rocksdb")
    assert row["path"].startswith(f"{root}/current/locations")
    assert "checksum" in row["reason"]
