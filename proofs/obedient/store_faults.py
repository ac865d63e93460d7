"""Faults of the metadata store: cookies, metadata, owners, marks and settings.

Each function makes one fault and returns its description.
"""

from __future__ import annotations

from proofs.obedient.cluster import TOPICS, TrialCluster, TrialLedger
from proofs.obedient.targets import choose_any, choose_running, has_metadata, ledger_names
from tests.clusters.store import edit_metadata

SWITCHED_OFF = "/ledgers/underreplication/disable"
OTHER_INSTANCE = b"11111111-2222-3333-4444-555555555555"
GONE_BOOKIE = "127.0.0.1:3181"
"""The id of a bookie that does not exist."""


def delete_cookie(cluster: TrialCluster) -> str:
    bookie = choose_any(cluster)
    if cluster.store.client.exists(cluster.store.cookie(bookie)):
        cluster.store.delete(cluster.store.cookie(bookie))
    return f"the cookie of {bookie} is deleted"


def leave_cookie(cluster: TrialCluster) -> str:
    """Create the cookie of a bookie that does not exist any more."""
    own = choose_any(cluster)
    path = cluster.store.cookie(GONE_BOOKIE)
    if not cluster.store.client.exists(path) and cluster.store.client.exists(cluster.store.cookie(own)):
        data, _ = cluster.store.client.get(cluster.store.cookie(own))
        cluster.store.client.create(path, data.replace(own.encode(), GONE_BOOKIE.encode()))
    return f"the cookie of {GONE_BOOKIE} is left"


def rename_in_metadata(cluster: TrialCluster) -> str:
    """Replace a bookie's id by another id in the metadata of ledgers."""
    bookie = choose_running(cluster)
    ledgers = [ledger for ledger in cluster.closed() if bookie in ledger.ensemble]
    chosen = ledgers if cluster.random.random() < 0.5 else ledgers[:2]
    for ledger in chosen:
        if not has_metadata(cluster, ledger):
            continue

        def rename(record: object) -> None:
            for segment in record.segment:  # type: ignore[attr-defined]
                names = [GONE_BOOKIE if name == bookie else name for name in segment.ensembleMember]
                del segment.ensembleMember[:]
                segment.ensembleMember.extend(names)

        edit_metadata(cluster.store, ledger.id, rename)
    return f"{ledger_names(chosen)} name {bookie} as {GONE_BOOKIE}"


def lose_metadata(cluster: TrialCluster) -> str:
    """Delete the metadata of one or two ledgers that a topic lists."""
    return _lose_metadata(cluster, _owned(cluster)[:2])


def lose_most_metadata(cluster: TrialCluster) -> str:
    ledgers = _owned(cluster)
    return _lose_metadata(cluster, ledgers[: 2 * len(ledgers) // 3])


def lose_owners(cluster: TrialCluster) -> str:
    """Delete topics from the owner store although their ledgers are in use."""
    cluster.lost_topics = TOPICS[:2]
    for topic in cluster.lost_topics:
        cluster.store.client.delete(f"/managed-ledgers/{topic}")
    return f"the lists of {', '.join(cluster.lost_topics)} are gone"


def switch_replication_off(cluster: TrialCluster) -> str:
    if not cluster.store.client.exists(SWITCHED_OFF):
        cluster.store.client.create(SWITCHED_OFF, makepath=True)
    return "replication is switched off"


def change_instance(cluster: TrialCluster) -> str:
    cluster.store.put("/ledgers/INSTANCEID", OTHER_INSTANCE)
    return "the store has another instance id"


def mark_without_need(cluster: TrialCluster) -> str:
    """Mark a ledger as under-replicated for a bookie that has its copy."""
    marked = cluster.random.choice(cluster.closed())
    digits = f"{marked.id:016x}"
    parts = "/".join(digits[start : start + 4] for start in range(0, 16, 4))
    path = f"/ledgers/underreplication/ledgers/{parts}/urL{marked.id:010}"
    if not cluster.store.client.exists(path):
        value = f'replica: "{marked.ensemble[0]}"\nctime: 1700000000000\n'.encode()
        cluster.store.client.create(path, value, makepath=True)
    return f"ledger {marked.id} is marked for {marked.ensemble[0]}"


def _owned(cluster: TrialCluster) -> list[TrialLedger]:
    """Return the closed ledgers that a topic lists, in a random order.

    An audit cannot distinguish a ledger without metadata and owner from a deleted ledger.
    """
    topics = {*TOPICS} - {*cluster.lost_topics}
    ledgers = [ledger for ledger in cluster.closed() if ledger.topic in topics]
    return cluster.random.sample(ledgers, len(ledgers))


def _lose_metadata(cluster: TrialCluster, ledgers: list[TrialLedger]) -> str:
    for ledger in ledgers:
        if has_metadata(cluster, ledger):
            cluster.store.delete(cluster.store.path(ledger.id))
    return f"{ledger_names(ledgers)} have no metadata"
