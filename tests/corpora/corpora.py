"""The corpora of real clusters, unpacked for audits.

This module sets the bookies' file times, because neither tar nor git keeps them. An index older than a
ledger's last change, or newer than the scan, rightly makes findings suspect.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.demo.sample import extract
from tests.corpora.brute_force import World
from tests.corpora.cluster import NOW_MS, set_clocks
from tests.corpora.plain_readers import read_dump

DATA = Path(__file__).parent.parent / "data"
CLASSES = {
    "ok": "healthy",
    "lessThanWQ": "below-write-quorum",
    "lessThanAQ": "below-ack-quorum",
    "noReplica": "entry-lost",
}


@dataclass(frozen=True)
class Corpus:
    """One corpus in a directory of its own."""

    name: str
    root: Path
    oracle: dict[str, Any]
    scan_time: int  # ms, the newest time in the dump; etcd's has none, and was saved then

    @property
    def dump(self) -> Path:
        return self.root / "metadata.jsonl"

    @property
    def bookies(self) -> Path:
        return self.root / "bookies"

    @property
    def zookeeper(self) -> Path:
        return self.root / "zookeeper"

    @property
    def snapshot(self) -> Path:
        """Return the snapshot file that etcdctl saved."""
        return self.root / "etcd-snapshot.db"

    def world(self) -> World:
        return World.from_files(self.dump, self.bookies)

    def exact(self, ledger: int) -> str:
        """Return the class that the server's check gives with exact look-ups, marked or not."""
        answers = self.oracle["auditor"]["replicasCheck"]["perLedger"][str(ledger)]
        exact = answers.get("exactWereItNotMarked", answers["exact"])
        return CLASSES[(answers["stock"] if exact == "as stock" else exact)["verdict"]]

    def stock(self, ledger: int) -> str:
        """Return the class that the unmodified server's check gives."""
        return CLASSES[self.oracle["auditor"]["replicasCheck"]["perLedger"][str(ledger)]["stock"]["verdict"]]


def unpack(name: str, root: Path) -> Corpus:
    """Unpack a corpus below ``root`` and return it."""
    lay_out(name, root)
    return open_corpus(name, root)


def lay_out(name: str, root: Path) -> None:
    """Write a corpus's files below ``root``, with their times."""
    data = DATA / name
    root.mkdir(parents=True, exist_ok=True)
    (root / "metadata.jsonl").write_bytes(gzip.decompress((data / "metadata.jsonl.gz").read_bytes()))
    extract(data / "bookies.tar.gz", root)
    if name == "etcd":
        saved = root / "etcd-snapshot.db"
        saved.write_bytes(gzip.decompress((data / "etcd-snapshot.db.gz").read_bytes()))
        for path in (saved, root / "metadata.jsonl"):
            os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    else:
        shutil.copytree(data / "zookeeper", root / "zookeeper")
    set_clocks(root / "bookies", _newest(name, root))


def open_corpus(name: str, root: Path) -> Corpus:
    """Return the corpus that `lay_out` wrote to ``root``."""
    oracle = json.loads(gzip.decompress((DATA / name / "oracle.json.gz").read_bytes()))
    return Corpus(name, root, oracle, _newest(name, root))


def _newest(name: str, root: Path) -> int:
    """Return the newest time in the dump, in ms, or a fixed time for etcd, whose dump has none."""
    if name == "etcd":
        return NOW_MS
    znodes = read_dump(root / "metadata.jsonl").values()
    newest: int = max(max(node["ctime"], node["mtime"]) for node in znodes)
    return newest
