"""Scratch directories: for this user alone, under a name that nobody guesses, and gone afterwards.

A process that is killed leaves its own behind. Each is locked as long as it is used, which ends with the
process, so that the next one knows what is left, in whatever container that was, and takes it away. Names
prove nothing, as people keep runs in directories called ``bkaudit-...``: a file in each says what it is.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PREFIX = "bkaudit-"
MARK = ".bkaudit-scratch"
LEFT_S = 60.0
"""A directory that is not locked yet may be one that was made just now; one of this age is not."""


@contextmanager
def scratch_directory(kind: str, parent: Path | None = None) -> Iterator[str]:
    """A directory ``bkaudit-KIND-...`` in another one, or among the temporary files.

    >>> with scratch_directory("example") as path:
    ...     oct(Path(path).stat().st_mode & 0o777)
    '0o700'
    >>> Path(path).exists()
    False

    Raises:
        OSError: it cannot be made.
    """
    parent = parent or Path(tempfile.gettempdir())
    remove_left(parent)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-", dir=parent) as path:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(path, MARK).touch()
            yield path
        finally:
            os.close(descriptor)


def lasting_directory(kind: str, parent: Path | None = None) -> str:
    """A scratch directory for what this process starts: it goes when the process ends. Raises OSError."""
    held = ExitStack()
    path = held.enter_context(scratch_directory(kind, parent))
    atexit.register(_leave, held)
    return path


def _leave(held: ExitStack) -> None:
    with suppress(OSError):  # what was started writes there still: the next process takes it away
        held.close()


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
