"""Errors of tasks, on a real Spark with a real ZooKeeper that stops."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import auditor
from auditor.errors import StoreError, UsageError
from auditor.spark import tasks
from auditor.spark.tasks import restore_task_errors
from tests.servers.zookeeper import ZooKeeperProcess, write, writer


def test_zookeeper_stopped_during_task_raises_store_error(spark: SparkSession, tmp_path: Path) -> None:
    auditor.register(spark)
    with ZooKeeperProcess(tmp_path / "server") as server:
        with writer(server.hosts) as client:
            write(client, {f"/bk/00/0000/L{n:04}": b"" for n in range(900)})
        options = {
            "metadata": f"zk://{server.hosts}/bk",
            "rate_limit": "20",
            "timeout_s": "1",
            "batch": "10",
        }
        ledgers = spark.read.format("bookkeeper_ledgers").options(**options, parts="2").load()

        def stop_server_during_read() -> None:
            while not (has_running_tasks(spark) and server.connections()):
                time.sleep(0.05)
            server.kill()

        spark.sparkContext.setJobGroup(GROUP, "reads a store that goes away")
        away = threading.Thread(
            target=stop_server_during_read, daemon=True
        )  # a test that fails must not keep the run
        away.start()
        with (
            pytest.raises(StoreError, match=rf"^cannot connect to ZooKeeper at {server.hosts}: .*TLS$"),
            restore_task_errors(),
        ):
            ledgers.write.parquet(str(tmp_path / "ledgers"))
        away.join(60)
        assert not away.is_alive(), "it was read before its server ended"
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # unsets it


GROUP = "a store that goes away"


def has_running_tasks(spark: SparkSession) -> bool:
    """Return whether tasks of the group run; an earlier step plans them over another connection."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(GROUP)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)


def test_missing_metadata_option_raises_usage_error(spark: SparkSession) -> None:
    auditor.register(spark)
    with (
        pytest.raises(UsageError, match=r"^bookkeeper_ledgers: set the option metadata, for example to"),
        restore_task_errors(),
    ):
        spark.read.format("bookkeeper_ledgers").load().count()


def test_other_errors_pass_through_unchanged(spark: SparkSession) -> None:
    @F.udf("long", useArrow=False)
    def broken(_: int) -> int:
        raise ValueError("nothing of ours")

    with pytest.raises(Exception, match="nothing of ours") as raised, restore_task_errors():
        spark.range(1).select(broken("id")).collect()
    assert not isinstance(raised.value, (StoreError, UsageError))
    with pytest.raises(UsageError, match=r"^mine$"), restore_task_errors():
        raise UsageError("mine")


@pytest.mark.parametrize(
    ("master", "is_visible", "refused"),
    [("spark://h:1", False, True), ("spark://h:1", True, False), ("local[2]", False, False)],
)
def test_directory_hidden_from_executors_is_refused(
    master: str, is_visible: bool, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_probe_from_tasks", lambda *_: is_visible)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    with pytest.raises(UsageError, match="do not see this directory") if refused else nullcontext():
        tasks.require_shared(session, LocalFileSystem(), str(tmp_path / "run"))
