"""Bytes and rows shuffled and bytes spilled by each stage of an audit, from Spark's event log."""

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
    """One stage or table of an audit, named as in its progress. Bytes and rows are sums over Spark tasks."""

    name: str
    seconds: float = 0.0
    shuffle_bytes: int = 0
    shuffle_rows: int = 0
    spill_bytes: int = 0


class Stopwatch:
    """A progress listener that measures stages and tables. `stages` adds figures of the event log."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, float]] = []

    def stage(self, name: str, number: int = 0, total: int = 0) -> None:
        self._begun.append((name, time.time()))

    def table(self, name: str, total: int | None = None) -> None:
        self._begun.append((name, time.time()))

    def note(self, text: str) -> None:
        pass

    def expect(self, count: int) -> None:
        pass

    def advance(self, done: int) -> None:
        pass

    def stages(self, events: Path) -> list[Stage]:
        """Return each stage once, in order of first start. Call it when the last stage has ended."""
        end_times = [start_time for _, start_time in self._begun[1:]] + [time.time()]
        stages: dict[str, Stage] = {}
        for (name, start), end_time in zip(self._begun, end_times, strict=True):
            stages.setdefault(name, Stage(name)).seconds += end_time - start
        start_times = [start_time for _, start_time in self._begun]
        for start, metrics in _tasks(events):
            stage = stages[self._begun[max(bisect_right(start_times, start) - 1, 0)][0]]
            write_metrics = metrics["Shuffle Write Metrics"]
            stage.shuffle_bytes += write_metrics["Shuffle Bytes Written"]
            stage.shuffle_rows += write_metrics["Shuffle Records Written"]
            stage.spill_bytes += metrics["Memory Bytes Spilled"] + metrics["Disk Bytes Spilled"]
        return list(stages.values())


def logged_session(events: Path, driver_memory: str) -> None:
    """Start the session that the next audit uses, with the audit's own settings and an event log."""
    events.mkdir(parents=True)
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    build_session("local[2]", conf, driver_memory, log=events / "spark.log")


def _tasks(events: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    for log in events.glob("local-*"):
        for line in log.open():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and "Task Metrics" in event:
                yield event["Task Info"]["Launch Time"] / 1000, event["Task Metrics"]
