"""How fast index files are read, against `cat` of the same files and against one numpy call a file.

    python benchmarks/index.py [--files 20000] [--cold]

All three read the same generated files in alternation; the smallest of three times counts. `--cold` drops the
files' pages from the cache before each run, and adds the batch reader in several threads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from auditor.codecs.fold import fold_slots
from auditor.keys import index_path
from auditor.sources.index_batch import IndexFile
from auditor.sources.index_listing import list_part
from auditor.sources.index_parts import IndexDirectory, parts
from auditor.sources.index_threads import read_files

PAGE = 8192
REPEATS = 3


def generate(root: Path, count: int) -> IndexDirectory:
    """Write striped indexes (E3 Q2) of one or two pages, one bookie's."""
    header = b"BKLE".ljust(1024, b"\0")
    body = np.zeros(2 * PAGE // 8, ">i8")
    body[0::3] = body[1::3] = 1028
    for ledger in range(count):
        file = root / "current" / index_path.to_path(ledger)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(header + body.tobytes()[: PAGE * (1 + ledger % 2)])
    (root / "current" / "VERSION").write_bytes(b"5\n")
    return IndexDirectory.seen(str(root), b"5\n")


def batches(directory: IndexDirectory, threads: int = 1) -> int:
    """List and read everything with the batch reader."""
    files = (
        item
        for part in parts([("bookie", [directory])], 1)
        for item in list_part(part)
        if isinstance(item, IndexFile)
    )
    return sum(len(batch.groups.first) for batch in read_files(files, threads, want_mtime=False))


def one_by_one(paths: list[str]) -> int:
    """One np.fromfile and one fold a file."""
    groups = 0
    for path in paths:
        slots = np.fromfile(path, np.int64, offset=1024)
        groups += len(fold_slots(slots, np.array([0, len(slots)], np.int64)).first)
    return groups


def cat(listing: Path) -> int:
    """`xargs -0 cat` of the same list."""
    with listing.open("rb") as names:
        subprocess.run(["xargs", "-0", "cat"], stdin=names, stdout=subprocess.DEVNULL, check=True)
    return 0


def drop_pages(paths: list[str]) -> None:
    """Forget the files' pages; the directories' stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--files", type=int, default=20_000)
    arguments.add_argument("--cold", action="store_true")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = generate(Path(folder, "bookie"), options.files)
        paths = [f"{directory.path}/current/{index_path.to_path(ledger)}" for ledger in range(options.files)]
        listing = Path(folder, "list")
        listing.write_bytes(b"\0".join(map(os.fsencode, paths)))
        os.sync()
        runs: dict[str, Callable[[], int]] = {
            "batch reader, listing included": lambda: batches(directory),
            "xargs -0 cat > /dev/null": lambda: cat(listing),
            "np.fromfile + fold a file": lambda: one_by_one(paths),
        }
        if options.cold:
            runs["batch reader in 4 threads"] = lambda: batches(directory, 4)
            runs["batch reader in 8 threads"] = lambda: batches(directory, 8)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(REPEATS):
            for name, run in runs.items():
                if options.cold:
                    drop_pages(paths)
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    base = min(times["batch reader, listing included"])
    state = "pages dropped" if options.cold else "warm"
    print(f"{options.files} files, {state}, load {os.getloadavg()[0]:.1f}, smallest of {REPEATS}")
    print(f"{'':38} {'s':>7} {'files/s':>9} {'ours is':>8}")
    for name, taken in times.items():
        best = min(taken)
        print(f"{name:38} {best:7.3f} {options.files / best:9,.0f} {best / base:7.2f}x")


if __name__ == "__main__":
    main()
