"""The demonstration: a real ZooKeeper with the sample cluster in it, and a full audit over it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.audit.audit import Audit
from auditor.demo.faults import plant
from auditor.demo.sample import ROOT, SampleCluster, unpack
from auditor.embedded.zookeeper import NO_EXPIRY_TICK_MS, EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress
from auditor.model.report import Report
from auditor.notebook.run import open_run
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import Znode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Key = tuple[str, str | None, str | None]
"""id, ledger and bookie of a finding."""

_HOUR_MS = 60 * 60 * 1000
_PERSISTENT, _EPHEMERAL = 0, 1


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration saw: its report, and how the findings differ from the known ones."""

    report: Report
    not_found: list[Key]
    not_known: list[Key]

    @property
    def as_known(self) -> bool:
        """Whether all the sample's known findings were found, and no others."""
        return not self.not_found and not self.not_known


def expected_findings() -> set[Key]:
    """The findings of the sample cluster, worked out from its list of faults."""
    text = (files("auditor.demo") / "sample" / "known.json").read_text("utf-8")
    return {(id, ledger, bookie) for id, ledger, bookie in json.loads(text)}


def show(
    out: str, options: AuditOptions, progress: Progress, spark: SparkSession | None = None
) -> DemoResult:
    """Start a ZooKeeper, load the sample, audit it, stop what was started.

    The sample was just written, so its ages are set: it is audited as a day and an hour from now, against
    indexes an hour from now.
    """
    now = now_ms()
    # Its bookies are directories: nobody could be asked for an entry.
    options = replace(options, scan_time=now + 25 * _HOUR_MS, index_time=now + _HOUR_MS, witness="no")
    with tempfile.TemporaryDirectory(prefix="bkaudit-demo-") as directory:
        work = Path(directory)
        progress.stage("sample cluster")
        cluster = unpack(work, now)
        plant(cluster)
        with EmbeddedZooKeeper(work / "zookeeper", tick_time_ms=NO_EXPIRY_TICK_MS) as server:
            server.load(sample_znodes(cluster))
            uri = f"zk://{server.hosts}{ROOT}"
            report = Audit(uri, [str(cluster.bookies)], out, options).run(spark, progress)
    found = {(finding.id, _text(finding.ledger_id), finding.bookie_id) for finding in open_run(out).findings}
    return DemoResult(
        report, _sort_keys(expected_findings() - found), _sort_keys(found - expected_findings())
    )


def sample_znodes(cluster: SampleCluster) -> list[Znode]:
    """The sample's tree, parents first, as the embedded server loads it."""
    return [
        Znode(path, data, 0, 0, 0, 0, 0, _EPHEMERAL if path in cluster.ephemeral else _PERSISTENT)
        for path, data in sorted(cluster.znodes.items())
    ]


def _text(ledger_id: int | None) -> str | None:
    return None if ledger_id is None else str(ledger_id)


def _sort_keys(keys: set[Key]) -> list[Key]:
    return sorted(keys, key=lambda key: tuple(part or "" for part in key))
