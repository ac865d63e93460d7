"""RocksDB indexes: how fast they become finished rows, beside plain scans of the same databases.

The databases are a bookie's on DbLedgerStorage, LZ4, compacted: 3,000,000 entries, of ledgers of 100,000
entries and of ledgers of 20, two of three in each as the striping leaves them. The plain Arrow scan is that
of pyrex-rocksdb, which ours reads with; plain iteration is rocksdict's.
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
BATCH = 50_000


def lines() -> Iterator[Line]:
    """Ledgers of two sizes, one directory; then two directories in two processes."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        for each in LEDGER_ENTRIES:
            part = _part(generate(Path(folder, str(each)), ENTRIES, each))
            yield from _beside_plain_scans(part, each)
        other = replace(part.directories[0], path=f"{folder}/other")
        shutil.copytree(part.directories[0].path, other.path)
        yield _two_directories([part, _part(other)], LEDGER_ENTRIES[-1])


def _beside_plain_scans(part: IndexPart, each: int) -> Iterator[Line]:
    directory = part.directories[0].path
    _check(part, each)
    ours, arrow, iterated = alternate(
        lambda: _rows(part), lambda: _arrow(directory), lambda: _iterated(directory)
    )
    stage = f"RocksDB, ledgers of {each:,} entries, to rows"
    yield Line(stage, ENTRIES, "entries", ours, "plain Arrow scan", ENTRIES, arrow, target=0.8)
    yield Line(
        f"  {each:,} entries", ENTRIES, "entries", ours, "plain iteration (rocksdict)", ENTRIES, iterated
    )


def _two_directories(both: Sequence[IndexPart], each: int) -> Line:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:

        def run(groups: Sequence[Sequence[IndexPart]]) -> None:
            asked = [pool.submit(_all_rows, group) for group in groups]
            wait(asked)
            if sum(each.result() for each in asked) != 2 * -(-ENTRIES // each):
                sys.exit("rocksdb: the directories do not add up")

        run([both[:1], both[1:]])  # starts the processes
        two, one = alternate(lambda: run([both[:1], both[1:]]), lambda: run([both]))
    stage = "RocksDB, two directories in two processes"
    return Line(stage, 2 * ENTRIES, "entries", two, "in one", 2 * ENTRIES, one, target=1.7)


def generate(root: Path, entries: int, each: int) -> IndexDirectory:
    """Write a bookie's index directory, ``root``: ``entries`` entries, ``each`` of them in a ledger."""
    (root / "current").mkdir(parents=True)
    (root / "current" / "VERSION").write_bytes(b"5\n")
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.lz4())
    with_locations = Rdict(str(root / "current" / "locations"), options)
    number = np.arange(entries)
    keys = np.stack((number // each, _entries(each)[number % each]), axis=1).astype(">i8")
    values = (number * 1000 + 1028).astype(">i8")
    for start in range(0, entries, BATCH):
        batch = WriteBatch(raw_mode=True)
        for key, value in zip(keys[start : start + BATCH], values[start : start + BATCH], strict=True):
            batch.put(key.tobytes(), value.tobytes())
        with_locations.write(batch)
    with_locations.flush()
    with_locations.compact_range(None, None)
    with_locations.close()
    ledgers = Rdict(str(root / "current" / "ledgers"), Options(raw_mode=True))
    for ledger in range(-(-entries // each)):
        ledgers[ledger.to_bytes(8, "big")] = bytes.fromhex("080110001a14") + bytes(20)
    ledgers.close()
    return IndexDirectory.seen(str(root), b"5\n", ROCKSDB)


def _entries(each: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The entries of a ledger that this bookie holds."""
    return np.arange(each) * 3 // 2


def _part(directory: IndexDirectory) -> IndexPart:
    [part] = plan_parts([("bookie", [directory])], 1)
    return part


def _rows(part: IndexPart) -> int:
    return sum(len(batch) for batch in read_part(part))


def _all_rows(all_parts: Sequence[IndexPart]) -> int:
    return sum(map(_rows, all_parts))


def _arrow(directory: str) -> None:
    database = pyrex.PyRocksDB(f"{directory}/current/locations", read_only=True)
    if sum(map(len, pa.RecordBatchReader.from_stream(database.scan_arrow()))) != ENTRIES:
        sys.exit("rocksdb: the plain Arrow scan saw something else")
    database.close()


def _iterated(directory: str) -> None:
    database = Rdict(f"{directory}/current/locations", Options(raw_mode=True))
    if sum(1 for _ in database.items()) != ENTRIES:
        sys.exit("rocksdb: plain iteration saw something else")
    database.close()


def _check(part: IndexPart, each: int) -> None:
    """Every ledger must have the same entries, or the time says nothing."""
    expected = fold_entries(_entries(each), np.array([0, each])).tobytes()
    found = [row for batch in read_part(part) for row in batch["groups"].to_pylist()]
    if found != [expected] * -(-ENTRIES // each):
        sys.exit("rocksdb: ours are not the entries that were written")
