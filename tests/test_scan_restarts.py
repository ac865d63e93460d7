"""Scans of etcd whose revision is compacted while they read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from auditor.audit import metadata_scan
from auditor.audit.earlier_run import EarlierRun
from auditor.audit.metadata import ClusterMetadata, scan_second
from auditor.audit.metadata_scan import MetadataSource, open_metadata, scan_first
from auditor.audit.run_store import RunStore
from auditor.audit.table_cache import TableCache
from auditor.errors import CompactedError
from auditor.model.options import AuditOptions
from auditor.model.progress import SilentProgress
from auditor.runs.directory import RunDirectory
from auditor.sources.metadata.store import MAX_RESTARTS, ClusterNodes
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.execution import Execution
from auditor.spark.part_tables import PartTable
from tests.servers.etcd import Etcd, running

SCOPE = "/bk/cluster1"
EVERYTHING = EarlierRun(None)
"""No earlier run: all is read."""


@contextmanager
def source_of(server: Etcd, spark: SparkSession, out: Path) -> Iterator[MetadataSource]:
    run = RunDirectory(str(out))
    run.begin_run({"metadata": server.host})
    uri = parse_metadata_uri(f"etcd://{server.host}{SCOPE}")
    with open_metadata(
        TableCache(Execution(spark), RunStore(run), SilentProgress()), uri, AuditOptions()
    ) as source:
        yield source


def test_both_scans_restart_at_a_revision_that_is_not_compacted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        running(tmp_path / "server", saved=True) as server,
        source_of(server, spark, tmp_path / "run") as source,
    ):
        pinned = source.nodes.revision
        server.load([(f"{SCOPE}/buckets/001", b"")])
        server.compact(server.revision())
        first = scan_first(source, EVERYTHING)
        assert first.ledgers.count() == 25
        assert first.nodes.revision is not None
        assert pinned is not None
        assert first.nodes.revision > pinned
        look = source.store.cluster
        looks: list[ClusterNodes] = []

        def compacted_once() -> ClusterNodes:
            nodes = look()
            if not looks:
                server.load([(f"{SCOPE}/buckets/001", b"")])
                server.compact(server.revision())
            looks.append(nodes)
            return nodes

        monkeypatch.setattr(source.store, "cluster", compacted_once)
        metadata = ClusterMetadata(first, scan_second(first))
        again = metadata.second.ledgers
        assert again is not None
        assert again.count() == 25
        assert metadata.positions() == [f"revision {first.nodes.revision}", f"revision {server.revision()}"]
        text = "etcd compacted a revision during the scan: 2 scans restarted"
        assert text in [remark["text"] for remark in metadata.remarks()]


def test_scan_that_never_finishes_raises_compacted_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        running(tmp_path / "server", saved=True) as server,
        source_of(server, spark, tmp_path / "run") as source,
    ):
        read, tries = metadata_scan._ledger_table, []

        def compact_before_read(
            source: MetadataSource, earlier: EarlierRun, nodes: ClusterNodes
        ) -> PartTable:
            tries.append(nodes.revision)
            server.load([(f"{SCOPE}/buckets/001", b"")])
            server.compact(server.revision())
            return read(source, earlier, nodes)

        monkeypatch.setattr(metadata_scan, "_ledger_table", compact_before_read)
        with pytest.raises(CompactedError):
            scan_first(source, EVERYTHING)
        assert len(tries) == MAX_RESTARTS + 1
