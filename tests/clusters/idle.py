"""A healthy cluster without activity of its own, and audits of it, for tests of a single effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import Audit
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.model.report import exit_code
from tests.clusters.store import ROOT, EtcdStore, Store
from tests.corpora.audited import FinishedRun
from tests.servers.bookies.driver import Bookies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPIES = ("entry-lost", "below-ack-quorum", "below-write-quorum")


@dataclass(frozen=True)
class IdleClusterRun(FinishedRun):
    """A finished run and the exit code that the command line would end with."""

    exit_code: int

    def copy_findings(self) -> list[tuple[str, int, str]]:
        """Return the id, ledger and confidence of each finding about copies."""
        return [
            (row["id"], row["ledger_id"], row["confidence"]) for id in COPIES for row in self.findings_of(id)
        ]

    def confirmed_ids(self) -> set[str]:
        return {row["id"] for row in self.findings() if row["confidence"] == "confirmed"}


class ProgressHook(SilentProgress):
    """Progress that runs an action once, when a table begins."""

    def __init__(self, table: str, deed: Callable[[], None]) -> None:
        self._table = table
        self._deed = deed
        self.done = False

    def table(self, name: str, total: int | None = None) -> None:
        if name == self._table and not self.done:
            self.done = True
            self._deed()


@contextmanager
def idle_cluster(
    root: Path, storage: str, bookies: int = 3, auditor: bool = True, **bookie_options: Any
) -> Iterator[tuple[Bookies, Store]]:
    """Yield bookies in one process on their own ZooKeeper, and its store; they flush only on request.

    No AutoRecovery runs. ``auditor`` adds an auditor's vote, without which a cluster is not healthy.
    """
    with (
        EmbeddedZooKeeper(root / "zookeeper") as server,
        Store(server.hosts) as store,
        Bookies(store.uri, root, storage, [None] * bookies, **bookie_options) as cluster,
    ):
        if auditor:
            vote_for(store, cluster.ids[0])
        yield cluster, store


def vote_for(store: Store, bookie: str) -> None:
    """Create an auditor's vote as AutoRecovery of that bookie does. The vote ends with the session."""
    path, value = f"{ROOT}/underreplication/auditorelection/V_", f'bookieId: "{bookie}"\n'
    store.client.create(path, value.encode(), ephemeral=True, sequence=True, makepath=True)


def audit(
    spark: SparkSession,
    store: Store | EtcdStore,
    sources: Sequence[str],
    out: Path,
    progress: SilentProgress | None = None,
    **options: Any,
) -> IdleClusterRun:
    """Audit into the new directory ``out``."""
    audit_options = AuditOptions(**{"timeout": 5.0, **options})
    report = Audit(store.uri, list(sources), str(out), audit_options).run(spark, progress)
    return IdleClusterRun(report, out, exit_code(report, audit_options.fail_on))
