"""Figures for each stage of an audit from Spark's event log: jobs, tasks, bytes shuffled and spilled."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.spark.session import build_session


@dataclass
class Stage:
    """One stage or table of an audit, named as in its progress. Bytes and rows are sums over Spark tasks.

    ``spark_stages`` counts the stages of Spark's jobs. If there is no job, the driver did all the work.
    """

    name: str
    seconds: float = 0.0
    jobs: int = 0
    spark_stages: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    shuffle_rows: int = 0
    spill_bytes: int = 0


class Stopwatch:
    """A progress listener that measures stages and tables. `stages` adds the figures from the event log."""

    def __init__(self) -> None:
        self._stage_starts: list[tuple[str, float]] = []

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        self._stage_starts.append((name, time.time()))

    def table(self, name: str, total: int | None = None) -> None:
        self._stage_starts.append((name, time.time()))

    def note(self, text: str) -> None:
        pass

    def expect(self, count: int) -> None:
        pass

    def advance(self, done: int) -> None:
        pass

    def stages(self, log_directory: Path) -> list[Stage]:
        """Return each stage once, in order of first start. Call it when the last stage has ended."""
        end_times = [start_time for _, start_time in self._stage_starts[1:]] + [time.time()]
        stages: dict[str, Stage] = {}
        for (name, event_time), end_time in zip(self._stage_starts, end_times, strict=True):
            stages.setdefault(name, Stage(name)).seconds += end_time - event_time
        start_times = [start_of_stage for _, start_of_stage in self._stage_starts]
        for event_time, event in _read_events(log_directory):
            _add_event(
                stages[self._stage_starts[max(bisect_right(start_times, event_time) - 1, 0)][0]], event
            )
        return list(stages.values())


def start_logged_session(log_directory: Path, driver_memory: str) -> None:
    """Start the session that the next audit uses, with the audit's own settings and an event log."""
    log_directory.mkdir(parents=True)
    spark_settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log_directory.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    build_session("local[2]", spark_settings, driver_memory, log_path=log_directory / "spark.log")


def _add_event(stage: Stage, event: dict[str, Any]) -> None:
    event_type = event["Event"]
    stage.jobs += event_type == "SparkListenerJobStart"
    stage.spark_stages += event_type == "SparkListenerStageCompleted"
    stage.tasks += event_type == "SparkListenerTaskEnd"
    if "Task Metrics" in event:
        task_metrics = event["Task Metrics"]
        write_metrics = task_metrics["Shuffle Write Metrics"]
        stage.shuffle_bytes += write_metrics["Shuffle Bytes Written"]
        stage.shuffle_rows += write_metrics["Shuffle Records Written"]
        stage.spill_bytes += task_metrics["Memory Bytes Spilled"] + task_metrics["Disk Bytes Spilled"]


def _read_events(log_directory: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield the events at starts of jobs and at ends of stages and tasks, each with a time in seconds.

    The time is the start of the job, stage or task.
    """
    for log in log_directory.glob("local-*"):
        for line in log.open():
            event = json.loads(line)
            match event["Event"]:
                case "SparkListenerJobStart":
                    start_ms = event["Submission Time"]
                case "SparkListenerStageCompleted":
                    start_ms = event["Stage Info"]["Submission Time"]
                case "SparkListenerTaskEnd":
                    start_ms = event["Task Info"]["Launch Time"]
                case _:
                    continue
            yield start_ms / 1000, event
