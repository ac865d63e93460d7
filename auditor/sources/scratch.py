"""Scratch directories: for this user alone, under a name that nobody guesses, and gone afterwards.

A process that is killed leaves its own behind. Each is locked as long as it is used, which ends with the
process, so that the next one knows what is left, in whatever container that was, and takes it away. Names
prove nothing, as people keep runs in directories called ``bkaudit-...``: a file in each says what it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "bkaudit-"
MARK = ".bkaudit-scratch"
LEFT_S = 60.0
"""A directory that is not locked yet may be one that was made just now; one of this age is not."""


@contextmanager
def scratch_directory(kind: str) -> Iterator[str]:
    """A directory ``bkaudit-KIND-...`` among the temporary files; OSError where it cannot be made.

    >>> with scratch_directory("example") as path:
    ...     oct(Path(path).stat().st_mode & 0o777)
    '0o700'
    >>> Path(path).exists()
    False
    """
    remove_left(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-") as path:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(path, MARK).touch()
            yield path
        finally:
            os.close(descriptor)


def remove_left(parent: Path) -> None:
    """Take away what killed processes of this user left there, and nothing without the mark."""
    with os.scandir(parent) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # another's, no directory, or gone meanwhile
        try:
            state = os.fstat(descriptor)
            os.stat(MARK, dir_fd=descriptor)
            if state.st_uid == os.getuid() and time.time() - state.st_mtime >= LEFT_S:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(name, ignore_errors=True)
        except OSError:
            continue  # it is used, or no scratch directory
        finally:
            os.close(descriptor)
