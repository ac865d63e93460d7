"""Metadata of single ledgers, straight from a store: without Spark, and without a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from auditor.codecs import ledger_metadata
from auditor.errors import DecodeError, StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind, classify, to_path
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import LedgerMetadata, broken_rules
from auditor.sources.layout_choice import choose_layout
from auditor.sources.store import MetadataStore, Part, StoreOptions, Tree, ZnodeBatch, open_store

_PARTS = 1  # read one after the other, in this process


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger's record; times in ms. ``metadata`` is None where ``damage`` says why."""

    ledger: LedgerId
    path: str
    version: int
    ctime: int
    mtime: int
    metadata: LedgerMetadata | None
    damage: str | None
    rules: tuple[str, ...]


def find_ledger(uri: str, ledger: LedgerId, options: StoreOptions | None = None) -> StoredLedger:
    """The record of one ledger. A live store is asked for one path; a saved one is read until it is found.

    Raises:
        UsageError: the store has no such ledger, or the scope is not 0.
        StoreError: the store cannot be read, or may have the ledger where it could not be read.
    """
    _stock_scope(ledger)
    with closing(open_store(uri, options)) as store:
        layout, _ = choose_layout(store, store.cluster())
        path = f"{store.root}/{to_path(layout, ledger.id)}"
        gaps: list[tuple[str, str]] = []
        for batch in _batches(store, layout, path):
            gaps += batch.gaps
            if path in batch.paths:
                return _stored(batch, batch.paths.index(path), ledger)
    at_path = [reason for gap, reason in gaps if path == gap or path.startswith(f"{gap.rstrip('/')}/")]
    if at_path:
        raise StoreError(f"{path} could not be read: {at_path[0]}")
    raise UsageError(f"{uri} has no ledger {ledger.id} (no znode {path})")


def list_ledgers(uri: str, options: StoreOptions | None = None) -> Iterator[StoredLedger | tuple[str, str]]:
    """Every ledger of a store, in its order; (path, reason) for what was not listed or is no ledger's path.

    Raises:
        StoreError: the store cannot be read.
    """
    with closing(open_store(uri, options)) as store:
        layout, _ = choose_layout(store, store.cluster())
        for part in store.parts(Tree.LEDGERS, layout, _PARTS):
            for batch in store.read(part):
                for row, path in enumerate(batch.paths):
                    place = classify(layout, path[len(store.root) + 1 :])
                    if place.kind == "ledger" and place.ledger_id is not None:
                        yield _stored(batch, row, LedgerId(place.ledger_id))
                    elif place.kind == "malformed":
                        yield path, "its path and its id disagree, or it is no ledger's path"
                yield from batch.gaps


def _batches(store: MetadataStore, layout: LayoutKind, path: str) -> Iterator[ZnodeBatch]:
    for part in _parts(store, layout, path):
        yield from store.read(part)


def _parts(store: MetadataStore, layout: LayoutKind, path: str) -> list[Part]:
    if not store.live:
        return store.parts(Tree.LEDGERS, layout, _PARTS)
    from auditor.sources.zk_live import SubtreesPart
    from auditor.sources.zk_walk import Top

    return [SubtreesPart((Top(path, deep=False),))]


def _stored(batch: ZnodeBatch, row: int, ledger: LedgerId) -> StoredLedger:
    metadata, damage = None, None
    ctime = int(batch.ctime[row])
    try:
        metadata = ledger_metadata.parse(batch.data[row], ctime)
    except DecodeError as error:
        damage = str(error)
    rules = tuple(f"{rule.rule}: {rule.reason}" for rule in broken_rules(metadata)) if metadata else ()
    version, mtime = int(batch.version[row]), int(batch.mtime[row])
    return StoredLedger(ledger, batch.paths[row], version, ctime, mtime, metadata, damage, rules)


def _stock_scope(ledger: LedgerId) -> None:
    if ledger.scope:
        raise UsageError(
            f"--ledger-scope-id {ledger.scope}: BookKeeper keeps no ledgers in scopes other than 0"
        )
