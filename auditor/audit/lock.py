"""Lock against two simultaneous runs of the same cluster with run directories in the same parent directory.

Two audits at the same time would read the cluster's store at twice the configured rate. Neither could
compare its findings with those of the other. A run therefore holds ``flock`` on a hidden file next to its run
directory. Each cluster has its own file. The kernel releases the lock when the process ends, even after a
crash. The file names the process that holds the lock. The run deletes the file when it releases the lock.
If the run was killed, the next run or `bkaudit prune` deletes the file.

Local paths and NFS mounts support the lock. Runs can overlap if the path is a URI of another file system,
or if the kernel has no locks. The scheduler must then prevent that (``concurrencyPolicy: Forbid``, or
``max_active_runs=1``).
"""

import errno
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from auditor.errors import LockedError, path_error
from auditor.sources.clock import now_ms
from auditor.sources.metadata.uri import MetadataUri, parse_metadata_uri
from auditor.sources.regular_file import NotRegularError, open_descriptor

NO_LOCK_ERRNOS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Error numbers of file systems that support no locks."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock: its process id, its host, its start time (ms, UTC), and its run directory."""

    pid: int
    host: str
    since: int
    run: str

    def __str__(self) -> str:
        """Return the holder as a phrase for messages.

        >>> str(Holder(42, "audits.example", 1795244400000, "/runs/today"))
        'process 42 on audits.example, started at 2026-11-21T07:00:00Z, writing to /runs/today'
        """
        start_text = datetime.fromtimestamp(self.since / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"process {self.pid} on {self.host}, started at {start_text}, writing to {self.run}"


def lock_file(metadata: str | MetadataUri, out: str) -> Path | None:
    """Return the cluster's lock file in the parent directory of ``out``, or None if ``out`` is a URI.

    The path of the file depends neither on the order of the URI's hosts nor on its layout suffix.

    >>> one = lock_file("zk://h1:2181;h2:2181/ledgers", "/runs/today")
    >>> other = lock_file("zk+flat://h2:2181,h1:2181/ledgers", "/runs/tomorrow")
    >>> str(one.parent), one == other
    ('/runs', True)
    >>> lock_file("zk://h1:2181/ledgers", "s3://bucket/runs/today") is None
    True
    """
    if "://" in out:
        return None
    parsed_uri = parse_metadata_uri(metadata)
    cluster_json = json.dumps([parsed_uri.scheme, sorted(parsed_uri.hosts), parsed_uri.path, parsed_uri.root])
    name = hashlib.sha256(cluster_json.encode()).hexdigest()[:16]
    return Path(out).absolute().parent.resolve() / f".bkaudit-{name}.lock"


@contextmanager
def run_lock(metadata: str | MetadataUri, out: str) -> Iterator[None]:
    """Hold the lock of a run while the ``with`` block runs.

    Raises:
        LockedError: another run holds the lock. The message names that run and what to do.
        RunError: the parent directory of the run is not writable.
    """
    path = lock_file(metadata, out)
    if path is None:
        yield
        return
    descriptor = _open_and_lock(path, out)
    try:
        _write_holder(descriptor, Holder(os.getpid(), socket.gethostname(), now_ms(), out))
        try:
            yield
        finally:
            with suppress(OSError):  # without write permission, the file stays until `bkaudit prune`
                path.unlink()
    finally:
        os.close(descriptor)


def read_lock_holder(metadata: str | MetadataUri, out: str) -> Holder | None:
    """Return the current holder of the lock, or None if no run holds it or the lock file is unreadable.

    >>> read_lock_holder("zk://h1:2181/ledgers", "/no/such/place/today") is None
    True
    """
    path = lock_file(metadata, out)
    if path is None:
        return None
    try:
        descriptor, _ = open_descriptor(path)
    except (FileNotFoundError, PermissionError, NotRegularError):
        return None
    try:
        return None if _try_lock(descriptor, fcntl.LOCK_SH) else _read_holder(descriptor)
    finally:
        os.close(descriptor)


def _open_and_lock(path: Path, out: str) -> int:
    """Open and lock the lock file, and return its descriptor. The caller closes it.

    Raises:
        LockedError: another run holds the lock.
    """
    while True:
        descriptor = _open_lock_file(path, out)
        try:
            if not _try_lock(descriptor, fcntl.LOCK_EX):
                raise LockedError(
                    f"--out {out}: another run of this cluster is already running "
                    f"({_read_holder(descriptor) or path}). Wait until it ends, or end it. If you end it, "
                    "repeat its command later to resume it from its finished tables"
                )
            if _is_file_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # The file was deleted before the lock was taken. The next run would lock a new file: try again.
        os.close(descriptor)


def _is_file_at(descriptor: int, path: Path) -> bool:
    """Return whether the open file is still at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _open_lock_file(path: Path, out: str) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        failed_path = error.filename or path
        raise path_error(
            error, f"--out {out}: {failed_path} cannot be created or written: {error.strerror}"
        ) from error


def _try_lock(descriptor: int, lock_kind: int) -> bool:
    """Take the lock without waiting. Return False if another process holds it.

    If the file system does not support locks, returns True without a lock.
    """
    try:
        fcntl.flock(descriptor, lock_kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCK_ERRNOS:
            raise
    return True


def _write_holder(descriptor: int, own_holder: Holder) -> None:
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(own_holder)).encode(), 0)


def _read_holder(descriptor: int) -> Holder | None:
    """Return the holder that the file names, or None if the holder has not written its data yet."""
    try:
        return Holder(**json.loads(os.pread(descriptor, 65536, 0)))
    except (ValueError, TypeError):
        return None
