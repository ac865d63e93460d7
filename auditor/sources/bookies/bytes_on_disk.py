"""How much a reader would have to read, told or found without reading: whether it is little."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.parts import ROCKSDB, IndexPart

HERE_S = 1.5
"""What one process reads in this time it has read before the processes of tasks have started."""
COPIED_BYTES = 64 << 20
"""Of collected tables, likewise: they are only copied."""
LOOK_S = 0.5
"""Where it takes longer to look, tasks read: the disk is slow, or nobody has looked at it for long."""
_INDEX_FILE_S, _FILE_S, _BYTE_S = 20e-6, 15e-6, 1 / 130e6
"""Rough times of cached files: of a small index file and all, of any other, and of the bytes of that."""


def indexes_fit(parts: Iterable[IndexPart], replicas: int, most_s: float = HERE_S) -> bool:
    """Whether one process reads the indexes of all parts sooner than tasks begin to.

    ``replicas`` is what metadata puts on these bookies. That is about as many index files: to look how many
    there are takes half as long as to read them.
    """
    found = {(each.path, part.storage) for part in parts for each in part.directories}
    files = any(storage != ROCKSDB for _, storage in found)
    databases = [path for path, storage in sorted(found) if storage == ROCKSDB]
    places = (Path(path, "current", name) for path in databases for name in ("ledgers", "locations"))
    return _fit(places, most_s - (_INDEX_FILE_S * replicas if files else 0))


def journals_fit(parts: Iterable[TailPart], most_s: float = HERE_S) -> bool:
    """Likewise of journals, whole, for where their marks are is not looked at here."""
    places = (Path(each.path, "current") for part in parts for each in part.directories)
    return _fit(places, most_s)


def _fit(directories: Iterable[Path], most_s: float) -> bool:
    """Whether what is below these directories takes no more than so long; no more is looked at than that."""
    left, begun = most_s, time.monotonic()
    if left < 0:
        return False
    for directory in directories:
        stack = [str(directory)]
        while stack:
            if time.monotonic() - begun > LOOK_S:
                return False
            try:
                with os.scandir(stack.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            stack.append(entry.path)
                            continue
                        left -= _FILE_S + entry.stat().st_blocks * 512 * _BYTE_S
                        if left < 0:
                            return False
            except OSError:
                continue
    return True
