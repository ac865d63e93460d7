"""DbLedgerStorage's index: our rows a second beside plain scans of the same database, and beside its bytes.

python -m benchmarks.rocksdb [entries]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyrex
from rocksdict import DBCompressionType, Options, Rdict, WriteBatch

from auditor.sources.index_parts import ROCKSDB, IndexDirectory, parts
from auditor.sources.index_rows import read_part

LEDGER_ENTRIES = {"ledgers of 100,000 entries": 100_000, "ledgers of 20 entries": 20}
BATCH = 50_000


def generate(root: Path, entries: int, each: int) -> IndexDirectory:
    """A bookie's index of ``entries`` entries, two of three in each ledger, as the striping leaves them."""
    (root / "current").mkdir(parents=True)
    (root / "current" / "VERSION").write_bytes(b"5\n")
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.lz4())
    with_locations = Rdict(str(root / "current" / "locations"), options)
    number = np.arange(entries)
    keys = np.stack((number // each, number % each * 3 // 2), axis=1).astype(">i8")
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


def ours(directory: IndexDirectory) -> int:
    [part] = parts([("bk", [directory])], 1)
    return sum(len(batch) for batch in read_part(part))


def arrow(directory: IndexDirectory) -> int:
    database = pyrex.PyRocksDB(f"{directory.path}/current/locations", read_only=True)
    total = 0
    for batch in pa.RecordBatchReader.from_stream(database.scan_arrow()):
        total += len(batch)
    database.close()
    return total


def rocksdict(directory: IndexDirectory) -> int:
    database = Rdict(f"{directory.path}/current/locations", Options(raw_mode=True))
    total = sum(1 for _ in database.items())
    database.close()
    return total


def cat(directory: IndexDirectory) -> int:
    total = 0
    for path in Path(directory.path, "current", "locations").iterdir():
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                total += len(data)
    return total


def seconds(measured: Callable[[IndexDirectory], int], directory: IndexDirectory) -> tuple[float, float]:
    """By the clock and of the processor, each the best of three runs: other work slows the first down."""
    times = []
    for _ in range(3):
        begin = time.perf_counter(), time.process_time()
        assert measured(directory) > 0
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    clock, processor = zip(*times, strict=True)
    return min(clock), min(processor)


def main(entries: int) -> None:
    for name, each in LEDGER_ENTRIES.items():
        root = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"))
        try:
            directory = generate(root / "ledgers0", entries, each)
            print(f"{entries:,} entries, {name}, LZ4, {cat(directory) / 1e6:.0f} MB")
            titles = "".join(f"{title:>10}" for title in ("clock", "x plain", "processor", "x plain"))
            print(f"  {'million entries a second by':32}{titles}")
            plain = seconds(arrow, directory)
            for what, taken in (
                ("plain Arrow scan (pyrex)", plain),
                ("plain iteration (rocksdict)", seconds(rocksdict, directory)),
                ("reading the files", seconds(cat, directory)),
                ("ours, to rows of availability", seconds(ours, directory)),
            ):
                columns = (
                    f"{entries / t / 1e6:10.2f}{p / t:10.2f}" for t, p in zip(taken, plain, strict=True)
                )
                print(f"  {what:32}{''.join(columns)}")
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
