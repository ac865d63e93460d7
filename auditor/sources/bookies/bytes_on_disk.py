"""How much a reader would have to read, found without reading: whether files are few and small together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.parts import ROCKSDB, IndexPart, list_current

HERE_BYTES = 64 << 20
"""On disk: a fraction of a second to read for one process."""
_OF_FILE = 4096
"""What a file costs at least, in bytes of a larger one: it is opened."""


def indexes_fit(parts: Iterable[IndexPart], most: int = HERE_BYTES) -> bool:
    """Whether one process reads the indexes of all parts sooner than tasks begin to."""
    found = {(each.path, part.storage) for part in parts for each in part.directories}
    return _fit((place for path, storage in sorted(found) for place in _index_places(path, storage)), most)


def journals_fit(parts: Iterable[TailPart], most: int = HERE_BYTES) -> bool:
    """Likewise of journals, whole, for where their marks are is not looked at here."""
    return _fit((Path(each.path, "current") for part in parts for each in part.directories), most)


def _index_places(path: str, storage: str) -> list[Path]:
    current = Path(path, "current")
    if storage == ROCKSDB:
        return [current / "ledgers", current / "locations"]
    try:
        return [current / name for name in list_current(path)[0]]
    except OSError:
        return []  # whoever reads it says so


def _fit(directories: Iterable[Path], most: int) -> bool:
    """Whether what is below these directories is no more than so much; no more is looked at than that."""
    left, waiting = most, iter(directories)
    stack: list[str] = []
    while left >= 0:
        if not stack:
            following = next(waiting, None)
            if following is None:
                return True
            stack.append(str(following))
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    else:
                        left -= max(_OF_FILE, entry.stat().st_blocks * 512)
                    if left < 0:
                        break
        except OSError:
            continue
    return False
