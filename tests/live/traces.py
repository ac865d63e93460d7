"""What an audit could have left behind: changed files of bookies, and writes to the metadata store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tests.live.scenario import LiveCluster

# RocksDB's own log of a running bookie, which it writes to by the clock.
WRITTEN_ANYWAY = ("LOG",)


@dataclass(frozen=True)
class Traces:
    """The files of all bookies (path: size, mtime in ns, SHA-256), and the store's newest transaction."""

    files: dict[str, tuple[int, int, str]]
    position: int


def traces(cluster: LiveCluster) -> Traces:
    files = {}
    for path in sorted(cluster.bookies.directory.rglob("*")):
        if path.is_file() and path.name not in WRITTEN_ANYWAY:
            status, digest = path.stat(), hashlib.sha256(path.read_bytes()).hexdigest()
            files[str(path)] = (status.st_size, status.st_mtime_ns, digest)
    return Traces(files, cluster.metadata.position())
