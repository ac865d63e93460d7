"""The tables that Spark reads by name, from Python and from SQL."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import auditor
from auditor.errors import UsageError
from auditor.keys.ledger_tree import LayoutKind, from_path
from auditor.sources.metadata.spark_source import LedgerSource, MarkSource, StorePartition, StoreSource

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def named(spark: SparkSession) -> SparkSession:
    auditor.register(spark)
    return spark


@pytest.fixture
def dump_of(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that unpacks a corpus's dump."""

    def unpacked(corpus: str) -> Path:
        path = tmp_path / f"{corpus}.jsonl"
        with gzip.open(DATA / corpus / "metadata.jsonl.gz") as packed, path.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        return path

    return unpacked


def below_root(dump: Path) -> list[str]:
    paths = (json.loads(line)["path"] for line in dump.read_text().splitlines())
    return [path.removeprefix("/ledgers/") for path in paths]


@pytest.mark.parametrize("corpus", ["interleaved-hier", "flat-v1", "dbledger-long"])
def test_layout_of_the_store_is_used_if_none_is_given(
    corpus: str,
    named: SparkSession,
    dump_of: Callable[[str], Path],
    layout_of: Callable[[str], LayoutKind],
) -> None:
    dump = dump_of(corpus)
    read = named.read.format("bookkeeper_ledgers").option("metadata", f"dump://{dump}").load()
    ids = {from_path(layout_of(corpus), below) for below in below_root(dump)} - {None}
    assert ids
    assert {row.ledger_id for row in read.where("status = 'ok'").select("ledger_id").collect()} == ids


def test_sql_reads_ledgers_and_marks_by_name(named: SparkSession, dump_of: Callable[[str], Path]) -> None:
    dump = dump_of("interleaved-hier")
    for view, source in (("l", "bookkeeper_ledgers"), ("m", "bookkeeper_marks")):
        named.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW {view} USING {source} OPTIONS (metadata 'dump://{dump}')"
        )
    paths = below_root(dump)
    marks = {path for path in paths if "/urL" in path}
    assert marks
    (row,) = named.sql("SELECT count(*) AS n FROM m").collect()
    assert row.n == len(marks)
    (row,) = named.sql("SELECT count(DISTINCT ledger_id) AS n FROM l WHERE state = 'CLOSED'").collect()
    assert 0 < row.n <= len(paths)


def test_store_without_marks_has_an_empty_marks_table(named: SparkSession, tmp_path: Path) -> None:
    dump = tmp_path / "etcd.jsonl"
    with gzip.open(DATA / "etcd" / "metadata.jsonl.gz") as packed, dump.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    read = named.read.format("bookkeeper_marks").option("metadata", f"dump://{dump}?root=/bk/cluster1")
    assert read.load().count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "bookkeeper_ledgers: set the option metadata"),
        (
            {"metadata": "dump:///x", "root": "/l"},
            "bookkeeper_ledgers: root: unknown option; valid options are metad",
        ),
        ({"metadata": "dump:///x", "layout": "tall"}, "'tall' must be one of flat, legacyhierarchical|"),
        ({"metadata": "dump:///x", "parts": "many"}, "parts: 'many' is not a whole number"),
        ({"metadata": "dump:///x", "parts": "0"}, "parts: 0 is below 1"),
        ({"metadata": "dump:///x", "in_flight": "0"}, "in_flight: 0 is below 1"),
        ({"metadata": "dump:///x", "rate_limit": "nan"}, "rate_limit: nan is below 0"),
        ({"metadata": "dump:///x", "timeout_s": "soon"}, "timeout_s: 'soon' is not a number"),
    ],
)
def test_invalid_options_are_usage_errors(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LedgerSource(options).reader(StructType())


def test_spark_error_contains_the_reason_of_a_rejected_option(named: SparkSession) -> None:
    with pytest.raises(
        PySparkException, match="set the option metadata, for example to zk://host:2181/ledgers"
    ):
        named.read.format("bookkeeper_marks").load().collect()


@pytest.mark.parametrize("source", [LedgerSource, MarkSource])
@pytest.mark.parametrize("at_once", [{}, {"at_once": "2"}, {"at_once": "99"}])
def test_concurrent_tasks_share_the_rate_limit(
    source: type[StoreSource], at_once: dict[str, str], dump_of: Callable[[str], Path]
) -> None:
    options = {"metadata": f"dump://{dump_of('dbledger-long')}", "parts": "5", "rate_limit": "100"}
    parts = source(options | at_once).reader(StructType()).partitions()
    rates = [part.task_options.rate_limit for part in parts if isinstance(part, StorePartition)]
    readers = min(int(at_once.get("at_once", len(parts))), len(parts))
    assert rates == [100 / readers] * len(parts)
