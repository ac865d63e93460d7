"""Every error this package raises on purpose.

    AuditorError
    ├── UsageError            2  an option, URI or configuration that is invalid
    │   ├── RunUsageError     2  a run, or a part of one, that is invalid; a RunError too
    │   └── LockedError       2  another audit or scan of this cluster runs beside this one
    ├── RunError              5  a run directory that is damaged
    ├── StoreError            4  a metadata store could not be read, or would not let us in
    │   ├── CompactedError    4  etcd no longer keeps the revision that was being read
    │   └── NoRootError       4  a metadata store has nothing where it was to be read
    ├── UnreadError           3  a bookie's directory or file could not be read
    │   └── DamagedError      3  a bookie's database that can be opened no more, or not to its end
    ├── DecodeError           5  bytes that do not follow their format
    ├── RuleError             5  bytes that follow their format and say what may not be
    ├── CoverageLimitError    3  sets of entries too irregular to compare within the bound
    ├── JavaMissingError      4  no Java runtime that Spark can use
    ├── SparkError            4  Spark could not be started, or its process has ended
    └── DiskFullError         4  there is no room for the run, or for Spark's scratch files

The number is the exit code of a command that ends with the error. Inside an audit most of them never end
anything: they become a row and a finding. Anything else that escapes is a bug.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

Value = TypeVar("Value")


class AuditorError(Exception):
    """Catch this to catch every deliberate failure."""

    exit_code: ClassVar[int] = 4


class UsageError(AuditorError):
    """An option, URI or configuration that is invalid; the message names it and the way out."""

    exit_code = 2


class LockedError(UsageError):
    """Another audit or scan of this cluster runs, into the same directory of runs."""


class RunError(AuditorError):
    """A run directory that cannot be read: the message names the file that is damaged, or not as written.

    Catch it for whatever is wrong with a run, `RunUsageError` too.
    """

    exit_code = 5


class RunUsageError(RunError, UsageError):
    """A run that is invalid: it is not there, another configuration or version wrote it, or what is
    asked for is not in it.

    >>> RunError.exit_code, RunUsageError.exit_code, issubclass(RunUsageError, UsageError)
    (5, 2, True)
    """

    exit_code = 2


class StoreError(AuditorError):
    """A metadata store could not be read, or would not let us in."""


class CompactedError(StoreError):
    """etcd no longer keeps the revision that was being read: what was read of it cannot be completed."""


class NoRootError(StoreError):
    """A metadata store can be read, and has nothing at the root that was named."""


class JavaMissingError(AuditorError):
    """No Java runtime that Spark can use was found."""


class SparkError(AuditorError):
    """Spark could not be started, or its process has ended; the message says where to look."""


class DiskFullError(AuditorError):
    """No space is left where a run is written, or where Spark keeps its scratch files."""


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


class DamagedError(UnreadError):
    """A bookie's database whose files do not fit together, or fail their checksums.

    ``offset`` is the byte of the file ``path`` at fault, where it is known.

    >>> str(DamagedError("/data/ledgers0/current/locations/CURRENT", "not there"))
    '/data/ledgers0/current/locations/CURRENT: not there'
    """

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        super().__init__(path, reason)
        self.offset = offset


class CoverageLimitError(AuditorError):
    """Sets of entries so irregular that comparing them would pass the bound on work."""

    exit_code = 3


class DecodeError(AuditorError):
    """Bytes that do not follow their format.

    >>> str(DecodeError("availability", 64, "3 groups promised, 2 present"))
    'availability: 3 groups promised, 2 present (at byte 64)'
    """

    exit_code = 5

    def __init__(self, what: str, offset: int, reason: str) -> None:
        super().__init__(what, offset, reason)
        self.what = what
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.what}: {self.reason} (at byte {self.offset})"


class RuleError(AuditorError, Generic[Value]):
    """Bytes that follow their format and say what may not be; the parsed value comes along.

    ``rule`` is the id of the broken rule, a check's id where there is one.

    >>> str(RuleError("ledger metadata", "quorum-invalid", "write quorum 3 is above ensemble size 2", None))
    'ledger metadata: write quorum 3 is above ensemble size 2'
    """

    exit_code = 5

    def __init__(self, what: str, rule: str, reason: str, value: Value) -> None:
        super().__init__(what, rule, reason, value)
        self.what = what
        self.rule = rule
        self.reason = reason
        self.value = value

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"
