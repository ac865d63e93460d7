"""The ways to a bookie's index, and what each of them can see of a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auditor import Audit
from auditor.model.options import AuditOptions
from tests.corpora.audited import Audited
from tests.corpora.brute_force import World
from tests.live.scenario import LiveCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Way:
    """``sources`` makes the ``--bookies`` values, given a directory to write to.

    ``sees`` cuts the truth down to what can be seen this way; ``by_bookie`` are the ids that follow from a
    bookie's own list of ledgers, which not every way has.
    """

    name: str
    sources: Callable[[LiveCluster, Path], list[str]]
    sees: Callable[[LiveCluster, World], World]
    lists_ledgers: bool

    def audit(self, cluster: LiveCluster, spark: SparkSession, root: Path) -> Audited:
        """Audit the running cluster this way, below ``root``."""
        sources = self.sources(cluster, root / "sources")
        # Everything was flushed after the metadata was written: there is nothing to be patient about.
        report = Audit(cluster.metadata.uri, sources, str(root / "run"), AuditOptions(grace=0)).run(spark)
        return Audited(report, root / "run")


def _everything(cluster: LiveCluster, world: World) -> World:
    return world


DISK = Way("disk", lambda cluster, _: [str(cluster.bookies.directory)], _everything, lists_ledgers=True)

WAYS = (DISK,)
