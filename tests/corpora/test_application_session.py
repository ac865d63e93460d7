"""An audit inside an application leaves the application's Spark session as it was, also while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from auditor import Audit
from auditor.doctor import examine
from auditor.spark.running_session import running_session
from tests.corpora.audited import FinishedRun
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    Settings = dict[str, Any]

CORPUS = "dbledger-long"

UNUSUAL = {
    "spark.sql.session.timeZone": "Pacific/Chatham",  # 12:45 ahead of UTC
    "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.shuffle.partitions": "5",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "application.setting": "42",
}


@pytest.fixture
def application(spark: SparkSession, runs: Runs) -> Iterator[SparkSession]:
    """Yield the session of this process, with unusual settings that the reference audit did not have."""
    runs.get(CORPUS)
    session = running_session()
    assert session is not None
    before = {key: session.conf.get(key, None) for key in UNUSUAL}
    for key, unusual in UNUSUAL.items():
        session.conf.set(key, unusual)
    level = root_level(session)
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.sparkContext.setLogLevel(level)
    for key, value in before.items():
        session.conf.unset(key) if value is None else session.conf.set(key, value)


def root_level(session: SparkSession) -> str:
    java: Any = session._jvm
    return str(java.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())


def state(session: SparkSession) -> Settings:
    """Return what an audit could change: settings, views, log level, and the session of RDD frames."""
    rows = session.sparkContext.parallelize([(1,)]).toDF(["number"])
    return {
        "settings": {row["key"]: row["value"] for row in session.sql("SET").collect()},
        "views": [table.name for table in session.catalog.listTables()],
        "level": root_level(session),
        "frames": id(rows.sparkSession),
        "default": running_session() is session,
    }


def states_while(session: SparkSession, work: Callable[[], object]) -> tuple[Any, list[Settings]]:
    """Run ``work`` in a second thread; return its result and the session's states until it ended."""
    with ThreadPoolExecutor(1) as pool:
        result: Future[Any] = pool.submit(work)
        states = []
        while not result.done():
            states.append(state(session))
        return result.result(), [*states, state(session)]


def test_audit_in_a_second_thread_leaves_the_session_unchanged(
    application: SparkSession, corpora: Corpora, runs: Runs, tmp_path: Path
) -> None:
    audited, corpus = runs.get(CORPUS), corpora.get(CORPUS)
    before = state(application)
    audit = Audit(f"dump://{corpus.dump}", [str(corpus.bookies)], str(tmp_path / "run"))
    report, states = states_while(application, audit.run)
    assert all(observed == before for observed in states)
    assert len(states) > 2
    assert FinishedRun(report, tmp_path / "run").finding_keys() == audited.finding_keys()


def test_given_session_is_unchanged_after_the_audit(
    application: SparkSession, corpora: Corpora, runs: Runs, tmp_path: Path
) -> None:
    audited, corpus = runs.get(CORPUS), corpora.get(CORPUS)
    before = state(application)
    report = Audit(f"dump://{corpus.dump}", [str(corpus.bookies)], str(tmp_path / "run")).run(application)
    assert state(application) == before
    assert FinishedRun(report, tmp_path / "run").finding_keys() == audited.finding_keys()


def test_doctor_in_a_second_thread_leaves_the_session_unchanged(application: SparkSession) -> None:
    before = state(application)
    _, states = states_while(application, lambda: examine(starts_spark=True))
    assert all(observed == before for observed in states)
