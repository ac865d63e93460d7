"""Traces that an audit could have left: changed files of bookies, and writes to the metadata store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tests.live.scenario import LiveCluster

# RocksDB's own log of a running bookie, which it writes to by the clock.
WRITTEN_ANYWAY = ("LOG",)


@dataclass(frozen=True)
class Traces:
    """All files and directories of the bookies, and the store's newest transaction.

    ``files``: by path, the inode, the size, the mtime in ns, and the SHA-256 of a file.
    """

    files: dict[str, tuple[int, int, int, str]]
    position: int


def traces(cluster: LiveCluster) -> Traces:
    files = {}
    for path in sorted(cluster.bookies.directory.rglob("*")):
        if path.name not in WRITTEN_ANYWAY:
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            status = path.stat()
            files[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns, digest)
    return Traces(files, cluster.metadata.position())
