"""How far the running Spark jobs are, in tasks: for a progress bar."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from auditor.model.progress import Progress, Silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PERIOD_S = 0.5


@contextmanager
def tasks_told(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Tell ``progress`` of tasks as they come up and end; nobody is asked if nobody listens."""
    if isinstance(progress, Silent):
        yield
        return
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, progress, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(spark: SparkSession, progress: Progress, stop: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    done: dict[int, int] = {}
    while not stop.wait(_PERIOD_S):
        for stage_id in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(stage_id)
            if stage is None:
                continue
            if stage_id not in done:
                progress.expect(stage.numTasks)
            progress.advance(stage.numCompletedTasks - done.get(stage_id, 0))
            done[stage_id] = stage.numCompletedTasks
