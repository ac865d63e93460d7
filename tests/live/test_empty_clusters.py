"""Newly created clusters: formatted, with or without running bookies, and without any entry."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.notebook.run import open_run
from tests.corpora.cluster import Cluster
from tests.live.metadata import ETCD, metadata_store
from tests.live.scenario import KINDS
from tests.servers.zookeeper import write, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERLEAVED, ON_ETCD = KINDS[0], KINDS[3]
CODES = {"nobody": 3, "directories": 0, "rpc": 0, "both": 0}
"""What is read of bookies that are empty, and the exit code."""


class IdleCluster(NamedTuple):
    """The metadata URI and the bookie directories of a cluster with idle bookies."""

    uri: str
    bookies: Path


def audit(out: Path, uri: str, *sources: str, spark: SparkSession) -> int:
    """Return the exit code of an audit. If the audit reaches no decision, fail with its output."""
    bookie_options = [word for source in sources for word in ("--bookies", source)]
    arguments = ["audit", "--metadata", uri, *bookie_options, "--out", str(out), "--timeout", "5"]
    done = CliRunner().invoke(main, arguments, obj=lambda: spark)
    assert done.exit_code in (0, 3), done.output
    return done.exit_code


@pytest.fixture(scope="module", params=[INTERLEAVED, ON_ETCD], ids=["zookeeper", "etcd"])
def idle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdleCluster]:
    root = tmp_path_factory.mktemp("idle")
    kind = request.param
    with (
        metadata_store(kind.layout, root) as metadata,
        kind.bookies(metadata.uri, root, (None, None)) as bookies,
    ):
        yield IdleCluster(metadata.uri, bookies.directory)


@pytest.mark.parametrize("way", CODES)
def test_empty_bookies_are_healthy_only_if_they_are_read(
    idle: IdleCluster, way: str, tmp_path: Path, spark: SparkSession
) -> None:
    directories = str(idle.bookies)
    sources = {"nobody": [], "directories": [directories], "rpc": ["rpc:"], "both": [directories, "rpc:"]}
    assert audit(tmp_path / "run", idle.uri, *sources[way], spark=spark) == CODES[way]
    run = open_run(tmp_path / "run")
    assert run.report.verdict == ("incomplete" if way == "nobody" else "healthy")


def write_initnewcluster_znodes(hosts: str) -> None:
    """Write the znodes that initnewcluster creates: containers without bookies."""
    with writer(hosts) as client:
        write(client, {path: base64.b64decode(str(row["data"])) for path, row in Cluster().znodes.items()})


@pytest.mark.parametrize("sources", [[], ["rpc:"]], ids=["nobody", "rpc"])
def test_cluster_that_no_bookie_joined_is_incomplete_without_bookie_sources(
    tmp_path: Path, sources: list[str], spark: SparkSession
) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        write_initnewcluster_znodes(server.hosts)
        code = audit(tmp_path / "run", f"zk://{server.hosts}/ledgers", *sources, spark=spark)
    assert code == (3 if not sources else 0)
    if not sources:
        saved = f"zk-snapshot://{tmp_path}/zookeeper/version-2?root=/ledgers"
        assert audit(tmp_path / "saved", saved, spark=spark) == 3


def test_etcd_cluster_without_ledgers_and_bookies_is_incomplete(tmp_path: Path, spark: SparkSession) -> None:
    with metadata_store(ETCD, tmp_path) as metadata:
        root = tmp_path / "bookies-once"
        root.mkdir()
        with ON_ETCD.bookies(metadata.uri, root, (None,)):
            pass  # formats the scope; the bookie has gone again
        assert audit(tmp_path / "run", metadata.uri, spark=spark) == 3
