"""How much a reader would have to read, found without reading: whether it is little."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.parts import ROCKSDB, IndexPart, list_current

HERE_S = 1.5
"""What one process reads in this time it has read before the processes of tasks have started."""
COPIED_BYTES = 64 << 20
"""Of collected tables, likewise: they are only copied."""
LOOK_S = 0.5
"""Where it takes longer to look, tasks read: the disk is slow, or nobody has looked at it for long."""
_FILE_S = 15e-6
_INDEX_FILE_BYTE_S, _OTHER_BYTE_S = 1 / 2e9, 1 / 130e6
"""Rough times of cached files, of each and of its bytes: index files are looked at, others decoded."""


def indexes_fit(parts: Iterable[IndexPart], most_s: float = HERE_S) -> bool:
    """Whether one process reads the indexes of all parts sooner than tasks begin to."""
    found = {(each.path, part.storage) for part in parts for each in part.directories}
    return _fit((place for path, storage in sorted(found) for place in _index_places(path, storage)), most_s)


def journals_fit(parts: Iterable[TailPart], most_s: float = HERE_S) -> bool:
    """Likewise of journals, whole, for where their marks are is not looked at here."""
    places = (Path(each.path, "current") for part in parts for each in part.directories)
    return _fit(((place, _OTHER_BYTE_S) for place in places), most_s)


def _index_places(path: str, storage: str) -> Iterator[tuple[Path, float]]:
    current = Path(path, "current")
    if storage == ROCKSDB:
        yield from ((current / name, _OTHER_BYTE_S) for name in ("ledgers", "locations"))
        return
    try:
        names = list_current(path)[0]
    except OSError:
        return  # whoever reads it says so
    yield from ((current / name, _INDEX_FILE_BYTE_S) for name in names)


def _fit(directories: Iterable[tuple[Path, float]], most_s: float) -> bool:
    """Whether what is below these directories takes no more than so long; no more is looked at than that."""
    left, begun = most_s, time.monotonic()
    for directory, byte_s in directories:
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
                        left -= _FILE_S + entry.stat().st_blocks * 512 * byte_s
                        if left < 0:
                            return False
            except OSError:
                continue
    return True
