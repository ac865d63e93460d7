"""The second scan of a live store reads only changed ledgers, and has the rows of a full read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.security import ACL, Id, Permissions

from auditor.audit.earlier_run import EarlierRun
from auditor.audit.metadata import SecondScan, scan_second, watch_ledgers
from auditor.audit.metadata_scan import FirstScan, open_metadata, scan_first
from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.runs.directory import RunDirectory
from auditor.sources.metadata.ledger_rows import REREAD_LEDGERS
from auditor.sources.metadata.spark_source import LedgerRereadSource
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.batches import as_frame
from auditor.spark.execution import Execution
from tests.servers.etcd import Etcd, running
from tests.servers.zookeeper import writer
from tests.sources.earlier_etcd import CLOSED, LONGER, OPEN, key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCOPE = "/bk"
NOT_TO_READ = [ACL(Permissions.ALL & ~Permissions.READ, Id("world", "anyone"))]
LEDGERS = 60
READ_TO_SAY = 20
"""etcd has some of the newest ledgers read again, as proof that it is still the same history."""


@contextmanager
def first_scan(spark: SparkSession, uri: str, out: Path) -> Iterator[FirstScan]:
    run = RunDirectory(str(out))
    run.begin_run({"metadata": uri})
    with open_metadata(
        TableCache(Execution(spark), RunStore(run), SilentProgress()), parse_metadata_uri(uri), AuditOptions()
    ) as source:
        watch_ledgers(source)
        yield scan_first(source, EarlierRun(None))


def count_reused(second: SecondScan) -> int:
    assert second.ledgers is not None
    return second.ledgers.where("reused").count()


def check_second_scan(first: FirstScan, second: SecondScan) -> set[int]:
    """Check that rows, columns and types equal those of a full scan; return its ledger ids."""
    assert second.ledgers is not None
    full = as_frame(first.source.cache.spark, first.source.table(LedgerRereadSource, second.nodes))
    assert second.ledgers.dtypes == full.dtypes
    assert sorted_rows(second.ledgers) == sorted_rows(full)
    return {row["ledger_id"] for row in second.ledgers.select("ledger_id").collect()}


def sorted_rows(rows: DataFrame) -> list[dict[str, Any]]:
    names = [name for name in REREAD_LEDGERS.names if name != "reused"]
    return sorted((row.asDict() for row in rows.select(*names).collect()), key=lambda row: str(row["path"]))


def znode(ledger: int) -> str:
    return f"{SCOPE}/00/{ledger // 10_000:04}/L{ledger % 10_000:04}"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    with (
        EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server,
        writer(server.hosts) as client,
    ):
        for ledger in range(LEDGERS):
            client.create(znode(ledger), CLOSED, makepath=True)
        yield f"zk://{server.hosts}{SCOPE}", client


def test_second_scan_of_zookeeper_rereads_only_changed_ledgers(
    spark: SparkSession, zookeeper: tuple[str, Any], tmp_path: Path
) -> None:
    uri, client = zookeeper
    with first_scan(spark, uri, tmp_path / "run") as first:
        client.set(znode(1), OPEN)
        client.delete(znode(2))
        client.create(znode(2), LONGER)
        client.delete(znode(3))
        client.create(znode(20_001), OPEN, makepath=True)
        client.create(f"{SCOPE}/00/0000/Lodd", b"")
        second = scan_second(first)
        assert check_second_scan(first, second) == {*range(LEDGERS), 20_001} - {3}
        assert (count_reused(second), second.notes) == (LEDGERS - 3, ())


def test_second_scan_of_zookeeper_without_watch_or_with_gap_rereads_all_ledgers(
    spark: SparkSession, zookeeper: tuple[str, Any], tmp_path: Path
) -> None:
    uri, client = zookeeper
    with first_scan(spark, uri, tmp_path / "run"):
        client.set(znode(11), OPEN)  # and then this run breaks off
    with first_scan(spark, uri, tmp_path / "run") as resumed:
        second = scan_second(resumed)
        check_second_scan(resumed, second)
        why = "the second scan read all ledgers: no watch was set before the first scan"
        assert (count_reused(second), second.notes) == (0, (why,))
    client.create(znode(12_000), CLOSED, makepath=True)
    client.set_acls(znode(12_000), NOT_TO_READ)
    with first_scan(spark, uri, tmp_path / "gap") as first:
        second = scan_second(first)
        assert None in check_second_scan(first, second)
        why = "the second scan read all ledgers: the first scan could not read all ledgers"
        assert (count_reused(second), second.notes) == (0, (why,))


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd")) as server:
        server.load([(f"{SCOPE}/layout", b"")])
        for ledger in range(LEDGERS):
            server.load([(key(SCOPE, ledger), CLOSED)])
        yield server


def test_second_scan_of_etcd_rereads_only_changed_ledgers_after_compaction(
    spark: SparkSession, etcd: Etcd, tmp_path: Path
) -> None:
    with first_scan(spark, f"etcd://{etcd.host}{SCOPE}", tmp_path / "run") as first:
        etcd.load([(key(SCOPE, 1), OPEN)])
        etcd.delete(key(SCOPE, 2))
        etcd.load([(key(SCOPE, 2), CLOSED)])
        etcd.delete(key(SCOPE, 3))
        etcd.load([(key(SCOPE, LEDGERS), OPEN)])
        etcd.compact(etcd.revision())
        second = scan_second(first)
        assert check_second_scan(first, second) == {*range(LEDGERS + 1)} - {3}
        assert second.notes == ()
        assert count_reused(second) >= LEDGERS - 3 - READ_TO_SAY


def restore_snapshot(etcd: Etcd, run: Path, home: Path) -> str:
    etcd.save(home / "snapshot.db")
    for _ in range(4):
        etcd.load([(f"{SCOPE}/other", b"")])
    etcd.put_back(home / "snapshot.db")
    return "etcd was restored after that run read it at revision "


def damage_table(etcd: Etcd, run: Path, home: Path) -> str:
    for file in (run / "tables/ledgers").glob("*.parquet"):
        content = bytearray(file.read_bytes())
        content[content.index(b"/ledgers/", 4)] ^= 1
        file.write_bytes(content)
    return f"{run}/tables/ledgers"


@pytest.mark.parametrize("spoil", [damage_table, restore_snapshot])
def test_second_scan_of_restored_etcd_or_damaged_table_rereads_all_ledgers(
    spark: SparkSession, etcd: Etcd, tmp_path: Path, spoil: Callable[[Etcd, Path, Path], str]
) -> None:
    with first_scan(spark, f"etcd://{etcd.host}{SCOPE}", tmp_path / "run") as first:
        why = spoil(etcd, tmp_path / "run", tmp_path)
        second = scan_second(first)
        check_second_scan(first, second)
        [note] = second.notes
        assert note.startswith(f"the second scan read all ledgers: {why}"), note
        assert count_reused(second) == 0
