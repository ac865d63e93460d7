"""Opens regular files for reading, and nothing else.

``open`` of a named pipe waits for a writer, for ever where none comes; a device gives bytes without end. What
stands where a file should be and is none is an `OSError` here at once. A link to a regular file is one:
operators keep data behind links.
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

# A pipe is then opened without a writer; of a regular file the flag means nothing.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class _PlainError(OSError):
    strerror: str

    def __str__(self) -> str:
        """Without a number, which would say less, and the path, which every message has."""
        return self.strerror


class NotRegularError(_PlainError):
    """What stands there is no regular file, and no directory either; ``strerror`` says what it is."""


class LongFileError(_PlainError):
    """A file has more bytes than any of its kind; ``strerror`` says how many are read."""


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


def read_at_most(file: BinaryIO, most: int) -> bytes:
    """All that is left of a file, which takes ``most`` bytes or fewer: it may be sparse, and endless.

    Raises:
        LongFileError: it has more.
    """
    data = file.read(most + 1)
    if len(data) > most:
        raise LongFileError(errno.EFBIG, f"more than {most:,} bytes")
    return data


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


def is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether a name leads to a directory; a link that leads to itself does not. Raises OSError."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def visible_path(path: str) -> str:
    r"""A path as tables and messages have it: bytes that are not UTF-8 are written out.

    >>> visible_path("/a/" + os.fsdecode(bytes([255])))
    '/a/\\udcff'
    """
    return path.encode(errors="backslashreplace").decode()


MAX_TOML_BYTES = 4 << 20
"""A file that people write is shorter."""

_DEEPEST = 100
"""Steps of one dotted key: Python's reader takes a time that grows with the square of them."""

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DEEP = re.compile(rf"""(?<![\w.'"-])(?:{_PART}\.[ \t]*+){{{_DEEPEST}}}""")


def parse_toml(data: bytes) -> dict[str, Any]:
    """What TOML says.

    >>> parse_toml(b"a.b = 1")
    {'a': {'b': 1}}

    Raises:
        ValueError: it is not TOML, or nested deeper than is sensible; the message repeats no value.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        # This error holds the text: not even the chain of causes may have it.
        raise ValueError("it is not UTF-8 text") from None
    if _DEEP.search(text):
        raise ValueError(f"a key of more than {_DEEPEST} steps")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a TOML file says.

    >>> read_toml("nowhere.toml")
    Traceback (most recent call last):
    auditor.errors.UsageError: nowhere.toml: No such file or directory

    Raises:
        UsageError: no such file, or not TOML; the message names the file.
    """
    try:
        with open_regular(path) as file:
            return parse_toml(read_at_most(file, MAX_TOML_BYTES))
    except OSError as error:
        raise path_error(error, f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
