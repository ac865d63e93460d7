"""Speed of scanning an entry log's headers, compared with ``cat``, and of reading ledgers maps.

The scanned file is an entry log that was not closed. It has 2,000,000 entries of 1 kB, in which fifty
ledgers take turns. The scan and ``cat`` read it from the page cache. The ledgers maps belong to 2,000
generated logs of 1 GB with 200 ledgers each. These logs are closed, and their files have a hole in place of
the entries. In the last case, one process reads 100,000 of these logs (100 TB). It makes the rows of a run
from them, as a task does. The note reports the memory of the process.
"""

from __future__ import annotations

import resource
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from auditor.codecs.bookie.entry_log import HEADER_BYTES, MAGIC, NEWEST_VERSION
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of
from auditor.sources.bookies.entry_logs.reader import read_contents
from auditor.sources.bookies.parts import IndexDirectory
from benchmarks.measure import Line, alternate, cat

ENTRIES = 2_000_000
ENTRY_BYTES = 1000
LEDGERS = 50
LOG_COUNT = 2000
LOG_BYTES = 1_000_000_000
LOG_LEDGERS = 200
MANY_LOG_COUNT = 100_000

_ENTRY_HEADER = struct.Struct(">iqq")


def lines() -> Iterator[Line]:
    """Yield lines for the header scan of one log, the maps of many logs, and the rows of many logs."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        path = write_open_log(Path(folder, "0.log"), ENTRIES)
        file_bytes = path.stat().st_size
        own_seconds, cat_seconds = alternate(lambda: _scan_open_log(path), lambda: cat(path))
        note = f"{file_bytes / 1e9:.1f} GB in {own_seconds:.1f} s; cat takes {cat_seconds:.1f} s"
        stage = "entry log of 1 kB entries, to bytes per ledger"
        yield Line(stage, ENTRIES, "entries", own_seconds, "cat", ENTRIES, cat_seconds, target=0.5, note=note)
        path.unlink()
        paths = [
            write_closed_log(Path(folder, f"{log_number:x}.log"), log_number)
            for log_number in range(LOG_COUNT)
        ]
        own_seconds, open_seconds = alternate(lambda: _read_maps(paths), lambda: _read_log_ends(paths))
        note = "beside opening each and reading 4 kB at its start and 4 kB at its end"
        yield Line(
            "ledgers maps",
            LOG_COUNT,
            "logs",
            own_seconds,
            "open",
            LOG_COUNT,
            open_seconds,
            target=0.1,
            note=note,
        )
        yield _measure_many_logs(Path(folder), paths)


def _measure_many_logs(folder: Path, paths: list[Path]) -> Line:
    """Read a directory of `MANY_LOG_COUNT` entry logs to rows.

    The files are hard links to a few logs, because so many separate files would need a large disk.
    """
    current_directory = folder / "ledgers" / "current"
    current_directory.mkdir(parents=True)
    for log_number in range(MANY_LOG_COUNT):
        (current_directory / f"{log_number * 64 + 1:x}.log").hardlink_to(
            paths[log_number % len(paths)]
        )  # skips verified ids
    version_sha256 = IndexDirectory.from_version("", None).version_sha256
    log_part = LogPart("bk1", 0, str(current_directory.parent), version_sha256)
    memory_before_kib, start_time = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    rows = sum(batch.num_rows for batch in read_logs_of(log_part))
    read_seconds = time.perf_counter() - start_time
    if rows != MANY_LOG_COUNT * (LOG_LEDGERS + 1):
        sys.exit("entry log: ours are not the rows of the logs")
    growth_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before_kib
    log_terabytes = MANY_LOG_COUNT * LOG_BYTES / 1e12
    note = f"{rows:,} rows of {log_terabytes:,.0f} TB; memory grew by {growth_kib / 1024:.0f} MB"
    return Line("entry logs of 1 GB, to rows", MANY_LOG_COUNT, "logs", read_seconds, note=note)


def write_open_log(path: Path, entries: int) -> Path:
    """Write an entry log that was not closed: it has no ledgers map."""
    payload = bytes(ENTRY_BYTES - 16)
    with path.open("wb") as file:
        file.write(struct.pack(">4si", MAGIC, NEWEST_VERSION).ljust(HEADER_BYTES, b"\0"))
        for first_offset in range(0, entries, 1000):
            numbers = range(first_offset, min(first_offset + 1000, entries))
            entry_headers = (
                _ENTRY_HEADER.pack(ENTRY_BYTES, log_number % LEDGERS, log_number // LEDGERS)
                for log_number in numbers
            )
            file.write(b"".join(entry_header + payload for entry_header in entry_headers))
    return path


def write_closed_log(path: Path, log_number: int) -> Path:
    """Write the header and the ledgers map of a closed entry log, with a hole in place of the entries."""
    ledger_bytes = (LOG_BYTES - HEADER_BYTES) // LOG_LEDGERS
    offset = HEADER_BYTES + ledger_bytes * LOG_LEDGERS
    header = struct.pack(">4siqi", MAGIC, NEWEST_VERSION, offset, LOG_LEDGERS)
    # The ledgers map is stored as an entry of ledger -1 with entry id -2: a count, then (ledger, size) pairs.
    pairs = b"".join(
        struct.pack(">qq", log_number * 7 + ledger, ledger_bytes) for ledger in range(LOG_LEDGERS)
    )
    with path.open("wb") as file:
        file.write(header)
        file.seek(offset)
        file.write(struct.pack(">iqqi", 20 + len(pairs), -1, -2, LOG_LEDGERS) + pairs)
    return path


def _scan_open_log(path: Path) -> None:
    log_contents = read_contents(str(path))
    if log_contents.entries.tolist() != [ENTRIES // LEDGERS] * LEDGERS:
        sys.exit("entry log: ours are not the entries that were written")


def _read_maps(paths: list[Path]) -> None:
    if sum(len(read_contents(str(path)).ledger_ids) for path in paths) != LOG_COUNT * LOG_LEDGERS:
        sys.exit("entry log: ours are not the maps that were written")


def _read_log_ends(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb", buffering=0) as file:
            file.read(4096)
            file.seek(-4096, 2)
            file.read(4096)
