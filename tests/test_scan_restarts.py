"""A scan whose moment is taken away: etcd compacts the revision that is being read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from auditor.audit.landing import Landing, RunDirectory
from auditor.audit.metadata_scan import MetadataScan
from auditor.errors import CompactedError
from auditor.model.options import AuditOptions
from auditor.model.progress import Silent
from auditor.sources.metadata.store import RESTARTS
from tests.servers.etcd import Etcd, running

SCOPE = "/bk/cluster1"


def scan_of(server: Etcd, spark: SparkSession, out: Path) -> MetadataScan:
    run = RunDirectory(str(out))
    run.begin({"metadata": server.host})
    return MetadataScan(Landing(spark, run, Silent()), f"etcd://{server.host}{SCOPE}", AuditOptions())


def test_both_scans_begin_anew_at_a_revision_that_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    with (
        running(tmp_path / "server", saved=True) as server,
        closing(scan_of(server, spark, tmp_path / "run")) as scan,
    ):
        pinned = scan.before.revision
        server.load([(f"{SCOPE}/buckets/001", b"")])
        server.compact(server.revision())
        assert scan.ledgers().count() == 25
        assert scan.before.revision is not None
        assert pinned is not None
        assert scan.before.revision > pinned
        assert scan.after.revision == server.revision()
        server.load([(f"{SCOPE}/buckets/001", b"")])
        server.compact(server.revision())
        again = scan.again()
        assert again is not None
        assert again.count() == 25
        assert scan.positions() == [f"revision {scan.before.revision}", f"revision {server.revision()}"]
        assert "etcd compacted a revision while it was read: 2 scans began anew" in scan.notes()


def test_a_scan_that_never_gets_to_its_end_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        running(tmp_path / "server", saved=True) as server,
        closing(scan_of(server, spark, tmp_path / "run")) as scan,
    ):
        first, tries = scan._first, []

        def lost() -> object:
            tries.append(scan.before.revision)
            server.load([(f"{SCOPE}/buckets/001", b"")])
            server.compact(server.revision())
            return first()

        monkeypatch.setattr(scan, "_first", lost)
        with pytest.raises(CompactedError):
            scan.ledgers()
        assert len(tries) == RESTARTS + 1
