"""The scripts in conf/ that dump a store: a dump contains everything in the store."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.demo.sample import unpack_sample
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import Tree, Znode
from auditor.sources.metadata.stores import open_store
from tests.servers import etcd as etcd_server

CONF = Path(__file__).parents[4] / "conf"


def script(name: str, folder: Path) -> Path:
    """Copy a script of conf/ into ``folder``, and return the path of the copy."""
    return Path(shutil.copy(CONF / name, folder))


def run_command(*command: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout


def trees(uri: str, layout: LayoutKind) -> tuple[dict[str, bytes], dict[Tree, dict[str, bytes]]]:
    """Return all data that a store shows, by path: the cluster's own znodes, ledgers and marks."""
    store = open_store(uri)
    nodes = {name: znode.data for name, znode in store.cluster().nodes.items()}
    contents = {}
    for tree in (Tree.LEDGERS, Tree.MARKS):
        batches = [b for part in store.parts(tree, layout, 3) for b in store.read(part)]
        assert not any(batch.gaps for batch in batches)
        contents[tree] = {
            path: bytes(data) for b in batches for path, data in zip(b.paths, b.data, strict=True) if data
        }
    store.close()
    return nodes, contents


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    sample = unpack_sample(folder, 1_795_000_000_000)
    with EmbeddedZooKeeper(folder / "data") as server:
        server.load(
            Znode(path, data, 0, 0, 0, 0, 0, int(path in sample.ephemeral))
            for path, data in sample.znodes.items()
        )
        yield server


@pytest.fixture(scope="module")
def dumped(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    dump = folder / "metadata.jsonl"
    program = script("zookeeper_dump.py", folder)
    dump.write_bytes(run_command(sys.executable, str(program), zookeeper.hosts, "/ledgers"))
    return dump


def test_zookeeper_dump_equals_the_live_store(zookeeper: EmbeddedZooKeeper, dumped: Path) -> None:
    live = trees(f"zk://{zookeeper.hosts}/ledgers", LayoutKind.HIERARCHICAL)
    assert trees(f"dump://{dumped}", LayoutKind.HIERARCHICAL) == live
    assert live[1][Tree.MARKS]
    cluster = open_store(f"dump://{dumped}").cluster()
    assert (cluster.proves_absence, cluster.gaps, cluster.damage) == (True, (), None)
    paths = [json.loads(line)["path"] for line in dumped.read_bytes().splitlines()[1:-1]]
    assert all(
        path.rpartition("/")[0] in paths[:position] for position, path in enumerate(paths) if position
    )  # parents first


def test_etcd_dump_equals_the_live_store(tmp_path: Path) -> None:
    program = script("etcd_dump.py", tmp_path)
    dump = tmp_path / "metadata.jsonl"
    with etcd_server.running(tmp_path / "etcd", saved=True) as server:
        keys_json = server.ctl("get", "--prefix", "/bk/cluster1", "-w", "json")
        dump.write_bytes(run_command(sys.executable, str(program), stdin=keys_json.encode()))
        live = trees(f"etcd://{server.host}/bk/cluster1", LayoutKind.ETCD)
    uri = f"dump://{dump}?root=/bk/cluster1"
    assert trees(uri, LayoutKind.ETCD) == live
    assert live[1][Tree.LEDGERS]
    cluster = open_store(uri).cluster()
    assert (cluster.proves_absence, cluster.gaps, cluster.damage) == (True, (), None)
    assert open_store(f"dump://{compress_dump(dump)}?root=/bk/cluster1").cluster().nodes == cluster.nodes


OXIA_CLIENT = """
import datetime

RECORDS = {
    "/ledgers": None,
    "/ledgers/available": None,
    "/ledgers/available/b:1": 0,
    "/ledgers/cookies": None,
    "/ledgers/cookies/b:1": None,
}

class ex:
    KeyNotFound = KeyError

class Version:
    def __init__(self, session): self.session = session
    def version_id(self): return 7
    def modifications_count(self): return 0
    def created_timestamp(self): return datetime.datetime.fromtimestamp(1_700_000_000)
    modified_timestamp = created_timestamp
    def session_id(self): return self.session
    def is_ephemeral(self): return self.session is not None

class Client:
    def __init__(self, address, namespace): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def list(self, start, end): return [key for key in RECORDS if key.rpartition("/")[0] + "/" == start]
    def get(self, key): return key, b"x", Version(RECORDS[key])
"""
"""Of the package oxia 0.2.1, which cannot be installed beside a current protobuf, what the script uses."""


@pytest.mark.process
def test_oxia_dump_distinguishes_session_zero_from_no_session(tmp_path: Path) -> None:
    (tmp_path / "oxia.py").write_text(OXIA_CLIENT)
    program = script("oxia_dump.py", tmp_path)  # which finds the module beside itself
    dump = tmp_path / "oxia.jsonl"
    dump.write_bytes(run_command(sys.executable, str(program), "oxia:6648", "bookkeeper", "/ledgers"))
    nodes = open_store(f"dump://{dump}").cluster().nodes
    assert {name: node.ephemeral_owner for name, node in nodes.items() if name.endswith("b:1")} == {
        "available/b:1": 1,  # one more than the session's id
        "cookies/b:1": 0,
    }


def compress_dump(dump: Path) -> Path:
    path = dump.with_suffix(".gz")
    path.write_bytes(gzip.compress(dump.read_bytes()))
    return path
