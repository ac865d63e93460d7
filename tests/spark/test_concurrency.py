"""The number of tasks that can run in parallel, computed from a session's cluster settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from auditor.spark import concurrency
from auditor.spark.concurrency import max_slots, max_task_attempts, running_slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_of(master: str, conf: dict[str, str]) -> Any:
    context = SimpleNamespace(master=master, getConf=lambda: SimpleNamespace(get=conf.get))
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(
    ("master", "conf", "slots"),
    [
        ("spark://h:7077", {}, None),
        ("spark://h:7077", {"spark.cores.max": "9"}, 9),
        ("spark://h:7077", {"spark.cores.max": "9", "spark.task.cpus": "2"}, 4),
        ("spark://h:7077", {"spark.cores.max": "1", "spark.task.cpus": "2"}, 1),
        ("yarn", {}, 2),
        ("yarn", {"spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ("yarn", {"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "5"}, None),
        (
            "k8s://https://h",
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "7",
                "spark.executor.cores": "4",
                "spark.task.cpus": "3",
            },
            7,
        ),
        ("local-cluster[2,1,1024]", {}, None),
        ("other://h", {"spark.executor.instances": "5"}, None),
    ],
)
def test_max_slots_are_limited_by_cluster_settings(
    master: str, conf: dict[str, str], slots: int | None
) -> None:
    assert max_slots(session_of(master, conf)) == slots


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[2,3]"])
def test_local_master_max_slots_equal_running_slots(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "running_slots", lambda _: 11)
    assert max_slots(session_of(master, {"spark.default.parallelism": "3"})) == 11


def test_slots_of_a_real_session_are_its_cores(spark: SparkSession) -> None:
    cores = int(str(spark.sparkContext.master).removeprefix("local[").removesuffix("]"))
    assert running_slots(spark) == max_slots(spark) == cores


@pytest.mark.parametrize(("conf", "copies"), [({}, 1), ({"spark.speculation": "true"}, 2)])
def test_speculation_allows_two_attempts_per_task(conf: dict[str, str], copies: int) -> None:
    assert max_task_attempts(session_of("yarn", conf)) == copies
