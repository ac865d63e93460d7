"""The ledgers of a running etcd as a Spark table, at the given revision."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.errors import CompactedError
from auditor.keys import etcd
from auditor.model.ledger_id import LedgerId
from auditor.sources import register
from auditor.sources.metadata.stores import open_store
from auditor.spark.tasks import restore_task_errors
from tests.servers.etcd import Etcd, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCOPE = "/bk/cluster1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Etcd]:
    with running(tmp_path / "etcd", saved=True) as member:
        yield member


def test_ledger_table_is_read_at_the_given_revision(spark: SparkSession, server: Etcd) -> None:
    oracle = json.loads(
        gzip.decompress((Path(__file__).parents[1] / "data/etcd/oracle.json.gz").read_bytes())
    )
    listed = {*oracle["ledgersListed"], 2**63 - 1}
    uri = f"etcd://{server.host}{SCOPE}"
    store = open_store(uri)
    cluster = store.cluster()
    store.close()
    deleted_id = min(listed)
    server.ctl("del", f"{SCOPE}/{etcd.to_path(LedgerId(deleted_id))}")
    register(spark)

    def ids(revision: int | None) -> set[int]:
        options = {} if revision is None else {"revision": revision, "revision_time": cluster.scan_time}
        reader = spark.read.format("bookkeeper_ledgers").option("metadata", uri)
        rows = reader.options(**options).load().select("ledger_id", "mtime", "ctime", "damage").collect()
        assert {row.damage for row in rows} == {None}
        assert {row.ctime for row in rows} == {None}
        if revision is not None:
            assert {row.mtime for row in rows} == {cluster.scan_time}
        return {row.ledger_id for row in rows}

    assert ids(cluster.revision) == listed
    assert ids(None) == listed - {deleted_id}


def test_compacted_revision_ends_the_job_with_its_reason(spark: SparkSession, server: Etcd) -> None:
    server.compact(server.load([("/other", b"")]))
    register(spark)
    reader = spark.read.format("bookkeeper_ledgers").option("metadata", f"etcd://{server.host}{SCOPE}")
    with pytest.raises(CompactedError, match="revision 80 was compacted"), restore_task_errors():
        reader.option("revision", 80).option("layout", "etcd").load().collect()


def test_revision_compacted_during_the_job_ends_the_job_with_its_reason(
    spark: SparkSession, server: Etcd
) -> None:
    register(spark)
    uri = f"etcd://{server.host}{SCOPE}"
    # The parts are cut when the table is loaded and read when it is collected.
    store = open_store(uri)
    revision = store.cluster().revision
    table = (
        spark.read.format("bookkeeper_ledgers").options(metadata=uri, revision=revision, layout="etcd").load()
    )
    table.rdd.getNumPartitions()
    server.compact(server.load([("/other", b"")]))
    with pytest.raises(CompactedError, match=f"revision {revision} was compacted"), restore_task_errors():
        table.collect()
    assert store.has_lost_moment()
    store.close()
