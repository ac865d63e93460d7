"""Metadata of single ledgers, read directly from a store. This needs neither Spark nor an audit's run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass

from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.errors import DecodeError, StoreError, UsageError
from auditor.keys import etcd, ledger_path
from auditor.keys.ledger_tree import ClassifiedPath, LayoutKind, classify, classify_unread_path, to_path
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import LedgerMetadata, broken_rules
from auditor.sources.metadata.store import (
    ClusterNodes,
    MetadataStore,
    OnePathStore,
    Part,
    StoreOptions,
    Tree,
    WatchableStore,
    ZnodeBatch,
)
from auditor.sources.metadata.stores import check_reachable, choose_layout, open_store

_PART_COUNT = 1  # read one after the other, in this process
# Trees of ZooKeeper's layouts. Legacy hierarchical is the short tree of hierarchical.
_TREE_LAYOUTS = (LayoutKind.FLAT, LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL)


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """The record of one ledger in a store.

    If the record cannot be decoded, ``metadata`` is None and ``damage`` has the reason. ``ctime`` and
    ``mtime`` are the times in the store, in ms. They are None in etcd, which keeps no times.
    """

    ledger: LedgerId
    path: str
    version: int
    ctime: int | None
    mtime: int | None
    metadata: LedgerMetadata | None
    damage: str | None
    rules: tuple[str, ...]


def find_ledger(uri: str, ledger: LedgerId, options: StoreOptions | None = None) -> StoredLedger:
    """Return the record of one ledger.

    The known layouts give a ledger several possible paths. In a running store, only these paths are read. A
    saved store is read until the ledger is found.

    Raises:
        UsageError: the store has no such ledger.
        StoreError: the store cannot be read, or the ledger may be at a path that cannot be read.
    """
    check_reachable(uri, options)
    with closing(open_store(uri, options)) as store:
        nodes = store.cluster()
        layout, _ = choose_layout(store, nodes)
        if ledger.id < 0 and not ledger.scope and layout is not LayoutKind.ETCD:
            raise UsageError(
                f"{uri} has no ledger {ledger.id}: layout {layout.value} has no place for ids below 0"
            )
        path = f"{store.root}/{path_of(layout, ledger)}"
        layout_of_other_path = _paths_of_other_layouts(store.root, layout, ledger)
        misplaced_note, gaps = "", list[tuple[str, str]]()
        for part in _parts(store, layout, Tree.LEDGERS, [path, *layout_of_other_path]):
            for batch in store.read(part):
                gaps += batch.gaps
                for other_path in sorted(layout_of_other_path.keys() & set(batch.paths)):
                    layout_name = layout_of_other_path[other_path].value
                    misplaced_note += (
                        f"; {other_path} exists, which is its path in layout {layout_name} "
                        "(see metadata-misplaced)"
                    )
                if path in batch.paths:
                    return _stored_ledger(store, batch, batch.paths.index(path), ledger)
        gaps += _root_gaps(store, nodes)
    path_reasons = [
        reason for gap_path, reason in gaps if path == gap_path or path.startswith(f"{gap_path.rstrip('/')}/")
    ]
    if path_reasons:
        raise StoreError(f"{path} could not be read: {path_reasons[0]}")
    scope_note = f" in scope {ledger.scope}" if ledger.scope else ""
    node_text = "key" if layout is LayoutKind.ETCD else "znode"
    raise UsageError(f"{uri} has no ledger {ledger.id}{scope_note} (no {node_text} {path}){misplaced_note}")


def list_ledgers(
    uri: str, scope_id: int = 0, options: StoreOptions | None = None
) -> Iterator[StoredLedger | tuple[str, str]]:
    """Yield every ledger of one scope, in the order of the store.

    ``scope_id`` is the upper 64 bits of the ledger ids, and 0 for 64-bit ids. If a path could not be read, or
    is not the path of a ledger, yield (path, reason) instead. A path whose scope is uncertain is treated as a
    path of ``scope_id``.

    Raises:
        StoreError: the store cannot be read.
    """
    check_reachable(uri, options)
    with closing(open_store(uri, options)) as store:
        nodes = store.cluster()
        layout, _ = choose_layout(store, nodes)
        name_offset = len(store.root) + 1
        root_gaps = _root_gaps(store, nodes)
        yield from root_gaps
        for part in store.parts(Tree.LEDGERS, layout, _PART_COUNT):
            for batch in store.read(part):
                for row, path in enumerate(batch.paths):
                    classified_path = classify(layout, path[name_offset:])
                    if not _may_be_in_scope(classified_path, scope_id):
                        continue
                    if (
                        classified_path.kind == "ledger"
                        and classified_path.ledger_id is not None
                        and classified_path.scope_id is not None
                    ):
                        yield _stored_ledger(
                            store, batch, row, LedgerId(classified_path.ledger_id, classified_path.scope_id)
                        )
                    elif classified_path.kind == "malformed":
                        yield path, "its path and its id disagree, or it is not a ledger's path"
                for path, reason in batch.gaps:
                    if (path, reason) not in root_gaps and _may_be_in_scope(
                        classify_unread_path(layout, path[name_offset:]), scope_id
                    ):
                        yield path, reason


def read_paths(
    store: MetadataStore, layout: LayoutKind, tree: Tree, paths: Collection[str]
) -> tuple[dict[str, tuple[bytes, int]], list[tuple[str, str]]]:
    """Read single paths of a tree. Call `MetadataStore.cluster` first.

    In a running store, only these paths are read. A saved store is read to its end.

    Args:
        store: any metadata store.
        layout: the layout of the store's ledgers.
        tree: the tree that the paths belong to.
        paths: absolute paths.

    Returns:
        Two results. The first is a dict with the data and the version of each path that exists. The second
        has (path, reason) for each path that could not be read.

    Raises:
        StoreError: the store cannot be read.
    """
    if not paths:
        return {}, []
    requested_paths, values_by_path, gaps = (
        set(paths),
        dict[str, tuple[bytes, int]](),
        list[tuple[str, str]](),
    )
    for part in _parts(store, layout, tree, sorted(paths)):
        for batch in store.read(part):
            gaps += batch.gaps
            for row, path in enumerate(batch.paths):
                if path in requested_paths:
                    values_by_path[path] = bytes(batch.data[row]), int(batch.version[row])
    return values_by_path, gaps


def _root_gaps(store: MetadataStore, nodes: ClusterNodes) -> list[tuple[str, str]]:
    """Return unreadable places that may hide any znode, such as the missing end of a dump that is cut off."""
    truncation_gaps = [(store.root, nodes.damage)] if nodes.damage is not None else []
    return [*truncation_gaps, *(gap for gap in nodes.gaps if gap[0] == store.root)]


def path_of(layout: LayoutKind, ledger: LedgerId) -> str:
    """Return the path of a ledger in a layout, relative to the root."""
    if layout is LayoutKind.ETCD:
        return etcd.to_path(ledger)
    return ledger_path.to_scope_id_path(ledger) if ledger.scope else to_path(layout, ledger.id)


def _paths_of_other_layouts(root: str, layout: LayoutKind, ledger: LedgerId) -> dict[str, LayoutKind]:
    """Return the paths of a ledger in ZooKeeper layouts other than ``layout``, each with its layout.

    The dict is empty for a ledger id over 64 bits, or if ``layout`` is etcd's layout.
    """
    if ledger.scope or layout is LayoutKind.ETCD:
        return {}
    expected_path = to_path(layout, ledger.id)
    layout_of_relative_path = {to_path(layout_name, ledger.id): layout_name for layout_name in _TREE_LAYOUTS}
    return {
        f"{root}/{relative_path}": layout_name
        for relative_path, layout_name in layout_of_relative_path.items()
        if relative_path != expected_path
    }


def _may_be_in_scope(classified_path: ClassifiedPath, scope_id: int) -> bool:
    """Return whether a path may belong to a ledger whose id has the upper 64 bits ``scope_id``.

    A path that fits no layout may belong to any scope.
    """
    return classified_path.kind == "other" or classified_path.scope_id in (scope_id, None)


def _parts(store: MetadataStore, layout: LayoutKind, tree: Tree, paths: list[str]) -> list[Part]:
    """Return parts that contain the given paths of a tree.

    For a running store, the parts contain nothing else.
    """
    if isinstance(store, WatchableStore):
        return store.parts_of_paths(paths, _PART_COUNT)
    if isinstance(store, OnePathStore):
        return [store.part_of_path(path) for path in paths]
    return store.parts(tree, layout, _PART_COUNT)


def _stored_ledger(store: MetadataStore, batch: ZnodeBatch, row: int, ledger: LedgerId) -> StoredLedger:
    metadata, damage, ctime, mtime = None, None, None, None
    if store.keeps_times:  # a live etcd has the moment of the scan as mtime
        ctime, mtime = int(batch.ctime[row]), int(batch.mtime[row])
    try:
        metadata = ledger_metadata.parse(batch.data[row], ctime)
    except DecodeError as error:
        damage = str(error)
    rule_texts = (
        tuple(f"{broken_rule.rule}: {broken_rule.reason}" for broken_rule in broken_rules(metadata))
        if metadata
        else ()
    )
    version = int(batch.version[row])
    return StoredLedger(ledger, batch.paths[row], version, ctime, mtime, metadata, damage, rule_texts)
