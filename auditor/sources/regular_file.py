"""Functions that open regular files for reading, and refuse everything else.

The built-in ``open`` waits for a writer if the path is a named pipe, perhaps forever. A device can give
endless bytes. So these functions raise an `OSError` at once if a path is not a regular file. They accept a
link to a regular file, because operators keep data behind links.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from auditor.errors import UsageError, path_error

StrPath = str | bytes | os.PathLike[str]

# O_NONBLOCK opens a pipe without waiting for a writer. It does not affect a regular file.
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FILE_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class _ReasonError(OSError):
    strerror: str

    def __str__(self) -> str:
        """Return the reason without the path and the error number.

        The messages that contain this reason name the path already.
        """
        return self.strerror


class NotRegularError(_ReasonError):
    """Raised for a path that is neither a regular file nor a directory. ``strerror`` says what it is."""


class LongFileError(_ReasonError):
    """Raised for a file that is longer than the caller allows. ``strerror`` has the limit."""


def open_descriptor(path: StrPath) -> tuple[int, os.stat_result]:
    """Open a regular file, and return its descriptor and its status. Raises OSError.

    The caller must close the descriptor.
    """
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # the path is a socket
            require_regular(path)
        raise
    try:
        file_status = os.fstat(descriptor)
        if not stat.S_ISREG(file_status.st_mode):
            raise _not_regular_error(path, file_status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, file_status


def open_regular(path: StrPath) -> io.BufferedReader:
    """Open a regular file for reading, like ``open(path, "rb")``. Raises OSError."""
    return open(path, "rb", opener=lambda name, _: open_descriptor(name)[0])


def read_regular(path: StrPath) -> bytes:
    """Return all bytes of a regular file. Raises OSError.

    >>> read_regular("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'
    """
    with open_regular(path) as file:
        return file.read()


def read_at_most(file: BinaryIO, max_bytes: int) -> bytes:
    """Return the rest of an open file if it has at most ``max_bytes`` bytes.

    The limit is needed because a sparse file can be endless.

    Raises:
        LongFileError: the rest of the file is longer.
    """
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise LongFileError(errno.EFBIG, f"more than {max_bytes:,} bytes")
    return data


def require_regular(path: StrPath) -> None:
    """Check that a path is a regular file, before a library opens it. Raises OSError if it is not.

    >>> require_regular("/dev/null")
    Traceback (most recent call last):
    auditor.sources.regular_file.NotRegularError: a character device, not a regular file
    """
    file_status = Path(os.fsdecode(path)).stat()
    if not stat.S_ISREG(file_status.st_mode):
        raise _not_regular_error(path, file_status)


def _not_regular_error(path: StrPath, file_status: os.stat_result) -> OSError:
    if stat.S_ISDIR(file_status.st_mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    file_kind = _FILE_KINDS.get(stat.S_IFMT(file_status.st_mode), "something else")
    return NotRegularError(errno.EINVAL, f"{file_kind}, not a regular file", path)


def is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory. Raises OSError.

    For a link that leads to itself, return False.
    """
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def visible_path(path: str) -> str:
    r"""Return a path in a form for tables and messages, with escapes for bytes that are not UTF-8.

    >>> visible_path("/a/" + os.fsdecode(bytes([255])))
    '/a/\\udcff'
    """
    return path.encode(errors="backslashreplace").decode()


MAX_TOML_BYTES = 4 << 20
"""Largest TOML file to read, in bytes. Files written by people are smaller."""

_MAX_KEY_PARTS = 100
"""Largest number of parts of a dotted key. The parser's time grows with the square of this number."""

_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_TOO_DEEP_KEY = re.compile(rf"""(?<![\w.'"-])(?:{_KEY_PART}\.[ \t]*+){{{_MAX_KEY_PARTS}}}""")


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML.

    >>> parse_toml(b"a.b = 1")
    {'a': {'b': 1}}

    Raises:
        ValueError: the data is not TOML, or is nested too deeply. The message contains no values of the
            data.
    """
    try:
        toml_text = data.decode()
    except UnicodeDecodeError:
        # The error contains the text, perhaps a secret. So it must not be a cause of the new one.
        raise ValueError("the file is not UTF-8 text") from None
    if _TOO_DEEP_KEY.search(toml_text):
        raise ValueError(f"a key has more than {_MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(toml_text)
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file.

    >>> read_toml("nowhere.toml")
    Traceback (most recent call last):
    auditor.errors.UsageError: nowhere.toml: No such file or directory

    Raises:
        UsageError: the file does not exist or is not TOML. The message names the file.
    """
    try:
        with open_regular(path) as file:
            return parse_toml(read_at_most(file, MAX_TOML_BYTES))
    except OSError as error:
        raise path_error(error, f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
