"""Opens regular files for reading, and nothing else.

``open`` of a named pipe waits for a writer, for ever where none comes; a device gives bytes without end. What
stands where a file should be and is none is an `OSError` here at once. A link to a regular file is one:
operators keep data behind links.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from auditor.errors import UsageError

StrPath = str | bytes | os.PathLike[str]

# A pipe is then opened without a writer; of a regular file the flag means nothing.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class NotRegularError(OSError):
    """What stands there is no regular file, and no directory either; ``strerror`` says what it is."""

    strerror: str

    def __str__(self) -> str:
        """Without a number, which would say less, and the path, which every message has."""
        return self.strerror


def open_descriptor(path: StrPath) -> tuple[int, os.stat_result]:
    """An open file and its state; to be closed by hand. Raises OSError."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            require_regular(path)
        raise
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise _refusal(path, state)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, state


def open_regular(path: StrPath) -> io.BufferedReader:
    """A file, as ``open(path, "rb")`` gives it. Raises OSError."""
    return open(path, "rb", opener=lambda name, _: open_descriptor(name)[0])


def read_regular(path: StrPath) -> bytes:
    """All bytes of a file. Raises OSError.

    >>> read_regular("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'
    """
    with open_regular(path) as file:
        return file.read()


def require_regular(path: StrPath) -> None:
    """For what a library opens by its path. Raises OSError.

    >>> require_regular("/dev/null")
    Traceback (most recent call last):
    auditor.sources.regular_file.NotRegularError: a character device, not a regular file
    """
    state = Path(os.fsdecode(path)).stat()
    if not stat.S_ISREG(state.st_mode):
        raise _refusal(path, state)


def _refusal(path: StrPath, state: os.stat_result) -> OSError:
    if stat.S_ISDIR(state.st_mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = _KINDS.get(stat.S_IFMT(state.st_mode), "something else")
    return NotRegularError(errno.EINVAL, f"{kind}, not a regular file", path)


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a TOML file says.

    >>> read_toml("nowhere.toml")
    Traceback (most recent call last):
    auditor.errors.UsageError: nowhere.toml: No such file or directory

    Raises:
        UsageError: no such file, or not TOML; the message names the file.
    """
    try:
        return tomllib.loads(read_regular(path).decode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
