"""The ways to read a bookie's index, and the part of a live cluster that each of them can see."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from auditor import Audit
from auditor.model.option_values import YesNo
from auditor.model.options import AuditOptions
from auditor.notebook.run import open_run
from tests.corpora.audited import FinishedRun
from tests.corpora.brute_force import World, members
from tests.live.recorded import Record, record
from tests.live.requests import bookie_requests, through_proxy, zookeeper_requests
from tests.live.scenario import KINDS, Kind, LiveCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Way:
    """A way to read the indexes of a live cluster.

    ``sources`` returns the ``--bookies`` values. It may create the directory that it receives. ``sees``
    reduces the true state to the visible part. ``lists_ledgers``: the way sees a bookie's own list of
    ledgers. Otherwise it asks for the ledgers of the metadata. ``table`` has the results. ``by_commands``:
    the command line audits (`by_commands`).
    """

    name: str
    sources: Callable[[LiveCluster, Path], list[str]]
    sees: Callable[[LiveCluster, World], World]
    lists_ledgers: bool
    table: str
    by_commands: bool = False

    def audit(
        self, cluster: LiveCluster, spark: SparkSession, root: Path, witness: YesNo = "yes"
    ) -> FinishedRun:
        """Audit the running cluster this way, below ``root``."""
        sources = self.sources(cluster, root / "sources")
        # Everything was flushed after the metadata was written: there is nothing to be patient about.
        options = AuditOptions(grace=0, timeout=5, witness=witness)
        report = Audit(cluster.metadata.uri, sources, str(root / "run"), options).run(spark)
        return FinishedRun(report, root / "run")


@dataclass(frozen=True)
class Recorded(FinishedRun):
    """An audit among other commands, and everything that their processes wrote and sent."""

    record: Record
    calls: Counter[str]
    """To etcd."""
    own: Path
    """The directory in which they were to write."""

    def requests(self, cluster: LiveCluster) -> dict[str, Counter[str]]:
        """Count the requests to each kind of server. All other connections are of this machine's Spark."""
        store = urlsplit(cluster.metadata.uri).port
        kinds = {store: ("ZooKeeper", zookeeper_requests)}
        kinds |= dict.fromkeys(cluster.bookies.ports, ("bookies", bookie_requests))
        sent = {"etcd": self.calls} if self.calls else {}
        for port in self.record.ports & kinds.keys():
            server, read = kinds[port]
            sent.setdefault(server, Counter()).update(sum(map(read, self.record.sent_to(port)), Counter()))
        return sent


def by_commands(cluster_ways: Sequence[tuple[LiveCluster, Way]], root: Path) -> dict[Kind, Recorded]:
    """Audit on the command line, among all commands that look at a cluster, in one recorded process.

    The commands look at one cluster after the other. A process alone spends half of its time before Spark has
    started and its code is compiled.
    """
    own = root / "own"
    scratch = own / "scratch"
    scratch.mkdir(parents=True)
    calls: dict[Kind, Counter[str]] = {}
    words: list[str] = []
    with ExitStack() as proxies:
        for cluster, way in cluster_ways:
            (place := own / cluster.kind.name).mkdir()
            [source] = way.sources(cluster, place / "collected")
            uri, calls[cluster.kind] = proxies.enter_context(through_proxy(cluster.metadata.uri))
            words += [uri, str(cluster.bookies.directory), source, str(place)]
        environment = {
            "TMPDIR": str(scratch),
            "SPARK_LOCAL_DIRS": str(scratch),
            # With a word on archives of classes none is made, which takes longer than all commands.
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData -Xshare:auto",
            "XDG_CACHE_HOME": str(own / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        recording = record(
            [sys.executable, "-m", "tests.live.every_command", *words], root / "record", environment
        )
    runs = {kind: own / kind.name / "run" for kind in calls}
    return {
        kind: Recorded(open_run(run).report, run, recording, calls[kind], own) for kind, run in runs.items()
    }


def _everything(cluster: LiveCluster, world: World) -> World:
    return world


def _rpc_answers(cluster: LiveCluster, world: World) -> World:
    """Return the answers of running bookies for the ledgers with metadata that names them."""
    running = world.read - {cluster.stopped}
    indexes = {
        (ledger, bookie): index
        for (ledger, bookie), index in world.indexes.items()
        if bookie in running and ledger in world.ledgers and bookie in members(world.ledgers[ledger])
    }
    return replace(world, indexes=indexes, read=running)


def _directories(cluster: LiveCluster, _: Path) -> list[str]:
    return [str(cluster.bookies.directory)]


DISK = Way("disk", _directories, _everything, lists_ledgers=True, table="availability")
RPC = Way("rpc", lambda *_: ["rpc:"], _rpc_answers, lists_ledgers=False, table="answers")
DISK_AND_RPC = Way(
    "disk-and-rpc", lambda *args: [*_directories(*args), "rpc:"], _everything, True, "availability"
)

COMMANDS_COLLECTED = replace(
    DISK, name="every-command-collected", sources=lambda _, out: [str(out)], by_commands=True
)
COMMANDS_RPC = replace(RPC, name="every-command-rpc", by_commands=True)

WAYS: dict[str, tuple[Way, ...]] = {
    "SortedLedgerStorage-flat": (DISK, RPC),
    "DbLedgerStorage-longhierarchical": (DISK, COMMANDS_COLLECTED),  # it lists no entries
    "InterleavedLedgerStorage-etcd": (DISK, COMMANDS_RPC),
    "InterleavedLedgerStorage-oxia": (DISK,),  # all commands: `tests.clusters.test_oxia`
}
"""Each storage and layout once; Interleaved on ZooKeeper is the witness's (`tests.live.test_witness`)."""

COMBINATIONS = [(kind, way) for kind in KINDS for way in WAYS.get(kind.name, ())]


def without_journals(directory: Path, inventory: Path) -> Path:
    """Write an inventory of the ledger directories only, and return its path."""
    lines = []
    for place in sorted(path for path in directory.iterdir() if path.is_dir()):
        lists = {
            role: sorted(
                str(folder.parent) for folder in place.rglob("current") if name in folder.parent.name
            )
            for role, name in (("ledgers", "ledgers"), ("index", "index"))
        }
        lines += [f'[bookies."{place.name.replace("_", ":")}"]']
        lines += [f"{role} = {paths}" for role, paths in lists.items() if paths]
    inventory.write_text("\n".join([*lines, ""]))
    return inventory
