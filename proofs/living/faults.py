"""Faults that are made on a quiet cluster after its load, and by which id each must be confirmed.

Two lots, for what is wrong with a bookie's identity makes what it holds a matter of doubt: first what is
wrong with ledgers, then what is wrong with bookies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from proofs.living.rules import Finding
from tests.clusters.living import CALM, LivingBookies, wait_until
from tests.clusters.store import ROOT, Store

LAST = 11
DAY_MS = 86_400_000
STRANGER = "10.255.255.9:3181"


class Fault(NamedTuple):
    """What must be found. ``ledger`` None: whatever ledger; ``bookie`` None: a finding on no bookie."""

    id: str
    ledger: int | None
    bookie: str | None

    def found(self, findings: Sequence[Finding]) -> bool:
        """Whether it is confirmed, or where its bookie has so many orphans that all are suspected: said."""
        distrusted = {finding["bookie_id"] for finding in findings if finding["id"] == "metadata-suspect"}
        sure = not (self.id == "orphan-ledger" and self.bookie in distrusted)
        return any(
            finding["id"] == self.id
            and (finding["confidence"] == "confirmed" or not sure)
            and finding["bookie_id"] == self.bookie
            # What comes in numbers is one finding per bookie.
            and finding["ledger_id"] in (self.ledger, None)
            for finding in findings
        )


def quiet(cluster: LivingBookies) -> None:
    """All bookies run, flushed and started again; nothing is collected or replicated by itself."""
    cluster.settings(CALM)
    cluster.stop(*filter(cluster.running, cluster.ids))
    cluster.start(*cluster.ids)
    wait_until(lambda: cluster.store.registered() >= set(cluster.ids), "all bookies are registered")


def damage_ledgers(cluster: LivingBookies) -> list[Fault]:
    """New ledgers, each with a fault of its own, on a cluster that is `quiet`."""
    a, b, c, _ = cluster.ids
    store = cluster.store
    first = max(store.snapshot().versions, default=0) + 1
    lost, below_ack, below_write, cut, orphan, unreadable, extra, surplus, ghost, twice = range(
        first, first + 10
    )
    gone = first + 10
    for ledger in (lost, below_ack, extra, surplus):
        cluster.write(ledger, [a, b], 2, 2, LAST + 1)
    for ledger in (below_write, cut, orphan, unreadable):
        cluster.write(ledger, [a, b, c], 3, 2, LAST + 1)
    cluster.add(extra, c, range(LAST + 1))
    cluster.add(surplus, b, [LAST + 1, LAST + 2])
    cluster.record(ghost, [a, STRANGER], 2, 2, LAST)
    cluster.add(ghost, a, range(LAST + 1))
    cluster.record(twice, [a, a], 2, 2, LAST)
    cluster.add(twice, a, range(LAST + 1))
    cluster.stop(a, b, c)
    gone_from = ((lost, a), (lost, b), (below_ack, a), (below_write, c))
    for ledger, bookie in gone_from:
        _forget(cluster, ledger, bookie)
    spoiled = _spoil(cluster, cut, a)
    cluster.start(a, b, c)
    store.delete(store.path(orphan))
    store.put(store.path(unreadable), b"BookieMetadataFormatVersion\t3\n\xff\xff\xff")
    marks = []
    if isinstance(store, Store):
        mark(store, gone, c, age_ms=DAY_MS // 2)
        mark(store, below_write, c, age_ms=2 * DAY_MS)
        marks = [Fault("mark-of-deleted-ledger", None, c), Fault("mark-stuck", below_write, None)]
    wait_until(lambda: cluster.store.registered() >= set(cluster.ids), "all bookies are registered")
    served = cluster.read({lost: LAST, below_ack: LAST, below_write: LAST}, (a, b, c))
    assert "1" not in served[lost][a] + served[lost][b] + served[below_ack][a] + served[below_write][c], (
        served
    )
    return [
        Fault("entry-lost", lost, None),
        Fault("below-ack-quorum", below_ack, None),
        Fault("below-write-quorum", below_write, None),
        Fault(spoiled, cut, a),
        *(Fault("orphan-ledger", orphan, bookie) for bookie in (a, b, c)),
        Fault("metadata-unreadable", unreadable, None),
        Fault("over-replicated-ledger", extra, c),
        Fault("surplus-entries", surplus, b),
        Fault("ghost-bookie", None, STRANGER),
        Fault("ensemble-duplicate", twice, None),
        *marks,
    ]


def damage_bookies(cluster: LivingBookies) -> list[Fault]:
    """One fault of identity on each bookie."""
    a, b, c, d = cluster.ids
    cluster.store.delete(cluster.store.cookie(a))
    [*_, version] = sorted(cluster.place(b).glob("ledgers*/current/VERSION"))
    version.unlink()
    cluster.store.put(cluster.store.cookie(c), b"\x00not a cookie")
    cluster.kill(d)
    wait_until(lambda: d not in cluster.store.registered(), f"{d} is not registered any more")
    return [
        Fault("cookie-missing", None, a),
        Fault("disk-version-missing", None, b),
        Fault("cookie-unreadable", None, c),
        Fault("bookie-down", None, d),
        Fault("on-unregistered-bookie", None, d),
    ]


def _forget(cluster: LivingBookies, ledger: int, bookie: str) -> None:
    """A stopped bookie loses all entries of a ledger."""
    if cluster.storage == "DbLedgerStorage":
        cluster.forget_entries(bookie, ledger, range(LAST + 1))
    else:
        [path] = cluster.index_files(bookie, ledger)
        path.unlink()


def _spoil(cluster: LivingBookies, ledger: int, bookie: str) -> str:
    """A stopped bookie's index cannot be read; the id of what is then found."""
    if cluster.storage == "DbLedgerStorage":
        cluster.forget_ledger(bookie, ledger)
        return "ledger-not-indexed"
    [path] = cluster.index_files(bookie, ledger)
    with path.open("r+b") as file:
        file.truncate(500)
    return "index-unreadable"


def mark(store: Store, ledger: int, replica: str, age_ms: int) -> None:
    """A mark as the auditor of BookKeeper makes one, of an age."""
    digits = f"{ledger:016x}"
    parts = "/".join(digits[at : at + 4] for at in range(0, 16, 4))
    made = round(time.time() * 1000) - age_ms
    path = f"{ROOT}/underreplication/ledgers/{parts}/urL{ledger:010}"
    store.client.create(path, f'replica: "{replica}"\nctime: {made}\n'.encode(), makepath=True)
