"""A ZooKeeper snapshot as a server writes it: no sessions, no lists of rights, every znode of one moment."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from auditor.codecs.zookeeper.snapshot import MAGIC, TAIL, VERSION

TIME_MS = 1_700_000_000_000
"""When every znode was made and last changed."""

_END = struct.pack(">i", 1) + b"/"


def write(path: Path, records: Iterable[bytes]) -> Path:
    """Write header, records, end mark and seal to a new file; returns its path."""
    path.parent.mkdir(parents=True)
    adler = 1
    with path.open("wb") as file:
        for piece in chain([struct.pack(">iiqii", MAGIC, VERSION, -1, 0, 0)], records, [_END]):
            adler = zlib.adler32(piece, adler)
            file.write(piece)
        file.write(struct.pack(">q", adler) + _END)
    return path


def record(path: str, data: bytes, owner: int = 0) -> bytes:
    """A znode at version 1; ``owner`` is the session of one that goes with it."""
    tail = np.zeros(1, TAIL)
    for name in ("czxid", "mzxid", "pzxid"):
        tail[name] = 1
    tail["ctime"] = tail["mtime"] = TIME_MS
    tail["version"] = 1
    tail["acl"] = -1  # open to all, which needs no list
    tail["ephemeral_owner"] = owner
    parts = (struct.pack(">i", len(part)) + part for part in (path.encode(), data))
    return b"".join(parts) + tail.tobytes()
