"""Faults of DbLedgerStorage: limbo, entry logs, and wrong or missing garbage collection.

Each bookie has the name of its fault. None collects garbage. The audit's time is hours later, so that data
have waited long for garbage collection or compaction.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from proofs.oracle.identity import ManyBookies, id_of
from proofs.oracle.plants import Plants

STORAGE = "DbLedgerStorage"
NAMES = (
    *("limbo", "exchanged", "unindexed", "doomed", "spare", "emptied", "lostlog", "wrongmap", "flipped"),
    *("differing", "rekeyed", "waiting", "healthy", "healthy2"),
)
IDS = tuple(map(id_of, NAMES))
LOG_BYTES = 8_192
SETTINGS: dict[str, str | int] = {"logSizeLimit": LOG_BYTES}
CONF = "minorCompactionThreshold=0.2\nmajorCompactionThreshold=0.8\nminorCompactionInterval=600\n"
CONF += "majorCompactionInterval=3600\ngcWaitTime=600000\n"
LATER_S = 6 * 3_600
LONG, SHORT = 150, 10
"""Numbers of entries: more than fit in one entry log, and few."""

DELETED = 120
MAP_HEADER = struct.Struct(">iqqi")
LEDGER_OF_NOBODY = 77_777


def plant(cluster: ManyBookies, plants: Plants) -> None:
    """Make all faults of this module."""
    healthy, healthy2 = id_of("healthy"), id_of("healthy2")
    ledgers = {name: 2 * number for number, name in enumerate(NAMES, 1)}
    for name in ("limbo", "exchanged", "unindexed", "lostlog", "wrongmap", "flipped"):
        for ledger in (ledgers[name], ledgers[name] + 1):
            cluster.write(ledger, [id_of(name), healthy, healthy2], 3, 2, LONG)
    _written_twice(cluster, plants, ledgers)
    _doomed(cluster, plants, ledgers["doomed"])
    waiting = id_of("waiting")
    for ledger in range(1_000, 1_000 + DELETED):
        cluster.write(ledger, [id_of("emptied")], 1, 1, 2)
    for first, live in ((2_000, 2), (2_010, 40)):  # of one log nearly all is deleted, of the other more stays
        cluster.write(first, [waiting], 1, 1, LONG - live)
        cluster.write(first + 2, [waiting], 1, 1, live + LONG)
    cluster.flush()
    for ledger in (*range(1_000, 1_000 + DELETED), 2_000, 2_010):
        cluster.delete(ledger)
    plants.plant("metadata-suspect", "a client's deletes of all its 120 ledgers", None, id_of("emptied"))
    plants.follows("orphan-ledger", ledgers=range(1_000, 1_000 + DELETED), bookies=(id_of("emptied"),))
    plants.follows("orphan-ledger", ledgers=(2_000, 2_010), bookies=(waiting,))
    plants.plant("orphan-stuck", "a collector that never runs", None, waiting)
    plants.follows("orphan-stuck", bookies=(id_of("emptied"), id_of("limbo")))
    plants.plant("entry-log-reclaimable", "a collector that never runs", None, waiting)
    plants.plant("entry-log-pinned", "a collector that never runs", None, waiting)
    plants.plant("compaction-stopped", "a compaction that never runs", None, waiting)
    _on_running_bookies(cluster, plants, ledgers)
    _on_disks(cluster, plants, ledgers)


def _written_twice(cluster: ManyBookies, plants: Plants, ledgers: dict[str, int]) -> None:
    """Write an entry with another payload to one bookie, and a ledger with another password to another."""
    healthy, healthy2 = id_of("healthy"), id_of("healthy2")
    for name in ("differing", "rekeyed"):
        ledger, bookie = ledgers[name], id_of(name)
        cluster.record(ledger, [bookie, healthy, healthy2], 3, 2, SHORT - 1)
        change = {"payload": "other"} if name == "differing" else {"password": "another"}
        cluster.add(ledger, bookie, range(SHORT), **change)
        for sound in (healthy, healthy2):
            cluster.add(ledger, sound, range(SHORT))
    plants.plant("replica-mismatch", "a client that wrote an entry twice", ledgers["differing"])
    plants.plant("master-key-mismatch", "a client with another password", None, id_of("rekeyed"))


def _doomed(cluster: ManyBookies, plants: Plants, ledger: int) -> None:
    """Write the last copy of an entry to a bookie that the ledger's metadata do not name."""
    members = [id_of("doomed"), id_of("healthy")]
    cluster.record(ledger, members, 2, 2, SHORT - 1)
    for bookie in members:
        cluster.add(ledger, bookie, [entry for entry in range(SHORT) if entry != 3])
    cluster.add(ledger, id_of("spare"), range(SHORT))
    deed = "a client's write: the last copy lies outside of the ensemble"
    plants.plant("gc-would-delete-live", deed, None, id_of("spare"))
    plants.follows("entry-lost", ledgers=(ledger,))
    plants.follows("over-replicated-ledger", ledgers=(ledger,), bookies=(id_of("spare"),))


def _on_running_bookies(cluster: ManyBookies, plants: Plants, ledgers: dict[str, int]) -> None:
    bookie = id_of("limbo")
    cluster.set_limbo(bookie, ledgers["limbo"])
    cluster.add(LEDGER_OF_NOBODY, bookie, [0])  # 4.17.2 flushes only if there is an entry to flush
    cluster.add(LEDGER_OF_NOBODY + 1, bookie, [0])
    cluster.flush()
    plants.plant("ledgers-in-limbo", "setLimboState of a running bookie", None, bookie)
    plants.follows("orphan-ledger", ledgers=(LEDGER_OF_NOBODY, LEDGER_OF_NOBODY + 1), bookies=(bookie,))


def _on_disks(cluster: ManyBookies, plants: Plants, ledgers: dict[str, int]) -> None:
    for name in ("exchanged", "unindexed", "lostlog", "wrongmap", "flipped"):
        cluster.stop(id_of(name))
    place = cluster.place(id_of("exchanged"))
    for old, new in (("ledgers0", "between"), ("ledgers1", "ledgers0"), ("between", "ledgers1")):
        (place / old).rename(place / new)
    deed = "two directories of a bookie exchanged by mv"
    plants.plant("ledgers-in-wrong-directory", deed, None, id_of("exchanged"))
    cluster.forget_ledger(id_of("unindexed"), ledgers["unindexed"])
    deed = "a key deleted from RocksDB"
    plants.plant("ledger-not-indexed", deed, ledgers["unindexed"], id_of("unindexed"))
    plants.follows("replication-undecided", ledgers=(ledgers["unindexed"],))
    # The bookie's garbage collector treats the ledger as deleted, and deletes its logs.
    plants.follows("gc-would-delete-live", "entry-log-reclaimable", bookies=(id_of("unindexed"),))
    _first_log(cluster, "lostlog").unlink()
    plants.plant("entry-log-missing", "rm of an entry log", None, id_of("lostlog"))
    _change_map(_first_log(cluster, "wrongmap"))
    deed = "dd over the ledgers map of an entry log"
    plants.plant("entry-log-header-wrong", deed, None, id_of("wrongmap"))
    log = _first_log(cluster, "flipped")
    data = log.read_bytes()
    _overwrite(log, data.index(b"entry-000001"), b"Entry")
    plants.plant("entry-digest-wrong", "dd over a byte of an entry", None, id_of("flipped"))
    for name in ("exchanged", "unindexed", "lostlog", "wrongmap", "flipped"):
        cluster.start(id_of(name))


def _first_log(cluster: ManyBookies, name: str) -> Path:
    """Return the oldest entry log of the directory with even ledger ids. It is closed."""
    logs = (cluster.place(id_of(name)) / "ledgers0" / "current").glob("*.log")
    return min(logs, key=lambda log: int(log.stem, 16))


def _change_map(log: Path) -> None:
    """Replace a ledger id in the ledgers map of an entry log."""
    data = log.read_bytes()
    # The header of an entry log has the map's offset and its number of ledgers behind magic and version.
    offset, ledgers = struct.unpack_from(">qi", data, 8)
    assert offset, "the log has a map"
    assert ledgers
    _overwrite(log, offset + MAP_HEADER.size, struct.pack(">q", LEDGER_OF_NOBODY))


def _overwrite(file: Path, offset: int, data: bytes) -> None:
    stat = file.stat()
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def options(root: Path) -> dict[str, Any]:
    """Return the options of an audit that reads entry logs."""
    conf = root / "bk_server.conf"
    conf.write_text(CONF)
    return {"entry_logs": True, "deep": True, "bookie_conf": str(conf)}
