"""All errors that this package raises on purpose.

    AuditorError
    ├── UsageError              2  an option, URI or configuration is invalid
    │   ├── RunUsageError       2  a run cannot be used; it is also a RunError
    │   └── LockedError         2  another audit or scan of this cluster is running
    ├── RunError                5  a run directory is damaged
    │   ├── RunUnreadableError  4  this process may not read a part of a run
    │   └── UnknownWordError    5  a table of a run contains a word that this version does not know
    ├── StoreError              4  a metadata store could not be read, or it refused the login
    │   ├── CompactedError      4  etcd no longer keeps the revision that was being read
    │   ├── UnsettledError      4  the servers of a store do not agree yet; a later attempt may succeed
    │   ├── TooLargeError       4  an answer of etcd exceeds the size limit of a message
    │   └── NoRootError         4  a metadata store has nothing at the given root
    ├── UnreadError             3  a bookie's directory or file could not be read
    │   ├── RefusedError        3  a bookie refuses all requests of this client
    │   └── DamagedError        3  a bookie's database cannot be opened, or cannot be read to its end
    ├── DecodeError             5  bytes do not follow their format
    ├── RuleError               5  bytes follow their format, but contain a forbidden value
    ├── CoverageLimitError      3  sets of entries are too irregular to compare within the limit
    ├── JavaMissingError        4  there is no Java runtime that Spark can use
    ├── SparkError              4  Spark could not be started, or its process has ended
    ├── DiskFullError           4  there is no space for the run, or for Spark's scratch files
    ├── OutputError             4  standard output cannot be written
    └── FileSystemError         4  the file system that an option's path is on fails

The number is the exit code of a command that ends with the error. Most of these errors do not end an audit.
The audit records them as a row and a finding. Any other exception that ends a command is a bug.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

RuleValue = TypeVar("RuleValue")


class AuditorError(Exception):
    """Base class of all errors that this package raises on purpose.

    If a Spark task fails, the driver receives only the text of the traceback. In a task, an error therefore
    stores its arguments in a note, which Python prints below the message. The driver recreates the error from
    this note.
    """

    exit_code: ClassVar[int] = 4
    _creation_arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Create the error, and store its arguments for `note`."""
        error = super().__new__(cls, *arguments)
        error._creation_arguments = arguments, options
        return error

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """Lines that Python prints below the message. Empty outside of Spark's Python workers."""
        is_in_worker = any(name.startswith(_WORKER_VARIABLE_PREFIX) for name in os.environ)
        return [self.note()] if is_in_worker else []

    def note(self) -> str:
        """Return the line from which `error_in_traceback` recreates the error."""
        arguments, options = self._creation_arguments
        note_fields = {"type": type(self).__name__, "arguments": arguments, "options": options}
        return f"{_NOTE_PREFIX}{json.dumps(note_fields, default=lambda _: None)}"


_WORKER_VARIABLE_PREFIX = "PYTHON_WORKER_FACTORY_"
"""Prefix of environment variables that Spark sets for its Python workers, but not for the driver."""

_NOTE_PREFIX = "auditor error: "
_TRACEBACK_START = "Traceback (most recent call last):"


def error_in_traceback(text: str) -> AuditorError | None:
    """Return the error that ended a task, from a text that has the traceback.

    Returns None if the last exception of the text is not an `AuditorError`. Values other than text and
    numbers are lost, such as the value of a `RuleError`.

    >>> error = DamagedError("/l/1.sst", "cut", offset=7)
    >>> found = error_in_traceback(f"Traceback (most recent call last):\\n{error}\\n{error.note()}")
    >>> type(found).__name__, found.offset
    ('DamagedError', 7)
    """
    last_traceback = text[text.rfind(_TRACEBACK_START) + 1 :]
    notes = [line.strip() for line in last_traceback.splitlines() if line.strip().startswith(_NOTE_PREFIX)]
    if not notes:
        return _error_of_message(last_traceback)
    try:
        note_fields = json.loads(notes[-1].removeprefix(_NOTE_PREFIX))
        error_class = next(
            kind for kind in _error_classes(AuditorError) if kind.__name__ == note_fields["type"]
        )
        return error_class(*note_fields["arguments"], **note_fields["options"])
    except (ValueError, KeyError, TypeError, StopIteration):
        return None  # a line of data that looks like a note


def _error_of_message(text: str) -> AuditorError | None:
    """Recreate an error from a traceback that has the error's message, but no note.

    Returns None if the message alone is not enough to create the error.
    """
    for error_class in _error_classes(AuditorError):
        pattern = rf"^(?:.*\s)?{__name__}\.{error_class.__name__}: (.*)$"
        message_match = re.search(pattern, text, re.MULTILINE)
        if message_match is not None and error_class.__init__ is Exception.__init__:
            return error_class(message_match[1].rstrip())
    return None


def _error_classes(error_class: type[AuditorError]) -> list[type[AuditorError]]:
    return [
        error_class,
        *(descendant for subclass in error_class.__subclasses__() for descendant in _error_classes(subclass)),
    ]


WRONG_PATH_ERRNOS = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
        *(errno.EINVAL, errno.EFBIG),  # `auditor.sources.regular_file`: no regular file, and a file too long
    )
)
"""Errors of the operating system for a wrong path: the user has to change the option."""


def path_error(error: OSError, message: str) -> UsageError | FileSystemError:
    """Return the error to raise if the path in an option cannot be used.

    The error is a `UsageError` if the path itself is wrong, and a `FileSystemError` otherwise.

    >>> type(path_error(OSError(errno.ENOENT, "No such file"), "--racks x: No such file")).__name__
    'UsageError'
    >>> type(path_error(OSError(errno.ESTALE, "Stale file handle"), "--racks x: Stale file handle")).__name__
    'FileSystemError'
    """
    return UsageError(message) if error.errno in WRONG_PATH_ERRNOS else FileSystemError(message)


def system_error_text(error: OSError) -> str:
    """Return the path and the message of an error from the operating system.

    >>> system_error_text(FileNotFoundError(2, "No such file or directory", "/runs/1"))
    '/runs/1: No such file or directory'
    >>> system_error_text(OSError("Failed to open local file '/runs/1'"))
    "Failed to open local file '/runs/1'"
    """
    paths = [str(path) for path in (error.filename, error.filename2) if path is not None]
    error_text = error.strerror or str(error) or type(error).__name__
    return f"{' to '.join(paths)}: {error_text}" if paths else error_text


WRITE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))
"""Errors of the operating system that only occur when a file is written."""


@contextmanager
def name_file_in_errors(path: str | Path) -> Iterator[None]:
    """Name the file ``path`` in errors that occur while a ``with`` block writes it, such as a full disk.

    Python itself names a file only if opening it fails. The block may also read files. Errors that
    could come from them are not changed.

    >>> with name_file_in_errors("/runs/1"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: '/runs/1'
    """
    try:
        yield
    except OSError as error:
        if error.errno in WRITE_ERRNOS and error.filename is None:
            error.filename = str(path)
        raise


class UsageError(AuditorError):
    """An option, URI or configuration is invalid. The message names it, and says what to do."""

    exit_code = 2


class LockedError(UsageError):
    """Another audit or scan of this cluster is running and writes to the same directory of runs."""


class RunError(AuditorError):
    """A run directory cannot be read. The message names the file that is damaged or was changed.

    Catch this error to handle all faults of a run. It is also the base class of `RunUsageError`.
    """

    exit_code = 5


class RunUnreadableError(RunError):
    """The file system does not let this process read a part of a run. The part may be undamaged.

    >>> RunUnreadableError.exit_code
    4
    """

    exit_code = 4


class UnknownWordError(RunError, ValueError):
    """A table of a run contains a word that this version does not know.

    The table is damaged, or a different version of the program wrote it.
    """


class RunUsageError(RunError, UsageError):
    """A run that cannot be used.

    The run does not exist or lacks the requested part. Or it was written with a different configuration, or
    by a different version.

    >>> RunError.exit_code, RunUsageError.exit_code, issubclass(RunUsageError, UsageError)
    (5, 2, True)
    """

    exit_code = 2


class StoreError(AuditorError):
    """A metadata store could not be read, or it refused the login."""


class CompactedError(StoreError):
    """The read cannot be completed, because etcd no longer keeps the revision that was being read."""


class UnsettledError(StoreError):
    """Oxia's shards lack a leader, or their hash ranges have gaps or overlap. A later attempt may succeed."""


class TooLargeError(StoreError):
    """An answer of etcd exceeds the size limit of a message. `EtcdPages` then asks for smaller pages."""


class NoRootError(StoreError):
    """A metadata store can be read, but has nothing at the given root."""


class JavaMissingError(AuditorError):
    """No Java runtime that Spark can use was found."""


class SparkError(AuditorError):
    """Spark could not be started, or its process has ended. The message says where to look."""


class DiskFullError(AuditorError):
    """No space is left where a run is written, or where Spark keeps its scratch files."""


class FileSystemError(AuditorError):
    """The file system fails at the path of an option: no permission, not reachable, or full."""


class OutputError(AuditorError):
    """Standard output cannot be written, for a reason other than a closed pipe."""


class UnreadError(AuditorError):
    """A bookie's directory or file could not be read.

    >>> str(UnreadError("/data/ledgers0", "No such file or directory"))
    '/data/ledgers0: No such file or directory'
    """

    exit_code = 3

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class RefusedError(UnreadError):
    """A bookie refuses to serve this client with its credentials. Asking again does not help."""


class DamagedError(UnreadError):
    """The files of a bookie's database do not fit together, or a checksum is wrong.

    ``offset`` is the position of the first faulty byte in the file ``path``, or None if it is not known.

    >>> str(DamagedError("/data/ledgers0/current/locations/CURRENT", "not there"))
    '/data/ledgers0/current/locations/CURRENT: not there'
    """

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        super().__init__(path, reason)
        self.offset = offset


class CoverageLimitError(AuditorError):
    """Sets of entries are so irregular that comparing them would exceed the limit on work."""

    exit_code = 3


class DecodeError(AuditorError):
    """Bytes do not follow their format.

    >>> str(DecodeError("availability", 64, "3 groups declared, 2 present"))
    'availability: 3 groups declared, 2 present (at byte 64)'
    """

    exit_code = 5

    def __init__(self, format_name: str, offset: int, reason: str) -> None:
        super().__init__(format_name, offset, reason)
        self.what = format_name
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.what}: {self.reason} (at byte {self.offset})"


class RuleError(AuditorError, Generic[RuleValue]):
    """Bytes follow their format, but contain a forbidden value.

    ``rule`` is the id of the broken rule. A check that reports the broken rule has the same id. ``value``
    is the parsed value.

    >>> str(RuleError("ledger metadata", "quorum-invalid", "write quorum 3 is above ensemble size 2", None))
    'ledger metadata: write quorum 3 is above ensemble size 2'
    """

    exit_code = 5

    def __init__(self, format_name: str, rule: str, reason: str, value: RuleValue) -> None:
        super().__init__(format_name, rule, reason, value)
        self.what = format_name
        self.rule = rule
        self.reason = reason
        self.value = value

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"
