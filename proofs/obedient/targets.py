"""Random choice of the bookies and ledgers for faults."""

from __future__ import annotations

from proofs.obedient.cluster import TrialCluster, TrialLedger


class TooFewBookiesError(Exception):
    """The error that a fault needs more running bookies than there are."""


def running_bookies(cluster: TrialCluster) -> list[str]:
    registered = cluster.store.registered()
    return [name for name in cluster.bookies.ids if name in registered]


def choose_running(cluster: TrialCluster) -> str:
    """Return a random running bookie."""
    return choose_several_running(cluster, 1)[0]


def choose_several_running(cluster: TrialCluster, count: int) -> list[str]:
    """Return ``count`` different running bookies.

    Raises:
        TooFewBookiesError: Fewer bookies run.
    """
    running = running_bookies(cluster)
    if len(running) < count:
        raise TooFewBookiesError(f"{len(running)} bookies run, and {count} are needed")
    return cluster.random.sample(running, count)


def choose_any(cluster: TrialCluster) -> str:
    return cluster.random.choice(cluster.bookies.ids)


def has_index_files(cluster: TrialCluster, bookie: str) -> bool:
    return (cluster.bookies.place(bookie) / "sorted").exists()


def choose_ledgers_on(cluster: TrialCluster, bookie: str) -> list[TrialLedger]:
    """Return up to three random closed ledgers whose ensemble contains a bookie."""
    ledgers = [ledger for ledger in cluster.closed() if bookie in ledger.ensemble]
    return cluster.random.sample(ledgers, min(len(ledgers), cluster.random.randint(1, 3)))


def ledger_names(ledgers: list[TrialLedger]) -> str:
    return f"ledgers {', '.join(str(ledger.id) for ledger in ledgers)}"


def has_metadata(cluster: TrialCluster, ledger: TrialLedger) -> bool:
    return cluster.store.client.exists(cluster.store.path(ledger.id)) is not None


def start_if_possible(cluster: TrialCluster, bookie: str) -> None:
    """Start a bookie. If it does not start, it stays down."""
    try:
        cluster.bookies.start(bookie)
    except RuntimeError:
        cluster.bookies.stop(bookie)
