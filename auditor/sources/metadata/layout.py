"""Which layout the ledgers have: the store decides, and a URI may only agree."""

from __future__ import annotations

from auditor.codecs.store import layout
from auditor.errors import DecodeError, RuleError, StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import ClusterNodes, MetadataStore
from auditor.sources.metadata.uri import MetadataUri


def choose_layout(store: MetadataStore, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    """The layout, and a sentence for the report that says where it comes from.

    At ZooKeeper's paths LAYOUT decides. BookKeeper's etcd driver has one layout, and LAYOUT may only agree.

    Raises:
        UsageError: the URI says another layout than the LAYOUT znode; the message names both.
        StoreError: the LAYOUT znode cannot be read or understood, so that no path means anything; or LAYOUT
            names the ledger manager of another kind of store.
    """
    if store.keeps_marks:  # at ZooKeeper's paths, in whatever store
        return _by_paths(store.uri, cluster)
    return _in_etcd(store.uri, cluster)


def _by_paths(uri: MetadataUri, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    asked = uri.layout
    znode = cluster.nodes.get("LAYOUT")
    for path, reason in cluster.gaps:
        # What may not be read is not absent: nothing can be assumed of it.
        if path.rpartition("/")[2] == "LAYOUT":
            raise StoreError(f"--metadata {uri}: its layout at {path} cannot be read: {reason}")
    if znode is None:
        where = "taken from the URI" if asked else "hierarchical is assumed"
        return asked or LayoutKind.HIERARCHICAL, f"no LAYOUT znode: {where}"
    try:
        kind = layout.decode(znode.data).kind
    except (DecodeError, RuleError) as error:
        raise StoreError(f"--metadata {uri}: its LAYOUT znode cannot be understood: {error}") from error
    if kind is LayoutKind.ETCD:
        raise StoreError(
            f"--metadata {uri}: its paths are ZooKeeper's, and its LAYOUT znode names etcd's ledger manager, "
            "whose ledgers lie in etcd"
        )
    if asked is not None and asked is not kind:
        raise UsageError(f"--metadata {uri}: the URI says {asked.value}, the LAYOUT znode says {kind.value}")
    return kind, f"LAYOUT says {kind.value}"


def _in_etcd(uri: MetadataUri, cluster: ClusterNodes) -> tuple[LayoutKind, str]:
    key = cluster.nodes.get("LAYOUT")
    if key is None:
        return LayoutKind.ETCD, "no layout key: etcd has one layout"
    try:
        said = layout.decode(key.data)
        kind = said.kind
    except DecodeError as damage:
        return LayoutKind.ETCD, f"the layout key cannot be understood ({damage}): etcd has one layout"
    except RuleError as error:
        raise StoreError(f"--metadata {uri}: {key.path} cannot be understood: {error}") from error
    if kind is not LayoutKind.ETCD:
        raise StoreError(
            f"--metadata {uri}: this is etcd, and {key.path} names {said.manager}, which keeps its "
            "ledgers in ZooKeeper, or at its paths: metadata-store:etcd://host:2379/ledgers"
        )
    return kind, "the layout key says etcd"
