"""Speed of reading index files to finished rows, compared with the simplest readers of the same files.

The small files belong to one bookie with striped entries (E3 Qw2). There are 20,000 of them, with one or
two pages each. Each file has its own directory, as the server places them. The large files have 80 MB each:
one is dense, one is striped, and one has a tenth of its entries missing.

``xargs cat`` and ``np.fromfile`` get a list of the small files. This program is therefore measured once
with that list, and once when it lists the files itself. A pipeline with ``find`` is the rival that also
lists files. The line of the system calls alone has the least time that any reader needs. All files are in
the page cache, except for the cold line. Before each run of the cold line, the files' pages are dropped,
but the pages of directories are not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from auditor.codecs.availability.fold import fold_slots
from auditor.keys import index_path
from auditor.keys.index_path import ledger_ids
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.index_files.listing import BATCH_FILES
from auditor.sources.bookies.part_rows import RowBuilder, read_files, read_part
from auditor.sources.bookies.parts import IndexDirectory, IndexPart, plan_parts
from benchmarks.measure import Line, alternate, drop_pages

FILE_COUNT = 20_000
LARGE_ENTRIES = 10_000_000
PAGE_BYTES = 8192
THREADS = 4
ROUNDS = 5
INDEX_HEADER = b"BKLE".ljust(1024, b"\0")
VERSION_FILE_BYTES = b"5\n"


def lines() -> Iterator[Line]:
    """Yield lines for small files (warm, cold, in two processes) and for large files."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        small_files, large_files = Path(folder, "small"), Path(folder, "large")
        paths = _write_small_files(small_files)
        listing = Path(folder, "list")
        listing.write_bytes(b"\0".join(paths))
        os.sync()
        _check_equal_rows(small_files, paths)
        yield from _measure_warm(small_files, paths, listing)
        yield _measure_cold(small_files, paths, listing)
        yield _measure_two_processes(small_files)
        yield _measure_large_files(large_files)


def _measure_warm(directory: Path, paths: list[bytes], listing: Path) -> Iterator[Line]:
    part = _index_part(directory)
    own_seconds, list_seconds, syscall_seconds, cat_seconds, find_seconds, numpy_seconds = alternate(
        lambda: _count_rows(part),
        lambda: _read_given_files(paths),
        lambda: _make_system_calls(paths),
        lambda: _cat_files(listing),
        lambda: _find_and_cat(directory),
        lambda: _fold_one_by_one(paths),
        rounds=ROUNDS,
    )
    rival_text = ("xargs -0 cat", FILE_COUNT, cat_seconds)
    yield Line(
        "small index files, listed and read to rows", FILE_COUNT, "files", own_seconds, *rival_text, 1, 1.5
    )
    yield Line(
        "  beside who lists too",
        FILE_COUNT,
        "files",
        own_seconds,
        "find, xargs -0 cat",
        FILE_COUNT,
        find_seconds,
        1,
        1.5,
    )
    yield Line(
        "  the system calls alone",
        FILE_COUNT,
        "files",
        syscall_seconds,
        *rival_text,
        note="the most that can be had",
    )
    yield Line("  from the list that xargs has", FILE_COUNT, "files", list_seconds, *rival_text, 1, 1.5)
    rival_text = ("np.fromfile and fold, a file at a time", FILE_COUNT, numpy_seconds)
    yield Line("  from the list", FILE_COUNT, "files", list_seconds, *rival_text, goal=4)


def _measure_cold(directory: Path, paths: list[bytes], listing: Path) -> Line:
    part = replace(_index_part(directory), threads=THREADS)
    own_seconds, cat_seconds = alternate(
        lambda: _count_rows(part), lambda: _cat_files(listing), prepare_run=lambda: drop_pages(paths)
    )
    stage = f"small index files, cold, {THREADS} threads"
    return Line(
        stage, FILE_COUNT, "files", own_seconds, "xargs -0 cat", FILE_COUNT, cat_seconds, goal=1.5, target=2.5
    )


def _measure_two_processes(directory: Path) -> Line:
    one_part, two_parts = [_index_part(directory)], _index_parts(directory, 2)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:

        def read_in_pool(all_parts: Sequence[IndexPart]) -> None:
            futures = [pool.submit(_count_rows, part) for part in all_parts]
            wait(futures)
            if sum(future.result() for future in futures) != FILE_COUNT:
                sys.exit("index: the parts do not add up")

        read_in_pool(two_parts)  # starts the processes
        two_process_seconds, one_process_seconds = alternate(
            lambda: read_in_pool(two_parts), lambda: read_in_pool(one_part)
        )
    stage = "small index files, two processes"
    return Line(
        stage,
        FILE_COUNT,
        "files",
        two_process_seconds,
        "one process",
        FILE_COUNT,
        one_process_seconds,
        target=1.7,
    )


def _measure_large_files(directory: Path) -> Line:
    paths = _write_large_files(directory)
    index_bytes = sum(os.path.getsize(path) for path in paths)  # noqa: PTH202
    part = _index_part(directory)
    command = f"cat {' '.join(map(os.fsdecode, paths))} | wc -c"

    def cat_all_files() -> None:
        if int(subprocess.check_output(command, shell=True)) != index_bytes:
            sys.exit("index: cat saw something else")

    _count_rows(part)
    own_seconds, cat_seconds = alternate(lambda: _count_rows(part), cat_all_files)
    stage = "large index files: dense, striped, holes"
    return Line(
        stage, index_bytes, "B", own_seconds, "cat | wc -c", index_bytes, cat_seconds, goal=0.3, target=0.5
    )


def _write_small_files(directory: Path) -> list[bytes]:
    index_body = np.zeros(2 * PAGE_BYTES // 8, ">i8")
    index_body[0::3] = index_body[1::3] = 1028
    file_contents = [INDEX_HEADER + index_body.tobytes()[: PAGE_BYTES * page_count] for page_count in (1, 2)]
    paths = [_write_index_file(directory, ledger, file_contents[ledger % 2]) for ledger in range(FILE_COUNT)]
    (directory / "current" / "VERSION").write_bytes(VERSION_FILE_BYTES)
    return paths


def _write_large_files(directory: Path) -> list[bytes]:
    entries = np.arange(LARGE_ENTRIES)
    entry_masks = (entries >= 0, entries % 3 != 1, np.random.default_rng(7).random(LARGE_ENTRIES) >= 0.1)
    paths = [
        _write_index_file(
            directory,
            ledger,
            INDEX_HEADER + np.where(entry_mask, 1000 * entries + 1028, 0).astype(">i8").tobytes(),
        )
        for ledger, entry_mask in enumerate(entry_masks)
    ]
    (directory / "current" / "VERSION").write_bytes(VERSION_FILE_BYTES)
    return paths


def _write_index_file(directory: Path, ledger: int, content: bytes) -> bytes:
    file = directory / "current" / index_path.to_path(ledger)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return os.fsencode(file)


def _index_parts(directory: Path, count: int) -> list[IndexPart]:
    return plan_parts([("bookie", [IndexDirectory.from_version(str(directory), VERSION_FILE_BYTES)])], count)


def _index_part(directory: Path) -> IndexPart:
    [part] = _index_parts(directory, 1)
    return part


def _count_rows(part: IndexPart) -> int:
    return sum(len(batch) for batch in read_part(part))


def _read_given_files(paths: list[bytes]) -> RowBuilder:
    """Read the listed files to rows, without the program's own listing."""
    path_pieces = (paths[start : start + BATCH_FILES] for start in range(0, len(paths), BATCH_FILES))
    rows = RowBuilder("bookie", "idx")
    for batch in read_files(
        (IndexFiles(ledger_ids(path_piece), path_piece) for path_piece in path_pieces), 1
    ):
        rows.add_files(batch)
    return rows


def _fold_one_by_one(paths: list[bytes]) -> list[bytes]:
    packed_groups = []
    for path in paths:
        slots = np.fromfile(path, np.int64, offset=len(INDEX_HEADER))
        packed_groups.append(fold_slots(slots, np.array([0, len(slots)], np.int64)).tobytes())
    return packed_groups


def _cat_files(listing: Path) -> None:
    with listing.open("rb") as names:
        subprocess.run(["xargs", "-0", "cat"], stdin=names, stdout=subprocess.DEVNULL, check=True)


def _find_and_cat(directory: Path) -> None:
    command = 'find "$0" -name "*.idx" -print0 | xargs -0 cat'
    subprocess.run(["sh", "-c", command, directory], stdout=subprocess.DEVNULL, check=True)


def _make_system_calls(paths: list[bytes]) -> None:
    """Make only the system calls of a reader: list, open, stat, read and close. Ignore their results."""
    read_buffers = [bytearray(4 * PAGE_BYTES)]
    for path in paths:
        os.listdir(path[: path.rindex(b"/")])  # noqa: PTH208 -- the same call as in the program
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.fstat(descriptor)
        os.preadv(descriptor, read_buffers, 0)
        os.close(descriptor)


def _check_equal_rows(directory: Path, paths: list[bytes]) -> None:
    """End the benchmark if the different ways to read give different rows."""
    groups_by_path = dict(zip(map(os.fsdecode, paths), _fold_one_by_one(paths), strict=True))
    batches_by_way = (
        list(read_part(_index_part(directory))),
        [_read_given_files(paths).take_batch()],
        [batch for part in _index_parts(directory, 2) for batch in read_part(part)],
    )
    for part_batches in batches_by_way:
        columns = [
            [row for batch in part_batches for row in batch[name].to_pylist()] for name in ("path", "groups")
        ]
        rows = list(zip(*columns, strict=True))
        if len(rows) != FILE_COUNT or dict(rows) != groups_by_path:
            sys.exit("index: ours and one numpy call a file disagree")
