"""Queries beside an audit: an audit that ends waits for none of them, and disturbs nobody else's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from auditor.errors import StoreError
from auditor.spark.running_session import copy_session
from auditor.spark.tasks import background_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_SECONDS = 20.0
"""A cancelled query ends within a second; a query that is not cancelled takes `QUERY_SECONDS`."""
QUERY_SECONDS = 120.0


def slow_query(session: SparkSession, folder: Path, name: str) -> int:
    """A query of one row whose task says that it runs, and goes on until the file ``NAME.end`` is there."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (folder / f"{name}.runs").touch()
        deadline = time.monotonic() + QUERY_SECONDS
        while time.monotonic() < deadline and not (folder / f"{name}.end").exists():
            time.sleep(0.05)
        yield from batches

    return len(session.range(0, 1, 1, 1).mapInArrow(work, "id long").collect())


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("gone")])
def test_background_query_is_cancelled_and_not_waited_for(
    error: BaseException, spark: SparkSession, tmp_path: Path
) -> None:
    own = copy_session(spark, {})
    futures: list[Future[Any]] = []
    other: list[int] = []
    neighbour = threading.Thread(target=lambda: other.append(slow_query(spark, tmp_path, "other")))
    neighbour.start()
    wait_for(tmp_path / "other.runs")

    def audit() -> None:
        with background_thread(own) as thread:
            futures.append(thread.submit(slow_query, own, tmp_path, "own"))
            futures.append(thread.submit(slow_query, own, tmp_path, "waiting"))
            wait_for(tmp_path / "own.runs")
            raise error

    began = time.monotonic()
    with pytest.raises(type(error)):
        audit()
    assert time.monotonic() - began < END_SECONDS
    with pytest.raises(Exception, match=r"cancel"):
        futures[0].result(END_SECONDS)
    assert futures[1].cancelled()
    (tmp_path / "other.end").touch()
    neighbour.join(60)
    assert other == [1]


def test_background_query_is_waited_for_at_a_sound_end(spark: SparkSession, tmp_path: Path) -> None:
    own = copy_session(spark, {})
    (tmp_path / "own.end").touch()
    with background_thread(own) as thread:
        future = thread.submit(slow_query, own, tmp_path, "own")
    assert future.done()
    assert future.result() == 1
