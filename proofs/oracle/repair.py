"""Faults that stop repair: bookies without AutoRecovery, and settings that disable it."""

from __future__ import annotations

import time

from proofs.living.faults import mark
from proofs.oracle.plants import Plants
from tests.clusters.store import ROOT, Store
from tests.servers.bookies.driver import Bookies

STORAGE = "InterleavedLedgerStorage"
BOOKIES = 3
LAST = 9
MONTH_S = 30 * 86_400


def stop_repair(cluster: Bookies, store: Store, plants: Plants) -> None:
    """Stop a bookie that nobody repairs. The first audit runs with a time three days later."""
    first, second, third = cluster.ids
    cluster.write(1, [first, second, third], 3, 2, LAST + 1)
    cluster.write(2, [third], 1, 1, LAST + 1)
    cluster.flush()
    cluster.stop(third)
    mark(store, 1, third, age_ms=0)
    replication = f"{ROOT}/underreplication"
    create = store.client.create
    create(f"{replication}/lostBookieRecoveryDelay", str(2 * MONTH_S).encode(), makepath=True)
    # The value is a CheckAllLedgersFormat: field 1 is the time in ms as a varint.
    checked = round((time.time() - MONTH_S) * 1000)
    create(f"{replication}/checkallledgersctime", b"\x08" + _varint(checked), makepath=True)
    plants.plant("ledger-unavailable", "a ledger's only bookie stopped", 2)
    plants.plant("no-auditor", "bookies started without AutoRecovery")
    plants.plant("no-replication-workers", "a mark that no worker took for three days")
    plants.plant("lost-bookie-delay-long", "set in the store: a delay of 60 days")
    plants.plant("server-check-overdue", "set in the store: a check that ended a month ago")
    plants.plant("too-few-writable-bookies", "one of three bookies stopped, and ensembles of three")
    _follows(plants, third)


def switch_off(cluster: Bookies, store: Store, plants: Plants) -> None:
    """Disable re-replication and register every bookie as read-only, for the second audit."""
    third = cluster.ids[-1]
    store.client.create(f"{ROOT}/underreplication/disable", b"", makepath=True)
    store.client.ensure_path(f"{ROOT}/available/readonly")
    for bookie in cluster.ids[:-1]:
        value, _ = store.client.get(f"{ROOT}/available/{bookie}")
        store.client.create(f"{ROOT}/available/readonly/{bookie}", value, ephemeral=True)
        store.delete(f"{ROOT}/available/{bookie}")
    plants.plant("replication-disabled", "set in the store: what autorecovery -d makes")
    plants.plant("all-bookies-read-only", "set in the store: every bookie registered as read-only")
    plants.follows("no-auditor", "lost-bookie-delay-long", "server-check-overdue")
    plants.follows("ledger-unavailable", ledgers=(2,))
    _follows(plants, third)


def _follows(plants: Plants, stopped: str) -> None:
    plants.follows("bookie-down", "on-unregistered-bookie", "mark-missing", bookies=(stopped,))
    plants.follows("mark-stuck", ledgers=(1,))


def _varint(number: int) -> bytes:
    """Encode a number as a protobuf varint: seven bits per byte, the lowest first."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
