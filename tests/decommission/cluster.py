"""Real bookies in racks with AutoRecovery running, and the server's behavior when one is decommissioned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.clusters.store import Store
from tests.servers.bookies.driver import Bookies

DIRECTORY = Path(__file__).parent
TICK_MS = 500

SETTINGS: dict[str, str | int] = {
    "autoRecoveryDaemonEnabled": "true",
    "reppDnsResolverClass": "Racks",
    # A bookie that is down is nobody's matter before the command asks for an audit.
    "lostBookieRecoveryDelay": 3_600,
    "openLedgerRereplicationGracePeriod": 2_000,
    "zkTimeout": 4_000,
    "auditorPeriodicBookieCheckInterval": 0,
    "auditorPeriodicCheckInterval": 0,
}


class RackedBookies(Bookies):
    """Bookies in one process, each with its own address and rack."""

    MAIN = "DecommissionHarness"
    JAVA = tuple(sorted(DIRECTORY.glob("java/*.java")))
    MEMORY = ("-Xmx640m", "-XX:MaxDirectMemorySize=512m")

    def __init__(self, store: Store, root: Path, racks: Sequence[str], **kwargs: Any) -> None:
        hosts = [f"127.0.0.{number + 2}" for number in range(len(racks))]
        super().__init__(store.uri, root, "SortedLedgerStorage", [None] * len(racks), hosts=hosts, **kwargs)
        self.racks = dict(zip(self.ids, racks, strict=True))
        self._config["racks"] = dict(zip(hosts, racks, strict=True))

    def read_all(self, ledger: int) -> dict[str, Any]:
        """Return a client's read of a ledger: ``last`` and ``entries``, or ``failed``, its open error."""
        result: dict[str, Any] = self._do("read_all", ledger=ledger)
        return result

    def creates(self, ledger: int, ensemble_size: int, write_quorum: int, ack_quorum: int) -> bool:
        """Return whether a client can create and write a ledger of this shape, then delete the ledger."""
        shape = {"ensemble_size": ensemble_size, "write_quorum": write_quorum, "ack_quorum": ack_quorum}
        can_create: bool = self._do("creates", ledger=ledger, **shape)
        return can_create

    def decommission(self, bookie: str, limit_s: float) -> str:
        """Run ``decommissionbookie``; return done, not done, waiting (at the time limit), or its error."""
        end: str = self._do("decommission", bookie=bookie, limit_s=round(limit_s))
        return end

    def recover(self, bookie: str, ledger: int) -> None:
        """Run ``recover BOOKIE -l LEDGER``: copy a ledger's entries off a bookie that may be running."""
        self._do("recover", bookie=bookie, ledger=ledger)


@contextmanager
def racked_cluster(
    root: Path, racks: Sequence[str], settings: Mapping[str, str | int] | None = None
) -> Iterator[tuple[RackedBookies, Store]]:
    """Yield a new cluster with a bookie for each rack."""
    with (
        EmbeddedZooKeeper(root / "zookeeper", tick_time_ms=TICK_MS) as server,
        Store(server.hosts) as store,
        RackedBookies(store, root, racks, settings={**SETTINGS, **(settings or {})}) as cluster,
    ):
        yield cluster, store
