"""The sample cluster: what four real BookKeeper 4.17.2 bookies and their ZooKeeper wrote, seeded with faults.

``sample/`` holds the metadata tree and the bookies' index files of a cluster whose entries, indexes and marks
were damaged on purpose; `auditor.demo.show` adds the kinds of trouble that this cluster did not have.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import tarfile
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

ROOT = "/ledgers"
INSTANCE_ID = "a77a8e0d-9cb6-4361-8771-ab58ad015219"
"""Of the sample cluster, and so of every run of it."""


@dataclass
class SampleCluster:
    """A cluster that can still be changed: its znodes by path, and its bookies' directories on disk."""

    bookies: Path
    znodes: dict[str, bytes] = field(default_factory=dict)
    ephemeral: set[str] = field(default_factory=set)

    def put(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        """Add or replace the znode at ``path`` below the root, with any parent that it lacks."""
        absolute = f"{ROOT}/{path}"
        parent = absolute.rpartition("/")[0]
        while parent not in self.znodes:
            self.znodes[parent] = b""
            parent = parent.rpartition("/")[0]
        self.znodes[absolute] = data
        if ephemeral:
            self.ephemeral.add(absolute)

    def place(self, bookie_id: str) -> Path:
        """Where the directories of a bookie lie."""
        return self.bookies / bookie_id.replace(":", "_")


def unpack(work: Path, written_ms: int) -> SampleCluster:
    """Lay the sample out below ``work``; all its files look written at ``written_ms``."""
    here = files("auditor.demo") / "sample"
    cluster = SampleCluster(work / "bookies")
    for line in gzip.decompress((here / "metadata.jsonl.gz").read_bytes()).splitlines():
        record = json.loads(line)
        cluster.znodes[record["path"]] = base64.b64decode(record["data"])
        if record["ephemeralOwner"]:
            cluster.ephemeral.add(record["path"])
    with as_file(here / "bookies.tar.gz") as packed:
        extract(packed, work)
    stamp(cluster.bookies, written_ms)
    return cluster


def extract(packed: Path, target: Path) -> None:
    """Unpack an archive, with Python's filter of what an archive may do where this Python has it (3.11.4)."""
    with tarfile.open(packed) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target)


def stamp(directory: Path, written_ms: int) -> None:
    """Give every file below a directory one time of writing."""
    for path in directory.rglob("*"):
        os.utime(path, (written_ms / 1000, written_ms / 1000))
