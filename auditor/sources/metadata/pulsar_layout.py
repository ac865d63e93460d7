"""Whether a store without a LAYOUT znode has the layout of Pulsar's own metadata driver.

BookKeeper writes LAYOUT before anything else. Pulsar's driver (`PulsarLedgerManagerFactory`) never does: it
has one layout, the two hierarchical trees, so that the missing znode is no sign of damage. 13 of 13 published
data sets of Pulsar clusters have none.
"""

from __future__ import annotations

from auditor.errors import StoreError
from auditor.model.ledger_id import LayoutKind
from auditor.sources.metadata.store import ClusterNodes, MetadataStore, NeighbourStore
from auditor.sources.metadata.uri import METADATA_STORE

PULSAR_TREE = "managed-ledgers"
"""The tree of topics, beside BookKeeper's root: every store that a broker has used has it."""

_REGISTRATION_PLACES = ("available", "cookies")
"""Where bookies register. In etcd no key stands for either: each is there if a bookie is."""


def has_pulsar_layout(store: MetadataStore, cluster: ClusterNodes) -> bool:
    """Return whether the store has no LAYOUT and looks as Pulsar's driver leaves it.

    That the ledgers lie in the two trees is not known here: a scan shows it.

    Args:
        store: the store, after `MetadataStore.cluster`.
        cluster: what that returned.
    """
    if not store.keeps_marks or "LAYOUT" in cluster.nodes:
        return False  # BookKeeper's etcd driver has another layout, and LAYOUT decides where it is
    if store.uri.layout not in (None, LayoutKind.HIERARCHICAL):
        return False
    tops = {path.partition("/")[0] for path in cluster.nodes}
    return not tops.isdisjoint(_REGISTRATION_PLACES) and _belongs_to_pulsar(store)


def _belongs_to_pulsar(store: MetadataStore) -> bool:
    """Whether the URI names Pulsar's driver, or Pulsar keeps its topics beside BookKeeper's root."""
    if store.uri.text.startswith(METADATA_STORE):
        return True
    try:
        return isinstance(store, NeighbourStore) and store.has_beside(PULSAR_TREE)
    except StoreError:
        return False
