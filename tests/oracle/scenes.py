"""The clusters of the oracle by name: each is spoiled and audited, and gives what was planted and found."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import Audit
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from tests.corpora.audited import Audited
from tests.living.idle import At, audit, idle_cluster
from tests.living.store import Store
from tests.oracle import identity, ledgers, owners, placement, storage
from tests.oracle.plants import Finding, Plants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Outcome = tuple[Plants, list[Finding]]
Scene = Callable[["SparkSession", Path], Iterator[Outcome]]
DAY_S = 86_400


def _in(seconds: float) -> int:
    return round((time.time() + seconds) * 1000)


def _ledgers(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """What stays is three days old."""
    plants = Plants()
    with idle_cluster(root, ledgers.STORAGE, ledgers.BOOKIES) as (cluster, store):
        meanwhile = At("ledgers_again", ledgers.plant(cluster, store, plants))
        sources, later = [str(cluster.directory)], _in(3 * DAY_S)
        run = audit(spark, store, sources, root / "run", meanwhile, scan_time=later, grace=0.0)
        assert meanwhile.done
    yield plants, run.findings()


@contextmanager
def _many(
    root: Path, kind: str, ids: tuple[str, ...], **given: Any
) -> Iterator[tuple[identity.ManyBookies, Store]]:
    with (
        EmbeddedZooKeeper(root / "zookeeper") as server,
        Store(server.hosts) as store,
        identity.ManyBookies(store.uri, root, kind, ids, ledger_dirs=2, **given) as cluster,
    ):
        yield cluster, store


def _identity(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    plants = Plants()
    with _many(root, identity.STORAGE, identity.IDS) as (cluster, store):
        identity.plant(cluster, store, plants)
        run = audit(spark, store, [str(cluster.directory)], root / "run", grace=0.0)
    yield plants, run.findings()


def _storage(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Two audits, hours apart: what is stuck takes both."""
    plants = Plants()
    with _many(root, storage.STORAGE, storage.IDS, settings=storage.SETTINGS) as (cluster, store):
        storage.plant(cluster, plants)
        sources, given = [str(cluster.directory)], storage.options(root)
        audit(spark, store, sources, root / "runs" / "1", grace=0.0, **given)
        later = _in(storage.LATER_S)
        run = audit(spark, store, sources, root / "runs" / "2", grace=0.0, scan_time=later, **given)
    yield plants, run.findings()


def _placement(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Two audits, with other racks and settings."""
    with idle_cluster(root, placement.STORAGE, placement.BOOKIES) as (cluster, store):
        placement.write(cluster)
        sources = [str(cluster.directory)]
        plants = Plants()
        given = placement.set_racks(cluster, store, plants)
        yield plants, audit(spark, store, sources, root / "racks", **given).findings()
        plants = Plants()
        given = placement.mix_racks(cluster, store, plants, root)
        yield plants, audit(spark, store, sources, root / "mixed" / "run", **given).findings()


def _owners(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """The corpus served by a ZooKeeper; a first audit says what was offloaded, as a bucket needs it."""
    plants = Plants()
    shutil.copytree(owners.DATA / "zookeeper", root / "server")
    with EmbeddedZooKeeper(root / "server") as server:
        owners.plant(server.hosts, plants)
        given: dict[str, Any] = {"owner_grace": 0.0}
        for name in ("first", "run"):
            options = AuditOptions(**given)
            report = Audit(f"zk://{server.hosts}/ledgers", [], str(root / name / "run"), options).run(spark)
            run = Audited(report, root / name / "run")
            if name == "first":
                given |= owners.list_objects(run.table("ownership"), root / "bucket.csv", plants)
    yield plants, run.findings()


SCENES: dict[str, Scene] = {
    "ledgers": _ledgers,
    "identity": _identity,
    "storage": _storage,
    "placement": _placement,
    "owners": _owners,
}
