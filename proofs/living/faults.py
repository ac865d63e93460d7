"""Faults that the loop makes on a quiet cluster after its load, and the check id that must confirm each.

The loop first damages ledgers and audits, then damages bookies and audits. A bookie with a damaged identity
makes findings about its ledgers uncertain, so its faults must come second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from proofs.living.rules import Finding
from tests.clusters.living import IDLE_SETTINGS, LivingBookies, wait_until
from tests.clusters.store import ROOT, Store

LAST = 11
DAY_MS = 86_400_000
STRANGER = "10.255.255.9:3181"


class Fault(NamedTuple):
    """An expected finding.

    If ``ledger`` is None, a finding on any ledger matches. If ``bookie`` is None, the finding names no
    bookie.
    """

    id: str
    ledger: int | None
    bookie: str | None

    def is_confirmed_by(self, findings: Sequence[Finding]) -> bool:
        """Return whether a finding confirms the fault.

        If a bookie has too many orphans, the audit reports ``metadata-suspect`` for it. A finding of any
        confidence then confirms an orphan on that bookie.
        """
        distrusted = {finding["bookie_id"] for finding in findings if finding["id"] == "metadata-suspect"}
        sure = not (self.id == "orphan-ledger" and self.bookie in distrusted)
        return any(
            finding["id"] == self.id
            and (finding["confidence"] == "confirmed" or not sure)
            and finding["bookie_id"] == self.bookie
            # Some checks report all ledgers of a bookie in one finding, without a ledger id.
            and finding["ledger_id"] in (self.ledger, None)
            for finding in findings
        )


def settle_cluster(cluster: LivingBookies) -> None:
    """Flush and restart all bookies, without automatic garbage collection and re-replication."""
    cluster.settings(IDLE_SETTINGS)
    cluster.stop(*filter(cluster.running, cluster.ids))
    cluster.start(*cluster.ids)
    wait_until(lambda: cluster.store.registered() >= set(cluster.ids), "all bookies are registered")


def damage_ledgers(cluster: LivingBookies) -> list[Fault]:
    """Write new ledgers after `settle_cluster` and damage each in a different way; return the faults."""
    a, b, c, _ = cluster.ids
    store = cluster.store
    first = max(store.snapshot().versions, default=0) + 1
    lost, below_ack, below_write, cut, orphan, unreadable, extra, surplus, ghost, twice = range(
        first, first + 10
    )
    missing_ledger = first + 10
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
        mark(store, missing_ledger, c, age_ms=DAY_MS // 2)
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
    """Damage the identity of each bookie in a different way; return the faults."""
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
    """Delete all entries of a ledger on a stopped bookie."""
    if cluster.storage == "DbLedgerStorage":
        cluster.forget_entries(bookie, ledger, range(LAST + 1))
    else:
        [path] = cluster.index_files(bookie, ledger)
        path.unlink()


def _spoil(cluster: LivingBookies, ledger: int, bookie: str) -> str:
    """Make a ledger's index unreadable on a stopped bookie; return the check id that reports this."""
    if cluster.storage == "DbLedgerStorage":
        cluster.forget_ledger(bookie, ledger)
        return "ledger-not-indexed"
    [path] = cluster.index_files(bookie, ledger)
    with path.open("r+b") as file:
        file.truncate(500)
    return "index-unreadable"


def mark(store: Store, ledger: int, replica: str, age_ms: int) -> None:
    """Create an under-replication mark of the given age, as BookKeeper's auditor does."""
    digits = f"{ledger:016x}"
    parts = "/".join(digits[start : start + 4] for start in range(0, 16, 4))
    created_ms = round(time.time() * 1000) - age_ms
    path = f"{ROOT}/underreplication/ledgers/{parts}/urL{ledger:010}"
    store.client.create(path, f'replica: "{replica}"\nctime: {created_ms}\n'.encode(), makepath=True)
