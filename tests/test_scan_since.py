"""Scans of a running etcd that begin with an earlier one, which turns out to be of no use."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.audit.earlier_run import Since
from auditor.audit.landing import MANIFEST, Landing, RunDirectory
from auditor.audit.manifest import REUSABLE
from auditor.audit.metadata_scan import MetadataScan
from auditor.errors import StoreError
from auditor.model.options import AuditOptions
from auditor.model.progress import Silent
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.store import History
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
    with closing(scan_of(server, spark, out)) as scan:
        assert scan.ledgers().count() == LEDGERS
    return out


def scan_of(server: Etcd, spark: SparkSession, out: Path) -> MetadataScan:
    run = RunDirectory(str(out))
    run.begin({"metadata": server.host})
    return MetadataScan(Landing(spark, run, Silent()), f"etcd://{server.host}{SCOPE}", AuditOptions())


def since(run: Path) -> Since:
    manifest = RunDirectory(str(run)).read_json(MANIFEST)
    assert manifest is not None
    return Since(str(run), _facts=manifest[REUSABLE])


def test_an_earlier_table_is_used(server: Etcd, spark: SparkSession, first: Path, tmp_path: Path) -> None:
    begun = since(first)
    with closing(scan_of(server, spark, tmp_path / "2")) as scan:
        scan.begin_with(begun)
        rows = scan.ledgers()
    assert (rows.count(), rows.where("reused").count(), begun.notes) == (LEDGERS, LEDGERS - 7, [])


def test_a_damaged_table_is_done_without_and_a_resumed_run_says_so_too(
    server: Etcd, spark: SparkSession, first: Path, tmp_path: Path
) -> None:
    shutil.copytree(first, tmp_path / "spoiled")
    [file] = (tmp_path / "spoiled/tables/ledgers").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[content.index(b"/ledgers/", 4)] ^= 1
    file.write_bytes(content)
    for _ in range(2):
        begun = since(tmp_path / "spoiled")
        with closing(scan_of(server, spark, tmp_path / "2")) as scan:
            scan.begin_with(begun)
            rows = scan.ledgers()
        assert (rows.count(), rows.where("reused").count()) == (LEDGERS, 0)
        (note,) = begun.notes
        assert note.startswith("no ledger was taken from spoiled: ")
        assert file.name in note


def test_a_store_that_does_not_say_where_it_stands_is_read_and_nothing_begins_with_that(
    server: Etcd, spark: SparkSession, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(store: EtcdStore) -> History:
        raise StoreError("no word of it")

    monkeypatch.setattr(EtcdStore, "history", silent)
    begun = since(first)
    with closing(scan_of(server, spark, tmp_path / "2")) as scan:
        scan.begin_with(begun)
        assert scan.ledgers().where("reused").count() == 0
    assert begun.notes == ["no ledger was taken from 1: no word of it"]
    monkeypatch.undo()
    begun = since(tmp_path / "2")
    with closing(scan_of(server, spark, tmp_path / "3")) as scan:
        scan.begin_with(begun)
        assert scan.ledgers().where("reused").count() == 0
    (note,) = begun.notes
    assert note.startswith("no ledger was taken from 2: its manifest does not say when they were read")
