"""A bookie's entry logs, one row a file: how large, how old, and what its ledgers map adds up to.

Opened for reading: the header and the ledgers map. The entries between them are not read, and nothing of them
is kept. Files of a compaction that is under way (``.log.compacting``, ``.compacted``) are no logs yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from auditor.codecs.bookie.entry_log import HEADER_BYTES, decode_header, decode_map
from auditor.errors import DecodeError
from auditor.model.columns import commented

OK, NO_MAP, UNREADABLE = "ok", "no-map", "unreadable"

SCHEMA = commented(
    ("directory", pa.string(), "the ledger directory"),
    ("path", pa.string(), "the file; the directory itself where it could not be listed"),
    ("log_id", pa.int64(), "its id, unique within the bookie (DbLedgerStorage: within the directory)"),
    ("bytes", pa.int64(), "its length"),
    ("mtime", pa.int64(), "when it last changed, ms"),
    ("version", pa.int32(), "header version: 0 or 1"),
    ("ledgers", pa.int64(), "ledgers with entries in it, as its ledgers map says; null without a map"),
    ("entry_bytes", pa.int64(), "bytes of their entries when it was closed; null without a map"),
    (
        "state",
        pa.string(),
        "ok; no-map: still written to, or not closed properly; unreadable: also where the map is",
    ),
    ("reason", pa.string(), "why it is unreadable"),
    ("offset", pa.int64(), "the byte at fault, where it is known"),
)

_NAME = re.compile(r"([0-9a-f]{1,8})\.log")
_LARGEST_ID = 2**31 - 1


def read_logs(directory: str) -> Iterator[dict[str, Any]]:
    """Rows of `SCHEMA` for the entry logs of one ledger directory, by id; none where it has none.

    >>> [row["state"] for row in read_logs("/no/such/directory")]
    ['unreadable']
    """
    current = f"{directory}/current"
    try:
        names = os.listdir(current)  # noqa: PTH208 -- names only
    except OSError as error:
        yield _row(directory, current, None) | _unreadable(error.strerror or str(error), None)
        return
    logs = [(int(found[1], 16), name) for name in names if (found := _NAME.fullmatch(name))]
    for log_id, name in sorted(each for each in logs if each[0] <= _LARGEST_ID):
        yield _log(directory, f"{current}/{name}", log_id)


def _log(directory: str, path: str, log_id: int) -> dict[str, Any]:
    row = _row(directory, path, log_id)
    try:
        with Path(path).open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            row |= {"bytes": status.st_size, "mtime": status.st_mtime_ns // 1_000_000}
            header = decode_header(_read(file.fileno(), HEADER_BYTES, 0))
            row |= {"version": header.version, "state": OK if header.has_map else NO_MAP}
            if header.has_map:
                rest = max(0, status.st_size - header.map_offset)
                ledgers = decode_map(
                    _read(file.fileno(), min(rest, header.longest_map), header.map_offset), header
                )
                row |= {"ledgers": len(ledgers), "entry_bytes": sum(ledgers["bytes"].tolist())}
    except DecodeError as damage:
        row |= _unreadable(damage.reason, damage.offset)
    except OSError as error:
        row |= _unreadable(error.strerror or str(error), None)
    return row


def _read(descriptor: int, wanted: int, at: int) -> bytes:
    """So many bytes, or fewer where the file ends; one read may give less than is there."""
    data = bytearray()
    while len(data) < wanted and (got := os.pread(descriptor, wanted - len(data), at + len(data))):
        data += got
    return bytes(data)


def _row(directory: str, path: str, log_id: int | None) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMA.names), "directory": directory, "path": path, "log_id": log_id}


def _unreadable(reason: str, offset: int | None) -> dict[str, Any]:
    return {"state": UNREADABLE, "reason": reason, "offset": offset}
