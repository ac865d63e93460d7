"""What an audit with these sources cannot see, however well all of them can be read."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.doctor.bookies import Bookies
from auditor.doctor.store import Metadata
from auditor.sources.bookies.parts import ROCKSDB


def name_blind_spots(metadata: Metadata | None, bookies: Bookies | None) -> Iterator[str]:
    """Sentences, each on one thing; none for sources that were not named."""
    if metadata is not None:
        yield from _of_metadata(metadata)
    if bookies is None:
        if metadata is not None:
            yield "what bookies hold: without --bookies nothing is said of copies, orphans and disks"
        return
    if metadata is not None:
        yield (
            "bookies that only ledgers name: they are known once all metadata was scanned, and are unread "
            "where no source covers them"
        )
    if bookies.disks:
        yield (
            "entries that are in no index yet, where the journal cannot be read from its mark on: what "
            "is missing of a ledger that changed after the mark is only suspected"
        )
    if ROCKSDB in bookies.storages:
        yield (
            "what a running bookie on DbLedgerStorage flushes while it is read: a copy of its database shows "
            "one moment"
        )
    if bookies.rpc and not bookies.disks:
        yield (
            "orphans, over-replicated ledgers, surplus data, disks and their VERSIONs: rpc: cannot list what "
            "a bookie keeps"
        )
    if bookies.rpc:
        yield (
            "through rpc:, bookies on DbLedgerStorage, over TLS or with authentication: these do not answer, "
            "and are unread"
        )
    yield "whether the bytes of an entry are good: an index says where it is, not what it says"


def _of_metadata(metadata: Metadata) -> Iterator[str]:
    store = metadata.store
    if not store.live:
        yield "what changed while the metadata was saved: one scan stands for both"
    if not store.keeps_marks:
        yield "under-replication marks: etcd has none, so nothing is said of repairs that are due or at work"
    if not store.keeps_times:
        yield (
            "when a ledger was made or changed: etcd keeps no times, so nothing is said of ledgers that are "
            "stuck in recovery"
        )
        if store.live:
            yield (
                "whether a missing entry is younger than the index: on a running etcd it is only suspected, "
                "unless the index is newer than the scan or the bookie itself was asked"
            )
