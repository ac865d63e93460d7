"""A file system that fails below one path, for this process and for all processes that it starts.

Every process loads `faulty_files.c` before all other libraries. A mapped file tells all of them which calls
to fail, so that this can change between two calls. Afterwards the file shows how many calls failed.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("faulty_files.c")
VARIABLE = "FAULTY_FILES"
_LAYOUT = struct.Struct("=6i1024s")
"""As ``struct rule``: active, error, calls, skip, seen, fired, path."""

CALLS = {"open": 1, "read": 2, "write": 4, "sync": 8, "stat": 16, "list": 32, "change": 64, "close": 128}
"""Kinds of calls, by their bits. ``change``: mkdir, rename, unlink, and open to write."""


def compiler() -> str | None:
    """Return the path of a C compiler, or None if there is none."""
    return shutil.which("cc") or shutil.which("gcc")


def build(place: Path) -> dict[str, str]:
    """Build the library in a directory; return the environment variables that load it into a process."""
    library, rule = place / "faulty_files.so", place / "rule"
    tool = compiler()
    assert tool is not None, "no C compiler: apt-get install gcc"
    subprocess.run([tool, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    rule.write_bytes(_LAYOUT.pack(0, 0, 0, 0, 0, 0, b"").ljust(4096, b"\0"))
    return {"LD_PRELOAD": str(library), VARIABLE: str(rule)}


class FaultyFiles:
    """The rule for failing calls, in the file that an environment variable names."""

    def __init__(self) -> None:
        with Path(os.environ[VARIABLE]).open("r+b") as file:
            self._rule = mmap.mmap(file.fileno(), 4096)

    @contextmanager
    def failing(self, path: Path, error: int, calls: int, skip: int) -> Iterator[None]:
        """Make calls below a path fail while the block runs.

        Args:
            path: A file or a directory, absolute and without links.
            error: The errno.
            calls: The kinds of calls that fail, a sum of `CALLS`.
            skip: Number of calls that succeed before all others fail.
        """
        self._rule[: _LAYOUT.size] = _LAYOUT.pack(1, error, calls, skip, 0, 0, str(path).encode())
        try:
            yield
        finally:
            self._rule[:4] = struct.pack("=i", 0)

    def fired(self) -> int:
        """Return how many calls have failed since the last rule was set."""
        return int(_LAYOUT.unpack(self._rule[: _LAYOUT.size])[5])
