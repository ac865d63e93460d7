"""The clusters of the oracle by name.

Each scene damages and audits a cluster. It yields the planted faults and the findings.
"""

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
from proofs.oracle import identity, ledgers, owners, placement, repair, storage
from proofs.oracle.plants import Finding, Plants
from tests.clusters.idle import ProgressHook, audit, idle_cluster
from tests.clusters.store import Store
from tests.corpora.audited import FinishedRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Outcome = tuple[Plants, list[Finding]]
Scene = Callable[["SparkSession", Path], Iterator[Outcome]]
DAY_S = 86_400


def _ms_in(seconds: float) -> int:
    return round((time.time() + seconds) * 1000)


def _without_autorecovery() -> Plants:
    """Return plants with the findings that all bookies without AutoRecovery cause."""
    plants = Plants()
    plants.follows("no-auditor", "no-replication-workers")
    return plants


def _ledgers(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Plant faults of ledgers and audit with a time three days later."""
    plants = _without_autorecovery()
    with idle_cluster(root, ledgers.STORAGE, ledgers.BOOKIES) as (cluster, store):
        meanwhile = ProgressHook("ledgers_again", ledgers.plant(cluster, store, plants))
        sources, later = [str(cluster.directory)], _ms_in(3 * DAY_S)
        settings = root / "checks.toml"
        settings.write_text("[constants]\nopen_days = 1\n", "utf-8")
        options: dict[str, Any] = {"scan_time": later, "grace": 0.0, "check_settings": str(settings)}
        run = audit(spark, store, sources, root / "run", meanwhile, **options)
        assert meanwhile.done
    yield plants, run.findings()


@contextmanager
def _many_bookies(
    root: Path, kind: str, ids: tuple[str, ...], **options: Any
) -> Iterator[tuple[identity.ManyBookies, Store]]:
    with (
        EmbeddedZooKeeper(root / "zookeeper") as server,
        Store(server.hosts) as store,
        identity.ManyBookies(store.uri, root, kind, ids, ledger_dirs=2, **options) as cluster,
    ):
        yield cluster, store


def _identity(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    plants = _without_autorecovery()
    with _many_bookies(root, identity.STORAGE, identity.IDS) as (cluster, store):
        identity.plant(cluster, store, plants)
        run = audit(spark, store, [str(cluster.directory)], root / "run", grace=0.0)
    yield plants, run.findings()


def _storage(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Plant faults of storage and audit twice, hours apart: checks for stuck data need two audits."""
    plants = _without_autorecovery()
    with _many_bookies(root, storage.STORAGE, storage.IDS, settings=storage.SETTINGS) as (cluster, store):
        storage.plant(cluster, plants)
        sources, options = [str(cluster.directory)], storage.options(root)
        audit(spark, store, sources, root / "runs" / "1", grace=0.0, **options)
        later = _ms_in(storage.LATER_S)
        run = audit(spark, store, sources, root / "runs" / "2", grace=0.0, scan_time=later, **options)
    yield plants, run.findings()


def _placement(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Audit three times: with two sets of racks and settings, and with an old copy of a bookie."""
    with idle_cluster(root, placement.STORAGE, placement.BOOKIES) as (cluster, store):
        placement.write(cluster)
        sources = [str(cluster.directory)]
        plants = _without_autorecovery()
        options = placement.set_racks(cluster, store, plants)
        yield plants, audit(spark, store, sources, root / "racks", **options).findings()
        plants = _without_autorecovery()
        options = placement.mix_racks(cluster, store, plants, root)
        yield plants, audit(spark, store, sources, root / "mixed" / "run", **options).findings()
        mixed, plants = plants, Plants()
        plants.followed |= mixed.deeds.keys()
        placement.restore_old_copy(cluster, plants)
        yield plants, audit(spark, store, sources, root / "copied" / "run", **options).findings()


def _owners(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Audit the corpus from a ZooKeeper twice.

    The first audit reads which ledgers were offloaded. The inventory of the bucket is made from them.
    """
    plants = Plants()
    shutil.copytree(owners.DATA / "zookeeper", root / "server")
    with EmbeddedZooKeeper(root / "server") as server:
        owners.plant(server.hosts, plants)
        settings: dict[str, Any] = {"owner_grace": 0.0}
        for name in ("first", "run"):
            options = AuditOptions(**settings)
            report = Audit(f"zk://{server.hosts}/ledgers", [], str(root / name / "run"), options).run(spark)
            run = FinishedRun(report, root / name / "run")
            if name == "first":
                settings |= owners.list_objects(run.table("ownership"), root / "bucket.csv", plants)
    yield plants, run.findings()


def _repair(spark: SparkSession, root: Path) -> Iterator[Outcome]:
    """Audit a cluster without AutoRecovery twice, with a time three days later.

    Before the second audit, re-replication and writes are disabled too.
    """
    with idle_cluster(root, repair.STORAGE, repair.BOOKIES, auditor=False) as (cluster, store):
        for name, deed in (("first", repair.stop_repair), ("second", repair.switch_off)):
            plants = Plants()
            deed(cluster, store, plants)
            sources, out = [str(cluster.directory)], root / name / "run"
            yield plants, audit(spark, store, sources, out, grace=0.0, scan_time=_ms_in(3 * DAY_S)).findings()


SCENES: dict[str, Scene] = {
    "ledgers": _ledgers,
    "identity": _identity,
    "storage": _storage,
    "placement": _placement,
    "owners": _owners,
    "repair": _repair,
}
