"""The metadata store of a generated cluster: a ZooKeeper snapshot, or a dump with one JSON line per znode."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auditor.keys.ledger_path import LONG_HIERARCHICAL
from benchmarks import snapshot_file
from benchmarks.cluster import INSTANCE_ID, NOW_MS, Cluster, Longs
from benchmarks.snapshot_file import record

ROOT_PATH = "/ledgers"
_BATCH_RECORDS = 100_000  # records written at once
_LEDGER_MANAGER_FACTORY = b"org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory"


def write_snapshot(cluster: Cluster, directory: Path, session_id: int = 1) -> str:
    """Write ``version-2/snapshot.<zxid>`` as a ZooKeeper server does; return its metadata URI.

    ``session_id`` is the session that owns the znodes of registered bookies. The file lists no sessions, so a
    real server can start on it only if ``session_id`` is 0.
    """
    path = snapshot_file.write(directory / "version-2" / "snapshot.64", _records(cluster, session_id))
    return f"zk-snapshot://{path.parent}"


def write_dump(cluster: Cluster, path: Path) -> str:
    """Write the znodes of `write_snapshot` as a dump, one JSON object per line; return its metadata URI."""
    with path.open("w") as file:
        for name, znode_data, owner in _znodes_besides_ledgers(cluster):
            file.write(_dump_line(name, znode_data, owner))
        for group in cluster.groups_of_ledgers():
            znode_data = cluster.metadata(group)
            for ledger in group.ids.tolist():
                file.write(_dump_line(f"{ROOT_PATH}/{LONG_HIERARCHICAL.to_path(ledger)}", znode_data, 0))
    return f"dump://{path}"


def _records(cluster: Cluster, session_id: int) -> Iterator[bytes]:
    """Yield the snapshot records of all znodes.

    Ledgers of the same group are yielded together, many at a time.
    """
    for name, znode_data, owner in [
        ("", b"", 0),
        *_znodes_besides_ledgers(cluster, session_id),
        *_parent_znodes(cluster.end_id),
    ]:
        yield record(name, znode_data, owner)
    for group in cluster.groups_of_ledgers():
        path = f"{ROOT_PATH}/{LONG_HIERARCHICAL.to_path(0)}"
        record_template = np.frombuffer(record(path, cluster.metadata(group)), np.uint8)
        for start in range(0, len(group.ids), _BATCH_RECORDS):
            ids = group.ids[start : start + _BATCH_RECORDS]
            rows = np.tile(record_template, (len(ids), 1))
            _put_digits(rows, len(path), ids)
            yield rows.tobytes()


def _put_digits(rows: NDArray[np.uint8], path_bytes: int, ids: Longs) -> None:
    """Write the digits of each id into the path of the record in the same row.

    All ``rows`` are copies of the record of ledger 0. The characters ``/`` and ``L`` of the path stay.
    """
    quotients, byte_column = ids.copy(), 4 + path_bytes
    while quotients.any():
        byte_column -= 1
        if rows[0, byte_column] in b"/L":
            continue
        quotients, digits = np.divmod(quotients, 10)
        rows[:, byte_column] = digits + ord("0")


def _parent_znodes(ledgers: int) -> Iterator[tuple[str, bytes, int]]:
    names: dict[str, None] = {}
    for first_ledger in range(0, max(ledgers, 1), 10_000):
        path_parts = LONG_HIERARCHICAL.to_path(first_ledger).split("/")[:-1]
        names |= dict.fromkeys(
            "/".join(path_parts[:path_depth]) for path_depth in range(1, len(path_parts) + 1)
        )
    return ((f"{ROOT_PATH}/{name}", b"", 0) for name in names)


def _znodes_besides_ledgers(cluster: Cluster, session_id: int = 1) -> Iterator[tuple[str, bytes, int]]:
    yield ROOT_PATH, b"", 0
    yield f"{ROOT_PATH}/LAYOUT", b"2\n" + _LEDGER_MANAGER_FACTORY + b":1", 0
    yield f"{ROOT_PATH}/INSTANCEID", INSTANCE_ID.encode(), 0
    for parent in ("cookies", "available", "available/readonly"):
        yield f"{ROOT_PATH}/{parent}", b"", 0
    for number, bookie in enumerate(cluster.ids):
        yield f"{ROOT_PATH}/cookies/{bookie}", cluster.cookie(number), 0
        yield f"{ROOT_PATH}/available/{bookie}", b"", session_id


def _dump_line(path: str, znode_data: bytes, owner: int) -> str:
    znode = {"path": path, "data": base64.b64encode(znode_data).decode(), "czxid": 1, "mzxid": 1, "pzxid": 1}
    stat_fields = {"ctime": NOW_MS, "mtime": NOW_MS, "version": 1, "cversion": 0, "ephemeralOwner": owner}
    return json.dumps(znode | stat_fields) + "\n"
