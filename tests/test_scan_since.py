"""Scans of a running etcd that start from an earlier scan, which turns out to be unusable."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.audit import metadata_scan
from auditor.audit.earlier_run import REUSABLE_KEY, EarlierRun
from auditor.audit.metadata_scan import FirstScan, LedgerScan, open_metadata, scan_first, scan_ledgers
from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.errors import RunError, StoreError
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.model.run_facts import MANIFEST
from auditor.runs.directory import RunDirectory
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.store import History
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.execution import Execution
from tests.servers.etcd import Etcd, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCOPE = "/bk/cluster1"
LEDGERS = 25


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("server"), saved=True) as member:
        yield member


@pytest.fixture(scope="module")
def first(server: Etcd, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "1"
    with scan(server, spark, out, EarlierRun(None)) as first:
        assert first.ledgers.count() == LEDGERS
    return out


@contextmanager
def scan(server: Etcd, spark: SparkSession, out: Path, earlier: EarlierRun) -> Iterator[FirstScan]:
    run = RunDirectory(str(out))
    run.begin_run({"metadata": server.host})
    uri = parse_metadata_uri(f"etcd://{server.host}{SCOPE}")
    with open_metadata(
        TableCache(Execution(spark), RunStore(run), SilentProgress()), uri, AuditOptions()
    ) as source:
        yield scan_first(source, earlier)


def since(run: Path) -> EarlierRun:
    manifest = RunDirectory(str(run)).read_json(MANIFEST)
    assert manifest is not None
    return EarlierRun(str(run), manifest[REUSABLE_KEY], is_usable=True)


def test_earlier_ledger_table_is_reused(
    server: Etcd, spark: SparkSession, first: Path, tmp_path: Path
) -> None:
    with scan(server, spark, tmp_path / "2", since(first)) as second:
        rows = second.ledgers
    assert (rows.count(), rows.where("reused").count(), second.notes) == (LEDGERS, LEDGERS - 7, ())


def test_damaged_earlier_table_is_not_reused_and_resumed_run_reports_that(
    server: Etcd, spark: SparkSession, first: Path, tmp_path: Path
) -> None:
    shutil.copytree(first, tmp_path / "spoiled")
    [file] = (tmp_path / "spoiled/tables/ledgers").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[content.index(b"/ledgers/", 4)] ^= 1
    file.write_bytes(content)
    for _ in range(2):
        with scan(server, spark, tmp_path / "2", since(tmp_path / "spoiled")) as second:
            rows = second.ledgers
        assert (rows.count(), rows.where("reused").count()) == (LEDGERS, 0)
        (note,) = second.notes
        assert note.startswith("no ledger was reused from run spoiled: ")
        assert file.name in note


def test_damage_found_by_tasks_restarts_scan_without_earlier_run(
    server: Etcd, spark: SparkSession, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = iter([RunError("1/tables/ledgers: damaged")])

    def fail_once(*arguments: Any) -> LedgerScan:
        for error in scans:
            raise error
        return scan_ledgers(*arguments)

    monkeypatch.setattr(metadata_scan, "scan_ledgers", fail_once)
    with scan(server, spark, tmp_path / "2", since(first)) as second:
        assert second.ledgers.where("reused").count() == 0
    assert second.notes == ("no ledger was reused from run 1: 1/tables/ledgers: damaged",)


def test_store_without_history_is_scanned_fully_and_its_run_is_not_reused(
    server: Etcd, spark: SparkSession, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_history(store: EtcdStore) -> History:
        raise StoreError("no word of it")

    monkeypatch.setattr(EtcdStore, "history", fail_history)
    with scan(server, spark, tmp_path / "2", since(first)) as second:
        assert second.ledgers.where("reused").count() == 0
    assert second.notes == ("no ledger was reused from run 1: no word of it",)
    monkeypatch.undo()
    with scan(server, spark, tmp_path / "3", since(tmp_path / "2")) as third:
        assert third.ledgers.where("reused").count() == 0
    (note,) = third.notes
    assert note.startswith(
        "no ledger was reused from run 2: the manifest of that run does not say when ledgers were read"
    )
