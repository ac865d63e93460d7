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

ROOT = "/ledgers"
_ROWS = 100_000  # records written at once
_LEDGER_MANAGER_FACTORY = b"org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory"


def write_snapshot(cluster: Cluster, directory: Path, session: int = 1) -> str:
    """Write ``version-2/snapshot.<zxid>`` as a ZooKeeper server does; return its metadata URI.

    ``session`` owns the znodes of the registered bookies. The file lists no sessions. A real server can start
    on it only if ``session`` is 0.
    """
    path = snapshot_file.write(directory / "version-2" / "snapshot.64", _records(cluster, session))
    return f"zk-snapshot://{path.parent}"


def write_dump(cluster: Cluster, path: Path) -> str:
    """Write the same znodes as a dump, one JSON object per line; return its metadata URI."""
    with path.open("w") as file:
        for name, data, owner in _own_nodes(cluster):
            file.write(_line(name, data, owner))
        for group in cluster.groups_of_ledgers():
            data = cluster.metadata(group)
            for ledger in group.ids.tolist():
                file.write(_line(f"{ROOT}/{LONG_HIERARCHICAL.to_path(ledger)}", data, 0))
    return f"dump://{path}"


def _records(cluster: Cluster, session: int) -> Iterator[bytes]:
    """Yield the snapshot records of all znodes. Ledgers of one group are yielded many at a time."""
    for name, data, owner in [("", b"", 0), *_own_nodes(cluster, session), *_inner_nodes(cluster.end)]:
        yield record(name, data, owner)
    for group in cluster.groups_of_ledgers():
        path = f"{ROOT}/{LONG_HIERARCHICAL.to_path(0)}"
        template = np.frombuffer(record(path, cluster.metadata(group)), np.uint8)
        for start in range(0, len(group.ids), _ROWS):
            ids = group.ids[start : start + _ROWS]
            rows = np.tile(template, (len(ids), 1))
            _put_digits(rows, len(path), ids)
            yield rows.tobytes()


def _put_digits(rows: NDArray[np.uint8], path_bytes: int, ids: Longs) -> None:
    """Replace the digits of ledger 0's path by those of each id, in one copy of its record per id.

    The characters ``/`` and ``L`` of the path stay.
    """
    quotients, column = ids.copy(), 4 + path_bytes
    while quotients.any():
        column -= 1
        if rows[0, column] in b"/L":
            continue
        quotients, digit = np.divmod(quotients, 10)
        rows[:, column] = digit + ord("0")


def _inner_nodes(ledgers: int) -> Iterator[tuple[str, bytes, int]]:
    names: dict[str, None] = {}
    for first_ledger in range(0, max(ledgers, 1), 10_000):
        parts = LONG_HIERARCHICAL.to_path(first_ledger).split("/")[:-1]
        names |= dict.fromkeys("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return ((f"{ROOT}/{name}", b"", 0) for name in names)


def _own_nodes(cluster: Cluster, session: int = 1) -> Iterator[tuple[str, bytes, int]]:
    yield ROOT, b"", 0
    yield f"{ROOT}/LAYOUT", b"2\n" + _LEDGER_MANAGER_FACTORY + b":1", 0
    yield f"{ROOT}/INSTANCEID", INSTANCE_ID.encode(), 0
    for parent in ("cookies", "available", "available/readonly"):
        yield f"{ROOT}/{parent}", b"", 0
    for number, bookie in enumerate(cluster.ids):
        yield f"{ROOT}/cookies/{bookie}", cluster.cookie(number), 0
        yield f"{ROOT}/available/{bookie}", b"", session


def _line(path: str, data: bytes, owner: int) -> str:
    znode = {"path": path, "data": base64.b64encode(data).decode(), "czxid": 1, "mzxid": 1, "pzxid": 1}
    stat_fields = {"ctime": NOW_MS, "mtime": NOW_MS, "version": 1, "cversion": 0, "ephemeralOwner": owner}
    return json.dumps(znode | stat_fields) + "\n"
