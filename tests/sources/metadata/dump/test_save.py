"""Saved stores: a dump has every field of every znode and key, and the gaps of unreadable ones."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from auditor.codecs.ledger_metadata.one import parse
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.dump.save import DumpSummary, SaveRequest, new_file, save
from auditor.sources.metadata.store import UNKNOWN_COUNT, StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.servers.etcd import Etcd, running
from tests.servers.zookeeper import writer
from tests.sources.owners.pulsar_stores import FILES, owners

CORPUS = Path(__file__).parents[3] / "data" / "interleaved-hier"
PASSWORD = b"golden"  # of every ledger of this cluster


def save_request(uri: str, *, passwords: bool = True, siblings: tuple[str, ...] = ()) -> SaveRequest:
    return SaveRequest(parse_metadata_uri(uri), siblings, passwords, StoreOptions(rate_limit=0))


def save_store(
    uri: str, file: Path, *, passwords: bool = True, siblings: tuple[str, ...] = ()
) -> DumpSummary:
    with new_file(file) as out:
        return save(save_request(uri, passwords=passwords, siblings=siblings), out)


def columns(uri: str, tree: Tree, layout: LayoutKind) -> dict[str, tuple[object, ...]]:
    """Return the data and the numeric fields of every znode of a tree, by path."""
    store = open_store(uri)
    values_by_path: dict[str, tuple[object, ...]] = {}
    store.cluster()
    for part in store.parts(tree, layout, 3):
        for batch in store.read(part):
            assert not batch.gaps
            numbers = (batch.mzxid, batch.ctime, batch.mtime, batch.version, batch.ephemeral_owner)
            rows = zip(batch.paths, batch.data, *(column.tolist() for column in numbers), strict=True)
            values_by_path |= {path: (bytes(data), *fields) for path, data, *fields in rows}
    store.close()
    return values_by_path


def cluster_nodes(uri: str) -> dict[str, Znode]:
    """Return the cluster's own znodes; their child counts are unknown, because a dump does not have them."""
    store = open_store(uri)
    nodes = store.cluster().nodes
    store.close()
    return {name: znode._replace(children=UNKNOWN_COUNT) for name, znode in nodes.items()}


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    shutil.copytree(CORPUS / "zookeeper" / "version-2", folder / "version-2")
    with EmbeddedZooKeeper(folder) as server:
        yield server


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd"), saved=True) as server:
        yield server


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_saved_zookeeper_dump_equals_the_live_store(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, name: str
) -> None:
    live, dump = f"zk://{zookeeper.hosts}/ledgers", f"dump://{tmp_path}/{name}"
    result = save_store(live, tmp_path / name)
    assert (result.unread_count, result.gaps) == (0, [])
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    for tree in (Tree.LEDGERS, Tree.MARKS):
        live_rows = columns(live, tree, LayoutKind.HIERARCHICAL)
        assert columns(dump, tree, LayoutKind.HIERARCHICAL) == live_rows
        assert live_rows
    live_nodes, dump_nodes = cluster_nodes(live), cluster_nodes(dump)
    generators = {path for path in dump_nodes if path.startswith("idgen")}
    assert {path: dump_nodes[path].made for path in generators} == {
        path: live_nodes[path].made for path in generators
    }
    assert generators
    unmade = [
        {path: node._replace(made=0) for path, node in nodes.items()} for nodes in (live_nodes, dump_nodes)
    ]
    assert unmade[0] == unmade[1]


def test_saved_dump_has_the_time_of_its_scan(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    live = open_store(f"zk://{zookeeper.hosts}/ledgers")
    before = live.cluster().scan_time
    save_store(str(live.uri), tmp_path / "a")
    after = live.cluster().scan_time
    live.close()
    dump = open_store(f"dump://{tmp_path}/a").cluster()
    assert before <= dump.scan_time <= after
    assert (dump.proves_absence, dump.damage, dump.gaps) == (True, None, ())


@pytest.mark.parametrize("scope", ["/bk/cluster1"])
def test_saved_etcd_dump_equals_the_live_store(etcd: Etcd, tmp_path: Path, scope: str) -> None:
    live, dump = f"etcd://{etcd.host}{scope}", f"dump://{tmp_path}/a?root={scope}"
    assert save_store(live, tmp_path / "a").unread_count == 0
    assert cluster_nodes(dump) == cluster_nodes(live)
    live_rows = columns(live, Tree.LEDGERS, LayoutKind.ETCD)
    live_columns, dump_columns = ({path: row[:2] + row[4:] for path, row in rows.items()} for rows in (
        live_rows, columns(dump, Tree.LEDGERS, LayoutKind.ETCD)
    ))  # fmt: skip
    assert dump_columns == live_columns
    assert dump_columns
    paths = [json.loads(line).get("path") for line in (tmp_path / "a").read_bytes().splitlines()]
    assert len(set(paths)) == len(paths) - 1  # the first and the last line have none
    assert scope in paths


@pytest.mark.parametrize("passwords", [True, False])
def test_passwords_are_removed_on_request_and_other_data_stays(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, passwords: bool
) -> None:
    live = f"zk://{zookeeper.hosts}/ledgers"
    save_store(live, tmp_path / "a", passwords=passwords)
    live_rows = columns(live, Tree.LEDGERS, LayoutKind.HIERARCHICAL)
    dump_rows = columns(f"dump://{tmp_path}/a", Tree.LEDGERS, LayoutKind.HIERARCHICAL)
    assert dump_rows.keys() == live_rows.keys()
    metadata = 0
    for path, (data, *numbers) in dump_rows.items():
        was, *were = live_rows[path]
        assert numbers == were
        assert isinstance(data, bytes)
        assert isinstance(was, bytes)
        assert (PASSWORD in data) is (passwords and PASSWORD in was)
        if PASSWORD in was:
            metadata += 1
            assert parse(data) == parse(was)
    assert metadata > 50
    if not passwords:
        lines = [json.loads(line) for line in (tmp_path / "a").read_bytes().splitlines()[1:-1]]
        assert not any(PASSWORD in base64.b64decode(line["data"]) for line in lines)


def test_unreadable_znode_is_a_gap_in_the_dump(tmp_path: Path) -> None:
    shutil.copytree(CORPUS / "zookeeper" / "version-2", tmp_path / "server" / "version-2")
    hidden = "/ledgers/00/0000/L0028"
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        with writer(server.hosts) as client:
            client.set_acls(hidden, [make_digest_acl("ann", "hunter2", all=True)])
        result = save_store(f"zk://{server.hosts}/ledgers", tmp_path / "a")
    assert result.unread_count == 1
    assert result.gaps == [(hidden, "it could not be read: not authorised to read it")]
    store = open_store(f"dump://{tmp_path}/a")
    assert store.cluster().gaps == ()
    parts = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 2)
    [(path, reason)] = [gap for part in parts for batch in store.read(part) for gap in batch.gaps]
    assert path == hidden
    assert reason.endswith("not read when the dump was made: it could not be read: not authorised to read it")


def test_owners_in_sibling_trees_are_saved_on_request(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "server" / "version-2")
    trees = ("managed-ledgers", "schemas", "pulsar/functions")
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        save_store(f"zk://{server.hosts}/ledgers", tmp_path / "a", siblings=trees)
        save_store(f"zk://{server.hosts}/ledgers", tmp_path / "b")
        live = owners(f"pulsar:zk://{server.hosts}")
    of_dump = owners(f"pulsar:dump://{tmp_path}/a")
    # Each row names its store; all else is the same.
    rows = [sorted(({**row, "store": ""} for row in owner_rows), key=str) for owner_rows in (live, of_dump)]
    assert rows[0] == rows[1]
    assert len(live) > 150
    paths = [json.loads(line).get("path", "") for line in (tmp_path / "b").read_bytes().splitlines()]
    assert all(path.startswith("/ledgers") for path in paths[1:-1])


def test_interrupted_or_failed_save_leaves_no_file(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    def broken(records: int) -> None:
        raise KeyboardInterrupt

    request = save_request(f"zk://{zookeeper.hosts}/ledgers")
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "a") as out:
        save(request, out, broken)
    with pytest.raises(StoreError, match="/nowhere"), new_file(tmp_path / "a") as out:
        save(save_request(f"zk://{zookeeper.hosts}/nowhere"), out)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("mine")
    with (
        pytest.raises(UsageError, match="none: no such directory; create"),
        new_file(tmp_path / "none/a"),
    ):
        pytest.fail("the store would be read")
    with pytest.raises(UsageError, match="already exists"), new_file(tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_text() == "mine"


def test_rate_limit_applies_to_saving(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    import time

    request = save_request(f"zk://{zookeeper.hosts}/ledgers")
    began = time.monotonic()
    with new_file(tmp_path / "a") as out:
        result = save(replace(request, options=StoreOptions(rate_limit=100)), out)
    # Listing counts as well, so that it takes at least this.
    assert time.monotonic() - began >= result.records / 100 - 0.2


@pytest.mark.parametrize("uri", ["dump:///a", "zk-snapshot:///a", "etcd-snapshot:///a"])
def test_saved_store_cannot_be_saved_again(uri: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already saved"), new_file(tmp_path / "a") as out:
        save(save_request(uri), out)
