"""Faults of ledgers with index files: copies, metadata, and the under-replication marks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat as Metadata
from auditor.keys import ledger_path
from proofs.living.faults import STRANGER, mark
from proofs.oracle.plants import Plants
from tests.clusters.store import ROOT, Store, edit_metadata
from tests.servers.bookies.driver import Bookies

STORAGE = "InterleavedLedgerStorage"
BOOKIES = 6
LAST = 11
RESERVED, NOBODY, WRONG = "10.255.255.8:0", "10.255.255.7:3181", "no bookie"
UNUSED_ID = 9_000
"""The first of the ledger ids that no ledger ever had."""

EMPTY_DIRECTORIES = 100


def plant(cluster: Bookies, store: Store, plants: Plants) -> Callable[[], None]:
    """Make all faults of this module; return a function to call while the audit reads."""
    a, b, c, d, e, f = cluster.ids
    ids = iter(range(1, UNUSED_ID))

    def write(ensemble: list[str], write_quorum: int = 2) -> int:
        ledger = next(ids)
        cluster.write(ledger, ensemble, write_quorum, 2, LAST + 1)
        return ledger

    lost, one_left, two_left = write([a, b]), write([a, b]), write([a, b, c], 3)
    cut = write([a, b, c], 3)
    plants.plant("entry-lost", "rm of both index files", lost)
    plants.plant("below-ack-quorum", "rm of one of two index files", one_left)
    plants.plant("below-write-quorum", "rm of one of three index files", two_left)
    plants.plant("index-unreadable", "an index file cut by truncate", cut, a)
    plants.plant("replication-undecided", "an index file cut by truncate", cut)

    lagging = next(ids)
    cluster.create(lagging, [a, b, c], 3, 2)
    cluster.append(lagging, 5)
    for bookie in (a, b):
        cluster.add(lagging, bookie, range(5, 8))
    plants.plant("copy-lagging", "a client whose writes never reach one bookie", lagging)
    plants.plant("ledger-open-long", "a client that closes no ledger, for three days", lagging)

    extra, under_way, surplus, past = write([a, b]), write([a, b]), write([a, b]), next(ids)
    for ledger in (extra, under_way):
        cluster.add(ledger, c, range(LAST + 1))
    plants.plant("over-replicated-ledger", "a client's writes to a third bookie", extra, c)
    plants.plant("copy-in-flight", "the same, marked and locked", under_way)
    plants.follows("mark-stale", bookies=(b,))
    cluster.add(surplus, b, [LAST + 1])
    plants.plant("surplus-entries", "a client's write after the close", None, b)
    cluster.record(past, [a, b], 2, 2, LAST)
    for bookie in (a, b):
        cluster.add(past, bookie, range(LAST + 2))
    plants.plant("entries-past-end", "a client's writes behind the end of a recovered ledger", past)

    changed = next(ids)
    cluster.create(changed, [a, b, c], 3, 3)
    cluster.append(changed, 5)
    cluster.stop(b)
    cluster.append(changed, 5)
    cluster.close(changed)
    cluster.start(b)
    cluster.add(changed, b, [8])
    plants.plant("stale-segment", "a bookie stopped under a writer, and a late write", None, b)

    orphan, deleting, empty = write([a, b]), write([a, b]), next(ids)
    cluster.create(empty, [a, f], 2, 2)
    cluster.close(empty)
    for bookie in (a, b):
        plants.plant("orphan-ledger", "its znode deleted", orphan, bookie)
        plants.plant("orphan-ledger-deleting", "its znode deleted during the audit", deleting, bookie)

    on_ghost, on_reserved = next(ids), next(ids)
    for ledger, absent_id in ((on_ghost, STRANGER), (on_reserved, RESERVED)):
        cluster.record(ledger, [a, absent_id], 2, 2, LAST)
        cluster.add(ledger, a, range(LAST + 1))
    plants.plant("ghost-bookie", "a client's ledger on a bookie that never was", None, STRANGER)
    plants.plant("bookie-id-reserved", "a client's ledger on a stand-in of port 0", None, RESERVED)
    plants.plant("bookie-unread", "a client's ledger on a bookie that never was", None, STRANGER)
    plants.follows("bookie-unread", bookies=(RESERVED,))
    plants.follows("on-unregistered-bookie", "mark-missing", bookies=(STRANGER, RESERVED))

    write([d, e, f], 3)
    plants.plant("bookie-down", "a bookie stopped", None, f)
    plants.plant("on-unregistered-bookie", "a bookie stopped", None, f)
    plants.plant("mark-missing", "a bookie stopped, and no auditor", None, f)
    broken = {check: write([d, e]) for check in EDITS}
    unreadable, recovering, served = write([d, e]), write([d, e]), write([d, e])
    stale, unread_mark, locked = (write([d, e]) for _ in range(3))
    cluster.flush()

    for bookie in (a, b, c):
        cluster.stop(bookie)
    for ledger, bookie in ((lost, a), (lost, b), (one_left, a), (two_left, c)):
        _index(cluster, bookie, ledger).unlink()
    with _index(cluster, a, cut).open("r+b") as file:
        file.truncate(500)
    (cluster.place(c) / "ledgers0" / "current" / "0" / "notes.txt").write_text("remember the milk\n")
    plants.plant("stray-file", "an editor's file in a directory of indexes", None, c)
    for bookie in (a, b, c):
        cluster.start(bookie)
    cluster.stop(f)

    _index(cluster, e, served).unlink()
    plants.plant("index-incomplete", "rm of an index file that its bookie has open", None, e)
    store.delete(store.path(orphan))
    store.put(store.path(unreadable), b"BookieMetadataFormatVersion\t3\n\xff\xff\xff")
    plants.plant("metadata-unreadable", "set in the store: other bytes", unreadable)
    store.client.create(f"{ROOT}/00/0000/Lnotanumber", b"")
    plants.plant("metadata-misplaced", "set in the store: a name that servers list as 0", 0)
    for check, ledger in broken.items():
        edit_metadata(store, ledger, EDITS[check])
        plants.plant(check, "set in the store: edited metadata", ledger)
    plants.follows("surplus-entries", bookies=(d, e))  # entries before the first segment
    edit_metadata(store, recovering, _recovering)
    plants.plant("recovery-stuck", "set in the store: IN_RECOVERY, three days ago", recovering)

    for ledger, replica in ((stale, d), (one_left, a), (UNUSED_ID, d), (empty, f), (UNUSED_ID + 1, NOBODY)):
        mark(store, ledger, replica, age_ms=0)
    _leave(store, ledger_path.mark_to_path(unread_mark), b"\xff\xff")
    _leave(store, ledger_path.lock_to_path(locked), b'bookieId: "x"\n')
    mark(store, under_way, b, age_ms=0)
    store.client.create(
        f"{ROOT}/{ledger_path.lock_to_path(under_way)}", b'bookieId: "x"\n', ephemeral=True, makepath=True
    )
    for number in range(EMPTY_DIRECTORIES):
        store.client.create(f"{ROOT}/underreplication/ledgers/0000/0000/00ff/{number:04x}", makepath=True)
    plants.plant("mark-stale", "set in the store: a mark on a healthy ledger", None, d)
    plants.plant("mark-of-deleted-ledger", "set in the store: a mark of no ledger", None, d)
    plants.plant("mark-of-empty-ledger", "set in the store: a mark on an empty ledger", None, f)
    plants.plant("mark-unknown-replica", "set in the store: a mark for nobody", None, NOBODY)
    plants.plant("mark-unreadable", "set in the store: a mark of other bytes", unread_mark)
    plants.plant("lock-without-mark", "set in the store: a lock", locked)
    plants.plant("mark-directory-empty", "set in the store: directories without marks")
    plants.plant("mark-stuck", "a mark that no worker took for three days", one_left)
    plants.follows("mark-of-deleted-ledger", bookies=(NOBODY,))
    return lambda: store.delete(store.path(deleting))


def _index(cluster: Bookies, bookie: str, ledger: int) -> Path:
    [path] = cluster.place(bookie).glob(f"*/current/*/*/{ledger:x}.idx")
    return path


def _leave(store: Store, path: str, value: bytes) -> None:
    store.client.create(f"{ROOT}/{path}", value, makepath=True)


def _recovering(metadata: Metadata) -> None:
    metadata.state = Metadata.IN_RECOVERY
    metadata.ClearField("lastEntryId")
    metadata.length = 0


def _later(metadata: Metadata) -> None:
    metadata.segment[0].firstEntryId = 3


def _disordered(metadata: Metadata) -> None:
    for first in (8, 4):
        metadata.segment.add(firstEntryId=first, ensembleMember=metadata.segment[0].ensembleMember)


def _wider(metadata: Metadata) -> None:
    metadata.ensembleSize = 3


def _twice(metadata: Metadata) -> None:
    metadata.segment[0].ensembleMember[1] = metadata.segment[0].ensembleMember[0]


def _more_acks(metadata: Metadata) -> None:
    metadata.ackQuorumSize = 3


def _wrong_id(metadata: Metadata) -> None:
    metadata.segment[0].ensembleMember[1] = WRONG


EDITS: dict[str, Callable[[Metadata], None]] = {
    "segment-gap": _later,
    "segment-order": _disordered,
    "ensemble-size": _wider,
    "ensemble-duplicate": _twice,
    "quorum-invalid": _more_acks,
    "bookie-id-invalid": _wrong_id,
}
