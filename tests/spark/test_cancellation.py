"""An audit that fails or is interrupted cancels its own queries, and no query of another session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from auditor.errors import StoreError
from auditor.spark.running_session import copy_session
from auditor.spark.tasks import cancel_queries_on_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_SECONDS = 20.0
"""A cancelled query ends within a second; a query that is not cancelled takes `QUERY_SECONDS`."""
QUERY_SECONDS = 120.0


def slow_query(session: SparkSession, folder: Path, name: str) -> int:
    """Run a one-row query whose task writes ``NAME.runs``, and ends once ``NAME.end`` exists."""

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
def test_own_queries_are_cancelled_and_queries_of_another_session_continue(
    error: BaseException, spark: SparkSession, tmp_path: Path
) -> None:
    own_session = copy_session(spark, {})
    with ThreadPoolExecutor(2) as threads:
        other_query: Future[int] = threads.submit(slow_query, spark, tmp_path, "other")
        wait_for(tmp_path / "other.runs")

        def audit() -> None:
            with cancel_queries_on_error(own_session):
                own.append(threads.submit(slow_query, own_session, tmp_path, "own"))
                wait_for(tmp_path / "own.runs")
                raise error

        own: list[Future[int]] = []
        try:
            with pytest.raises(type(error)):
                audit()
            with pytest.raises(Exception, match=r"cancel"):
                own[0].result(END_SECONDS)
        finally:
            (tmp_path / "own.end").touch()
            (tmp_path / "other.end").touch()
        assert other_query.result(END_SECONDS) == 1


def test_successful_end_cancels_no_query(spark: SparkSession, tmp_path: Path) -> None:
    own_session = copy_session(spark, {})
    with ThreadPoolExecutor(1) as threads:
        with cancel_queries_on_error(own_session):
            query = threads.submit(slow_query, own_session, tmp_path, "own")
            wait_for(tmp_path / "own.runs")
        (tmp_path / "own.end").touch()
        assert query.result(END_SECONDS) == 1
