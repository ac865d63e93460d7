"""A writer of ZooKeeper snapshots. They are like a server's, but have no sessions or access control lists."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from auditor.codecs.zookeeper.snapshot import MAGIC, TAIL_DTYPE, VERSION

TIME_MS = 1_700_000_000_000
"""Time at which every znode was created and last changed, in ms since 1970."""

_END_OF_RECORDS = struct.pack(">i", 1) + b"/"


def write(path: Path, records: Iterable[bytes]) -> Path:
    """Write the header, the records, the end mark and the checksum to a new file; return its path."""
    path.parent.mkdir(parents=True)
    checksum = 1
    with path.open("wb") as file:
        for snapshot_piece in chain(
            [struct.pack(">iiqii", MAGIC, VERSION, -1, 0, 0)], records, [_END_OF_RECORDS]
        ):
            checksum = zlib.adler32(snapshot_piece, checksum)
            file.write(snapshot_piece)
        file.write(struct.pack(">q", checksum) + _END_OF_RECORDS)
    return path


def record(path: str, znode_data: bytes, owner_session: int = 0) -> bytes:
    """Return the record of a znode at version 1.

    ``owner_session`` is the session id of an ephemeral znode. It is 0 for other znodes.
    """
    stat_record = np.zeros(1, TAIL_DTYPE)
    for name in ("czxid", "mzxid", "pzxid"):
        stat_record[name] = 1
    stat_record["ctime"] = stat_record["mtime"] = TIME_MS
    stat_record["version"] = 1
    stat_record["acl"] = -1  # open to all, without an entry in the access control lists
    stat_record["ephemeral_owner"] = owner_session
    record_parts = (
        struct.pack(">i", len(record_part)) + record_part for record_part in (path.encode(), znode_data)
    )
    return b"".join(record_parts) + stat_record.tobytes()
