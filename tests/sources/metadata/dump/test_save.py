"""A saved store is the store: every field of every znode and key, and what could not be read."""

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


def wanted(uri: str, *, passwords: bool = True, beside: tuple[str, ...] = ()) -> SaveRequest:
    return SaveRequest(parse_metadata_uri(uri), beside, passwords, StoreOptions(rate_limit=0))


def saved(uri: str, file: Path, *, passwords: bool = True, beside: tuple[str, ...] = ()) -> DumpSummary:
    with new_file(file) as out:
        return save(wanted(uri, passwords=passwords, beside=beside), out)


def columns(uri: str, tree: Tree, layout: LayoutKind) -> dict[str, tuple[object, ...]]:
    """Every znode of a tree with its numbers, by path."""
    store = open_store(uri)
    found: dict[str, tuple[object, ...]] = {}
    store.cluster()
    for part in store.parts(tree, layout, 3):
        for batch in store.read(part):
            assert not batch.gaps
            numbers = (batch.mzxid, batch.ctime, batch.mtime, batch.version, batch.ephemeral_owner)
            rows = zip(batch.paths, batch.data, *(each.tolist() for each in numbers), strict=True)
            found |= {path: (bytes(data), *rest) for path, data, *rest in rows}
    store.close()
    return found


def own(uri: str) -> dict[str, Znode]:
    """The cluster's own znodes; a dump does not say how many children they had."""
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
def test_a_saved_zookeeper_has_every_znode_as_it_was(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, name: str
) -> None:
    live, dump = f"zk://{zookeeper.hosts}/ledgers", f"dump://{tmp_path}/{name}"
    result = saved(live, tmp_path / name)
    assert (result.unread, result.gaps) == (0, [])
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    for tree in (Tree.LEDGERS, Tree.MARKS):
        held = columns(live, tree, LayoutKind.HIERARCHICAL)
        assert columns(dump, tree, LayoutKind.HIERARCHICAL) == held
        assert held
    there, here = own(live), own(dump)
    generators = {path for path in here if path.startswith("idgen")}
    assert {path: here[path].made for path in generators} == {path: there[path].made for path in generators}
    assert generators
    unmade = [{path: node._replace(made=0) for path, node in nodes.items()} for nodes in (there, here)]
    assert unmade[0] == unmade[1]


def test_a_saved_store_tells_when_it_was_read(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    live = open_store(f"zk://{zookeeper.hosts}/ledgers")
    before = live.cluster().scan_time
    saved(str(live.uri), tmp_path / "a")
    after = live.cluster().scan_time
    live.close()
    dump = open_store(f"dump://{tmp_path}/a").cluster()
    assert before <= dump.scan_time <= after
    assert (dump.proves_absence, dump.cut, dump.gaps) == (True, None, ())


@pytest.mark.parametrize("scope", ["/bk/cluster1"])
def test_a_saved_etcd_has_every_key_as_it_was(etcd: Etcd, tmp_path: Path, scope: str) -> None:
    live, dump = f"etcd://{etcd.host}{scope}", f"dump://{tmp_path}/a?root={scope}"
    assert saved(live, tmp_path / "a").unread == 0
    assert own(dump) == own(live)
    held = columns(live, Tree.LEDGERS, LayoutKind.ETCD)
    there, here = ({path: row[:2] + row[4:] for path, row in rows.items()} for rows in (
        held, columns(dump, Tree.LEDGERS, LayoutKind.ETCD)
    ))  # fmt: skip
    assert here == there
    assert here
    paths = [json.loads(line).get("path") for line in (tmp_path / "a").read_bytes().splitlines()]
    assert len(set(paths)) == len(paths) - 1  # the first and the last line have none
    assert scope in paths


@pytest.mark.parametrize("passwords", [True, False])
def test_passwords_are_left_out_on_demand_and_nothing_else(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, passwords: bool
) -> None:
    live = f"zk://{zookeeper.hosts}/ledgers"
    saved(live, tmp_path / "a", passwords=passwords)
    held = columns(live, Tree.LEDGERS, LayoutKind.HIERARCHICAL)
    kept = columns(f"dump://{tmp_path}/a", Tree.LEDGERS, LayoutKind.HIERARCHICAL)
    assert kept.keys() == held.keys()
    metadata = 0
    for path, (data, *numbers) in kept.items():
        was, *were = held[path]
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


def test_what_may_not_be_read_is_a_gap_of_the_dump_too(tmp_path: Path) -> None:
    shutil.copytree(CORPUS / "zookeeper" / "version-2", tmp_path / "server" / "version-2")
    hidden = "/ledgers/00/0000/L0028"
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        with writer(server.hosts) as client:
            client.set_acls(hidden, [make_digest_acl("ann", "hunter2", all=True)])
        result = saved(f"zk://{server.hosts}/ledgers", tmp_path / "a")
    assert result.unread == 1
    assert result.gaps == [(hidden, "it could not be read: not authorised to read it")]
    store = open_store(f"dump://{tmp_path}/a")
    assert store.cluster().gaps == ()
    parts = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 2)
    [(path, reason)] = [gap for part in parts for batch in store.read(part) for gap in batch.gaps]
    assert path == hidden
    assert reason.endswith("not read when the dump was made: it could not be read: not authorised to read it")


def test_owners_beside_the_root_are_saved_with_it(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "server" / "version-2")
    trees = ("managed-ledgers", "schemas", "pulsar/functions")
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        saved(f"zk://{server.hosts}/ledgers", tmp_path / "a", beside=trees)
        saved(f"zk://{server.hosts}/ledgers", tmp_path / "b")
        live = owners(f"pulsar:zk://{server.hosts}")
    of_dump = owners(f"pulsar:dump://{tmp_path}/a")
    # Each row names its store; all else is the same.
    rows = [sorted(({**row, "store": ""} for row in found), key=str) for found in (live, of_dump)]
    assert rows[0] == rows[1]
    assert len(live) > 150
    paths = [json.loads(line).get("path", "") for line in (tmp_path / "b").read_bytes().splitlines()]
    assert all(path.startswith("/ledgers") for path in paths[1:-1])


def test_nothing_is_left_of_a_dump_that_broke_off(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    def broken(records: int) -> None:
        raise KeyboardInterrupt

    of = wanted(f"zk://{zookeeper.hosts}/ledgers")
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "a") as out:
        save(of, out, broken)
    with pytest.raises(StoreError, match="/nowhere"), new_file(tmp_path / "a") as out:
        save(wanted(f"zk://{zookeeper.hosts}/nowhere"), out)
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


def test_a_rate_is_kept(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    import time

    of = wanted(f"zk://{zookeeper.hosts}/ledgers")
    began = time.monotonic()
    with new_file(tmp_path / "a") as out:
        result = save(replace(of, options=StoreOptions(rate_limit=100)), out)
    # Listing counts as well, so that it takes at least this.
    assert time.monotonic() - began >= result.records / 100 - 0.2


@pytest.mark.parametrize("uri", ["dump:///a", "zk-snapshot:///a", "etcd-snapshot:///a"])
def test_what_is_saved_is_not_saved_again(uri: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already saved"), new_file(tmp_path / "a") as out:
        save(wanted(uri), out)
