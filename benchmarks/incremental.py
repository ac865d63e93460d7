"""Time to read indexes with the help of an earlier run, compared with a full read.

One index file in a hundred has changed since the earlier run.

The benchmark measures the tasks that list and read the index directories to rows, without Spark. The rows of
the earlier run are in a Parquet file, as a run stores them. In one case, there is one file for each of
several tasks. Index files are in the page cache unless a line says otherwise.

A directory needs no new listing if it is an hour older than the earlier run. The directories here are new, so
the benchmark dates the earlier run to tomorrow. `benchmarks.incremental_audit` measures whole audits.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rocksdict import Options, Rdict, WriteBatch

from auditor.keys import index_path
from auditor.sources.bookies.availability import MIN_STAMP_AGE_NS
from auditor.sources.bookies.earlier_rows import EarlierTable
from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart, plan_parts
from auditor.sources.bookies.reusable_parts import ReusablePart, read_reusable_part
from benchmarks.measure import Line, alternate, drop_pages

TARGET_RATIO = 10
TASK_COUNT = 26
SMALL_FILES, LARGE_FILES, ENTRIES = 20_000, 300, 250_000
THREADS = 8
DATABASE_LEDGERS, DATABASE_ENTRIES = 50_000, 50
DAY_MS = 86_400_000
VERSION_FILE_BYTES = b"5\n"
INDEX_HEADER = b"BKLE".ljust(1024, b"\0")


def lines() -> Iterator[Line]:
    """Yield lines for small files, for files of 2 MB, and for a database."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        small_files, large_files, database = (Path(folder, name) for name in ("small", "large", "database"))
        _write_files(small_files, SMALL_FILES, 1024)
        _write_files(large_files, LARGE_FILES, ENTRIES)
        _write_database(database)
        time.sleep(MIN_STAMP_AGE_NS / 1e9 + 0.1)  # an audit reads younger files again
        for file_kind, item_count, directory, storage in (
            ("small index files", SMALL_FILES, small_files, "idx"),
            ("index files of 2 MB", LARGE_FILES, large_files, "idx"),
        ):
            part = _plan_index_part(directory, storage)
            earlier_rows = _write_earlier(Path(folder, f"run-{directory.name}"), part)
            _change_files(directory, item_count)
            yield _measure_stage(
                f"{file_kind}, 1 % changed", item_count, "files", part, ReusablePart(part, earlier_rows)
            )
            if directory == small_files:
                yield _measure_stat(small_files, ReusablePart(part, earlier_rows))
                yield _measure_cold(small_files, replace(part, threads=THREADS), earlier_rows)
                yield _measure_many_tasks(Path(folder, "run-dealt"), directory)
        part = _plan_index_part(database, ROCKSDB)
        earlier_rows = _write_earlier(Path(folder, "run-database"), part)
        stage = "a RocksDB that has not changed"
        yield _measure_stage(stage, DATABASE_LEDGERS, "ledgers", part, ReusablePart(part, earlier_rows))


def _measure_stage(
    stage: str, item_count: int, amount_unit: str, full_part: IndexPart, reusable_part: ReusablePart
) -> Line:
    if _comparable_rows(_read_rows(full_part)) != _comparable_rows(_read_rows(reusable_part)):
        sys.exit(f"incremental: {stage}: not the rows of a full run")
    own_seconds, full_seconds = alternate(
        lambda: _read_rows(reusable_part), lambda: _read_rows(full_part), clock=time.process_time
    )
    note = "processor time of both"
    return Line(
        stage,
        item_count,
        amount_unit,
        own_seconds,
        "all read",
        item_count,
        full_seconds,
        target=TARGET_RATIO,
        note=note,
    )


def _measure_stat(directory: Path, reusable_part: ReusablePart) -> Line:
    """Compare a read that reuses the earlier run's rows with calling ``stat`` for every file.

    Any check for changed files needs at least these calls.
    """
    paths = [os.fsencode(path) for path in directory.rglob("*.idx")]

    def stat_files() -> None:
        for path in paths:
            os.stat(path)  # noqa: PTH116 -- the same call as in the program

    own_seconds, stat_seconds = alternate(
        lambda: _read_rows(reusable_part), stat_files, clock=time.process_time
    )
    item_count = len(paths)
    return Line(
        "  the same",
        item_count,
        "files",
        own_seconds,
        "stat alone",
        item_count,
        stat_seconds,
        note="processor time of both",
    )


def _measure_many_tasks(run: Path, directory: Path) -> Line:
    """Measure a bookie that many tasks read.

    Each task wrote one file of rows in the earlier run. Now each must find its own rows among all files.
    """
    parts = _plan_index_parts(directory, TASK_COUNT)
    run.mkdir()
    names = [f"part-{number:05}.parquet" for number in range(TASK_COUNT)]
    for part, name in zip(parts, names, strict=True):
        pq.write_table(_read_rows(part), run / name, write_page_checksum=True)
    earlier_rows = EarlierTable(str(run), tuple(names), time.time_ns() // 1_000_000 + DAY_MS)
    reusable_parts = [ReusablePart(part, earlier_rows) for part in parts]
    own_seconds, full_seconds = alternate(
        partial(_read_all_parts, reusable_parts), partial(_read_all_parts, parts), clock=time.process_time
    )
    stage, note = f"  the same, {TASK_COUNT} tasks", "processor time of both"
    return Line(
        stage,
        SMALL_FILES,
        "files",
        own_seconds,
        "all read",
        SMALL_FILES,
        full_seconds,
        target=TARGET_RATIO,
        note=note,
    )


def _read_all_parts(parts: Sequence[IndexPart | ReusablePart]) -> None:
    for part in parts:
        _read_rows(part)


def _measure_cold(directory: Path, part: IndexPart, earlier_rows: EarlierTable) -> Line:
    paths = list(directory.rglob("*.idx"))
    reusable_part = ReusablePart(part, earlier_rows)

    os.sync()
    own_seconds, full_seconds = alternate(
        lambda: _read_rows(reusable_part), lambda: _read_rows(part), prepare_run=lambda: drop_pages(paths)
    )
    stage, note = f"  the same, cold, {THREADS} threads", "pages of files dropped, not those of directories"
    return Line(
        stage,
        SMALL_FILES,
        "files",
        own_seconds,
        "all read",
        SMALL_FILES,
        full_seconds,
        target=TARGET_RATIO,
        note=note,
    )


def _plan_index_part(directory: Path, storage: str) -> IndexPart:
    [part] = _plan_index_parts(directory, 1, storage)
    return part


def _plan_index_parts(directory: Path, part_count: int, storage: str = "idx") -> list[IndexPart]:
    return plan_parts(
        [("bookie", [IndexDirectory.from_version(str(directory), VERSION_FILE_BYTES, storage)])], part_count
    )


def _read_rows(part: IndexPart | ReusablePart) -> pa.Table:
    batches = read_reusable_part(part) if isinstance(part, ReusablePart) else read_part(part)
    return pa.Table.from_batches(list(batches), SCHEMA)


def _comparable_rows(table: pa.Table) -> pa.Table:
    return table.drop_columns(["stamp", "reused"]).sort_by("ledger_id").combine_chunks()


def _write_earlier(run: Path, part: IndexPart) -> EarlierTable:
    run.mkdir()
    pq.write_table(_read_rows(part), run / "part-00000.parquet", write_page_checksum=True)
    return EarlierTable(str(run), ("part-00000.parquet",), time.time_ns() // 1_000_000 + DAY_MS)


def _change_files(directory: Path, item_count: int) -> None:
    """Remove an entry from one index file in a hundred."""
    for ledger in range(0, item_count, 100):
        with (directory / "current" / index_path.to_path(ledger)).open("r+b") as stream:
            stream.seek(1024)
            stream.write(bytes(8))


def _write_files(directory: Path, item_count: int, slot_count: int) -> None:
    slot_bytes = np.zeros(slot_count, ">i8")
    slot_bytes[0::3] = slot_bytes[1::3] = 1028
    content = INDEX_HEADER + slot_bytes.tobytes()
    for ledger in range(item_count):
        file = directory / "current" / index_path.to_path(ledger)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (directory / "current" / "VERSION").write_bytes(VERSION_FILE_BYTES)


def _write_database(directory: Path) -> None:
    current_directory = directory / "current"
    current_directory.mkdir(parents=True)
    (current_directory / "VERSION").write_bytes(VERSION_FILE_BYTES)
    locations = Rdict(str(current_directory / "locations"), Options(raw_mode=True))
    for ledger in range(DATABASE_LEDGERS):
        batch = WriteBatch(raw_mode=True)
        for entry in range(DATABASE_ENTRIES):
            batch.put(_long_bytes(ledger) + _long_bytes(entry), _long_bytes(1028))
        locations.write(batch)
    locations.close()
    ledgers = Rdict(str(current_directory / "ledgers"), Options(raw_mode=True))
    for ledger in range(DATABASE_LEDGERS):
        ledgers[_long_bytes(ledger)] = bytes.fromhex("080110001a00")
    ledgers.close()


def _long_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big")
