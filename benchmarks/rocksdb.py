"""Speed of reading RocksDB indexes to finished rows, compared with plain scans of the same databases.

The databases are those of a bookie with DbLedgerStorage, compressed with LZ4 and compacted. They hold
3,000,000 entries, once in ledgers of 100,000 entries and once in ledgers of 20. Because of striping, two of
three entries are on this bookie. The plain Arrow scan is that of pyrex-rocksdb, which this program also
uses. The plain iteration is that of rocksdict.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyrex
from rocksdict import DBCompressionType, Options, Rdict, WriteBatch

from auditor.codecs.availability.fold import fold_entries
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart, plan_parts
from benchmarks.measure import Line, alternate

ENTRIES = 3_000_000
LEDGER_ENTRIES = (100_000, 20)
BATCH_KEYS = 50_000


def lines() -> Iterator[Line]:
    """Yield lines for one directory with ledgers of each size, then for two directories in two processes."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        for ledger_entries in LEDGER_ENTRIES:
            part = _plan_part(write_index(Path(folder, str(ledger_entries)), ENTRIES, ledger_entries))
            yield from _measure_against_scans(part, ledger_entries)
        copied_directory = replace(part.directories[0], path=f"{folder}/other")
        shutil.copytree(part.directories[0].path, copied_directory.path)
        yield _measure_two_directories([part, _plan_part(copied_directory)], LEDGER_ENTRIES[-1])


def _measure_against_scans(part: IndexPart, ledger_entries: int) -> Iterator[Line]:
    directory = part.directories[0].path
    _check_groups(part, ledger_entries)
    own_seconds, arrow_seconds, iterator_seconds = alternate(
        lambda: _count_rows(part),
        lambda: _read_with_arrow(directory),
        lambda: _iterate_with_rocksdict(directory),
    )
    stage = f"RocksDB, ledgers of {ledger_entries:,} entries, to rows"
    yield Line(stage, ENTRIES, "entries", own_seconds, "plain Arrow scan", ENTRIES, arrow_seconds, target=0.8)
    yield Line(
        f"  {ledger_entries:,} entries",
        ENTRIES,
        "entries",
        own_seconds,
        "plain iteration (rocksdict)",
        ENTRIES,
        iterator_seconds,
    )


def _measure_two_directories(parts: Sequence[IndexPart], ledger_entries: int) -> Line:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:

        def run(part_groups: Sequence[Sequence[IndexPart]]) -> None:
            futures = [pool.submit(_count_all_rows, part_group) for part_group in part_groups]
            wait(futures)
            if sum(future.result() for future in futures) != 2 * -(-ENTRIES // ledger_entries):
                sys.exit("rocksdb: the directories do not add up")

        run([parts[:1], parts[1:]])  # starts the processes
        two_processes, one_process = alternate(lambda: run([parts[:1], parts[1:]]), lambda: run([parts]))
    stage = "RocksDB, two directories in two processes"
    return Line(stage, 2 * ENTRIES, "entries", two_processes, "in one", 2 * ENTRIES, one_process, target=1.7)


def write_index(root_directory: Path, entries: int, ledger_entries: int) -> IndexDirectory:
    """Write a bookie's index directory with ``entries`` entries, ``ledger_entries`` in each ledger."""
    (root_directory / "current").mkdir(parents=True)
    (root_directory / "current" / "VERSION").write_bytes(b"5\n")
    database_options = Options(raw_mode=True)
    database_options.set_compression_type(DBCompressionType.lz4())
    locations_database = Rdict(str(root_directory / "current" / "locations"), database_options)
    entry_number = np.arange(entries)
    keys = np.stack(
        (entry_number // ledger_entries, _make_entries(ledger_entries)[entry_number % ledger_entries]), axis=1
    ).astype(">i8")
    values = (entry_number * 1000 + 1028).astype(">i8")
    for first_entry in range(0, entries, BATCH_KEYS):
        batch = WriteBatch(raw_mode=True)
        for keys_of_entry, value in zip(
            keys[first_entry : first_entry + BATCH_KEYS],
            values[first_entry : first_entry + BATCH_KEYS],
            strict=True,
        ):
            batch.put(keys_of_entry.tobytes(), value.tobytes())
        locations_database.write(batch)
    locations_database.flush()
    locations_database.compact_range(None, None)
    locations_database.close()
    ledgers = Rdict(str(root_directory / "current" / "ledgers"), Options(raw_mode=True))
    for ledger in range(-(-entries // ledger_entries)):
        # DbLedgerStorageDataFormats.LedgerData: exists, not fenced, and a master key of 20 zeros.
        ledgers[ledger.to_bytes(8, "big")] = bytes.fromhex("080110001a14") + bytes(20)
    ledgers.close()
    return IndexDirectory.from_version(str(root_directory), b"5\n", ROCKSDB)


def _make_entries(ledger_entries: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the entries of a ledger that this bookie holds."""
    return np.arange(ledger_entries) * 3 // 2


def _plan_part(directory: IndexDirectory) -> IndexPart:
    [part] = plan_parts([("bookie", [directory])], 1)
    return part


def _count_rows(part: IndexPart) -> int:
    return sum(len(batch) for batch in read_part(part))


def _count_all_rows(all_parts: Sequence[IndexPart]) -> int:
    return sum(map(_count_rows, all_parts))


def _read_with_arrow(directory: str) -> None:
    database = pyrex.PyRocksDB(f"{directory}/current/locations", read_only=True)
    if sum(map(len, pa.RecordBatchReader.from_stream(database.scan_arrow()))) != ENTRIES:
        sys.exit("rocksdb: the plain Arrow scan saw something else")
    database.close()


def _iterate_with_rocksdict(directory: str) -> None:
    database = Rdict(f"{directory}/current/locations", Options(raw_mode=True))
    if sum(1 for _ in database.items()) != ENTRIES:
        sys.exit("rocksdb: plain iteration saw something else")
    database.close()


def _check_groups(part: IndexPart, ledger_entries: int) -> None:
    """End the benchmark if a ledger does not have exactly the entries that were written."""
    expected_groups = fold_entries(_make_entries(ledger_entries), np.array([0, ledger_entries])).tobytes()
    rows = [row for batch in read_part(part) for row in batch["groups"].to_pylist()]
    if rows != [expected_groups] * -(-ENTRIES // ledger_entries):
        sys.exit("rocksdb: ours are not the entries that were written")
