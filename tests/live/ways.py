"""The ways to a bookie's index, and what each of them can see of a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from auditor import Audit
from auditor.collect.collect import collect
from auditor.model.options import AuditOptions, YesNo
from tests.corpora.audited import Audited
from tests.corpora.brute_force import World, members
from tests.live.scenario import KINDS, LiveCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Way:
    """``sources`` makes the ``--bookies`` values, given a new directory that it may make.

    ``sees`` cuts the truth down to what can be seen this way. ``lists_ledgers`` is whether a bookie's own
    list of ledgers is seen; a way without it asks for the ledgers of metadata. What came of it is a table.
    """

    name: str
    sources: Callable[[LiveCluster, Path], list[str]]
    sees: Callable[[LiveCluster, World], World]
    lists_ledgers: bool
    table: str

    def audit(self, cluster: LiveCluster, spark: SparkSession, root: Path, witness: YesNo = "yes") -> Audited:
        """Audit the running cluster this way, below ``root``."""
        sources = self.sources(cluster, root / "sources")
        # Everything was flushed after the metadata was written: there is nothing to be patient about.
        options = AuditOptions(grace=0, timeout=5, witness=witness)
        report = Audit(cluster.metadata.uri, sources, str(root / "run"), options).run(spark)
        return Audited(report, root / "run")


def _everything(cluster: LiveCluster, world: World) -> World:
    return world


def _asked(cluster: LiveCluster, world: World) -> World:
    """Running bookies' answers for the ledgers whose metadata names them."""
    running = world.read - {cluster.stopped}
    indexes = {
        (ledger, bookie): index
        for (ledger, bookie), index in world.indexes.items()
        if bookie in running and ledger in world.ledgers and bookie in members(world.ledgers[ledger])
    }
    return replace(world, indexes=indexes, read=running)


def _collected(cluster: LiveCluster, out: Path) -> list[str]:
    return [collect([str(cluster.bookies.directory)], str(out)).path]


def _directories(cluster: LiveCluster, _: Path) -> list[str]:
    return [str(cluster.bookies.directory)]


DISK = Way("disk", _directories, _everything, lists_ledgers=True, table="availability")
COLLECTED = Way("collected", _collected, _everything, lists_ledgers=True, table="availability")
RPC = Way("rpc", lambda *_: ["rpc:"], _asked, lists_ledgers=False, table="answers")
BOTH = Way("disk-and-rpc", lambda *given: [*_directories(*given), "rpc:"], _everything, True, "availability")

WAYS: dict[str, tuple[Way, ...]] = {
    "SortedLedgerStorage-flat": (DISK, COLLECTED, RPC),
    "DbLedgerStorage-longhierarchical": (DISK, COLLECTED),  # it lists no entries
    "InterleavedLedgerStorage-etcd": (DISK, RPC),
}
"""Each storage and layout once; Interleaved on ZooKeeper is the witness's (`tests.live.test_witness`)."""

COMBINATIONS = [(kind, way) for kind in KINDS for way in WAYS.get(kind.name, ())]


def without_journals(directory: Path, inventory: Path) -> Path:
    """An inventory of the ledger directories alone."""
    lines = []
    for place in sorted(path for path in directory.iterdir() if path.is_dir()):
        lists = {
            role: sorted(str(found.parent) for found in place.rglob("current") if name in found.parent.name)
            for role, name in (("ledgers", "ledgers"), ("index", "index"))
        }
        lines += [f'[bookies."{place.name.replace("_", ":")}"]']
        lines += [f"{role} = {paths}" for role, paths in lists.items() if paths]
    inventory.write_text("\n".join([*lines, ""]))
    return inventory
