"""Finished runs of the sample clusters, for those who want one at hand: found, or made."""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from pathlib import Path

from auditor.demo.sample import INSTANCE_ID, extract
from auditor.model.options import AuditOptions
from auditor.model.progress import Silent
from auditor.runs.history import history
from auditor.spark.scratch import scratch_directory
from auditor.spark.types import SparkSession

PULSAR_INSTANCE_ID = "04c28bca-3a65-4b38-9aea-f2c0cd6cdf47"
"""Of the cluster of Pulsar 4.2.4 that wrote ``sample/pulsar-zookeeper.tar.gz``; it was damaged on purpose."""


def sample_run(directory: str | Path = "runs") -> str:
    """The path of the newest run of the sample cluster right below ``directory``.

    ``bkaudit demo`` leaves one in ``./runs``. Where there is none, the demonstration is run; that takes about
    a minute.

    Raises: whatever `auditor.demo.show.show` raises, where there is none and it cannot be made.
    """
    found, out = _found(directory, INSTANCE_ID)
    if not found:
        from auditor.demo.show import show

        show(out, AuditOptions(), Silent())
    return found or out


def owners_run(directory: str | Path = "runs", spark: SparkSession | None = None) -> str:
    """The path of the newest run of the sample Pulsar cluster right below ``directory``: of its metadata.

    Where there is none, it is audited; that takes half a minute.

    Raises: whatever `auditor.audit.audit.Audit.run` raises, where there is none and it cannot be made.
    """
    found, out = _found(directory, PULSAR_INSTANCE_ID)
    if not found:
        from auditor.audit.audit import Audit

        with scratch_directory("demo") as work:
            with as_file(files("auditor.demo") / "sample" / "pulsar-zookeeper.tar.gz") as packed:
                extract(packed, Path(work))
            # The sample was just written: nothing in it is as old as the grace that a leak has.
            options = AuditOptions(owner_grace=0.0)
            Audit(f"zk-snapshot://{work}/version-2", [], out, options).run(spark, Silent())
    return found or out


def _found(directory: str | Path, instance_id: str) -> tuple[str | None, str]:
    """The newest run of a cluster, and where a new one would be."""
    below = Path(directory)
    runs = [run for run in history(below).runs if run.instance_id == instance_id] if below.is_dir() else []
    return runs[-1].path if runs else None, str(below / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
