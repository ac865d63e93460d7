"""A running etcd read at one revision: equal to its dump, blind to what comes later, without a trace."""

from __future__ import annotations

import gzip
import json
import pickle
import threading
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import CompactedError, StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.etcd import pinned_etcd as etcd_pinned
from auditor.sources.metadata.etcd.client import EtcdClient, EtcdRangeRequest, PendingAnswer
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.etcd.pinned_etcd import EtcdPart
from auditor.sources.metadata.store import MAX_RESTARTS, NO_TIME, StoreOptions, Tree, ZnodeBatch
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.servers.etcd import Etcd, free_port, running, running_cluster

DATA = Path(__file__).parents[3] / "data" / "etcd"
SCOPE = "/bk/cluster1"
REVISION = 86
"""What the corpus was saved at. Bookies' leases run out some time after a server was started on it."""

MANY = 50_000
FAST = StoreOptions(rate_limit=0)


def dumped() -> list[dict[str, Any]]:
    lines = gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def opened(server: Etcd, options: StoreOptions = FAST, scope: str = SCOPE) -> EtcdStore:
    store = open_store(f"etcd://{server.host}{scope}", options)
    assert isinstance(store, EtcdStore)
    return store


def batches(store: EtcdStore, wanted: int) -> Iterator[ZnodeBatch]:
    """Every part, as a task reads it: from its pickled form, in the order of the parts."""
    for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, wanted):
        yield from store.read(pickle.loads(pickle.dumps(part)))


def ledgers(store: EtcdStore, wanted: int = 4) -> dict[str, bytes]:
    held: dict[str, bytes] = {}
    for batch in batches(store, wanted):
        assert not batch.gaps
        assert not held.keys() & set(batch.paths)
        held.update(zip(batch.paths, batch.data, strict=True))
    return held


def made(count: int, scope: str = "/bk") -> list[tuple[str, bytes]]:
    """Keys of ledgers as the driver makes them, in their order."""
    ids = sorted((number % 128 << 56) + number // 128 + 1 for number in range(count))
    return [(f"{scope}/{etcd.to_path(LedgerId(id_))}", b"metadata %d" % id_) for id_ in ids]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("corpus"), saved=True) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Etcd]:
    with running(tmp_path / "etcd") as member:
        yield member


@pytest.mark.parametrize("wanted", [1, 5])
def test_a_live_read_equals_the_dump_of_the_same_cluster(corpus: Etcd, wanted: int) -> None:
    records = {record["path"]: record for record in dumped() if record["path"] != SCOPE}
    store = opened(corpus, replace(FAST, revision=REVISION, revision_time=12345))
    cluster = store.cluster()
    assert (cluster.scan_time, cluster.position, cluster.revision) == (12345, "revision 86", REVISION)
    assert (cluster.gaps, cluster.notes) == ((), ("etcd keeps no times and no under-replication marks",))
    seen = {
        znode.path: (znode.data, znode.czxid, znode.mzxid, znode.version, znode.ephemeral_owner)
        for znode in cluster.nodes.values()
    }
    assert {(znode.ctime, znode.mtime) for znode in cluster.nodes.values()} == {(NO_TIME, NO_TIME)}
    for batch in batches(store, wanted):
        assert not batch.gaps
        assert set(batch.mtime.tolist()) == {12345}
        assert set(batch.ctime.tolist()) == {NO_TIME}
        columns = (column.tolist() for column in (batch.mzxid, batch.version, batch.ephemeral_owner))
        for path, data, changed, version, lease in zip(batch.paths, batch.data, *columns, strict=True):
            assert path not in seen
            seen[path] = (data, records[path]["createRevision"], changed, version, lease)
    assert seen == {
        path: (
            b64decode(record["data"]),
            record["createRevision"],
            record["modRevision"],
            record["modRevision"],
            record["lease"],
        )
        for path, record in records.items()
    }
    store.close()


def test_the_clusters_own_keys_have_their_names_in_zookeeper(corpus: Etcd) -> None:
    oracle = json.loads(gzip.decompress((DATA / "oracle.json.gz").read_bytes()))
    store = opened(corpus, replace(FAST, revision=REVISION))
    nodes = store.cluster().nodes
    parents = ("cookies/", "available/readonly/", "available/")
    children = [[name.removeprefix(up) for name in nodes if name.startswith(up)] for up in parents]
    children[2] = [name for name in children[2] if not name.startswith("readonly")]
    assert sorted(children[0]) == sorted(oracle["cookies"])
    assert sorted(children[1]) == oracle["registration"]["readOnly"]
    assert sorted(children[2]) == oracle["registration"]["writable"]
    assert {"LAYOUT", "INSTANCEID"} < nodes.keys()
    store.close()


def test_there_are_no_marks_in_etcd(corpus: Etcd) -> None:
    store = opened(corpus)
    assert store.parts(Tree.MARKS, LayoutKind.ETCD, 4) == []
    assert (store.live, store.keeps_marks, store.keeps_times) == (True, False, False)
    assert not store.operations()


def test_reading_leaves_no_trace(corpus: Etcd) -> None:
    store = opened(corpus)
    before = corpus.revision()
    cluster = store.cluster()
    ledgers(store)
    store.close()
    kinds = {"connect", "range", "count", "keys_read"}
    assert store.operations().keys() == kinds
    # Leases that run out are the server's own doing, and its only one here.
    assert cluster.revision is not None
    assert before <= cluster.revision <= corpus.revision() <= before + 3


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("large")) as member:
        neighbours = [
            ("/bk", b""),
            ("/bk/layout", b"2\nx:0"),
            ("/bk/ledgers-other/x", b""),
            ("/bk-2/ledgers/x", b""),
        ]
        member.load([*made(MANY), *neighbours])
        yield member


@pytest.mark.parametrize(
    ("wanted", "options"),
    [(1, FAST), (7, replace(FAST, in_flight=1)), (40, replace(FAST, rate_limit=100_000))],
)
def test_fifty_thousand_keys_are_read_once_each(large: Etcd, wanted: int, options: StoreOptions) -> None:
    store = opened(large, options, "/bk")
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, wanted)
    assert min(wanted, 30) <= len(parts) <= 2 * wanted  # and none of a few keys
    assert list(ledgers(store, wanted).items()) == made(MANY)
    assert store.operations()["count"] <= 2 * (18 + 128)
    store.close()


def test_parts_are_of_about_one_size(large: Etcd) -> None:
    store = opened(large, scope="/bk")
    sizes = [
        sum(len(batch.paths) for batch in store.read(part))
        for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, 8)
    ]
    assert max(sizes) < 1.5 * MANY / 8
    store.close()


def test_a_pinned_revision_sees_nothing_of_what_is_written_meanwhile(server: Etcd) -> None:
    items = made(5_000)
    server.load([("/bk/layout", b"2\nx:0"), *items])
    store = opened(server, scope="/bk")
    cluster = store.cluster()
    stop, written = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            server.load([(path, b"changed %d" % number) for path, _ in items[:: 50 + number]])
            server.load([(f"/bk/{etcd.to_path(LedgerId((number << 40) + 3))}", b"new")])
            server.ctl("del", items[number][0])
            written.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        assert written.wait(20)
        first = ledgers(store)
        other = opened(
            server, replace(FAST, revision=cluster.revision, revision_time=cluster.scan_time), "/bk"
        )
        assert first == ledgers(other, 9) == dict(items)
        assert other.cluster().position == cluster.position
        other.close()
    finally:
        stop.set()
        writer.join()
    later = store.cluster()
    assert later.revision is not None
    assert cluster.revision is not None
    assert later.revision > cluster.revision
    again = ledgers(store)
    assert again != first
    assert items[1][0] not in again
    store.close()


def test_parts_carry_the_revision_to_whoever_reads_them(server: Etcd) -> None:
    server.load([("/bk/layout", b"2\nx:0"), *made(100)])
    store = opened(server, scope="/bk")
    revision = store.cluster().revision
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 3)
    server.load([(path, b"changed") for path, _ in made(100)])
    task = opened(server, scope="/bk")
    held = [data for part in parts for batch in task.read(part) for data in batch.data]
    assert held == [data for _, data in made(100)]
    assert {part.moment.revision for part in parts if isinstance(part, EtcdPart)} == {revision}
    task.close()
    store.close()


def test_a_compacted_revision_ends_the_read_and_says_what_was_lost(server: Etcd) -> None:
    server.load([("/bk/layout", b"2\nx:0"), *made(3_000)])
    store = opened(server, scope="/bk")
    store.cluster()
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 3)
    assert not store.has_lost_moment()
    server.compact(server.load([("/bk/cookies/new", b"")]))
    with pytest.raises(CompactedError, match=r"was compacted during the scan.*auto-compaction-retention"):
        list(store.read(parts[-1]))
    assert store.has_lost_moment()
    # From the start, at a new revision.
    assert "cookies/new" in store.cluster().nodes
    assert not store.has_lost_moment()
    assert len(ledgers(store)) == 3_000
    store.close()


class Meddler(EtcdClient):
    """Somebody compacts between two questions."""

    server: Etcd
    times = 0

    def send_request(self, asked: EtcdRangeRequest) -> PendingAnswer:
        if asked.revision and self.times:
            self.times -= 1
            self.server.compact(self.server.load([("/bk/underreplication", b"")]))
        return super().send_request(asked)


def test_the_clusters_own_keys_are_read_again_when_compacted_meanwhile(
    server: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load([("/bk/layout", b"2\nx:0")])
    monkeypatch.setattr(etcd_pinned, "EtcdClient", Meddler)
    monkeypatch.setattr(Meddler, "server", server, raising=False)
    monkeypatch.setattr(Meddler, "times", 2)
    store = opened(server, scope="/bk")
    cluster = store.cluster()
    assert cluster.nodes["LAYOUT"].data == b"2\nx:0"
    assert "compacted the revision 2 times during the scan" in cluster.notes[1]
    monkeypatch.setattr(Meddler, "times", MAX_RESTARTS + 1)
    other = opened(server, scope="/bk")
    with pytest.raises(CompactedError):
        other.cluster()
    store.close()
    other.close()


def test_a_store_goes_on_with_another_member(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "etcd") as members:
        members[0].load([("/bk/layout", b"2\nx:0"), *made(20_000)])
        hosts = ",".join([f"127.0.0.1:{free_port()}", *(member.host for member in members)])
        store = EtcdStore(parse_metadata_uri(f"etcd://{hosts}/bk"), replace(FAST, timeout_s=5))
        store.cluster()
        held: dict[str, bytes] = {}
        for number, batch in enumerate(batches(store, 4)):
            held.update(zip(batch.paths, batch.data, strict=True))
            if number == 3:
                members[0].stop()
        assert list(held.items()) == made(20_000)
        assert store.operations()["failover"] >= 2
        store.close()


def test_a_part_of_one_cluster_is_not_read_from_another(server: Etcd, tmp_path: Path) -> None:
    server.load(made(10))
    store = opened(server, scope="/bk")
    [part] = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 1)
    with running(tmp_path / "other") as other:
        other.load(made(10))
        task = opened(other, scope="/bk")
        with pytest.raises(StoreError, match="belong to several clusters"):
            list(task.read(part))
        task.close()
    store.close()


def test_a_role_that_reads_below_the_scope_is_enough(server: Etcd, tmp_path: Path) -> None:
    server.load([("/bk", b""), ("/bk/layout", b"2\nx:0"), ("/bk/cookies/b:1", b"c"), *made(300)])
    server.ctl("role", "add", "auditor")
    server.ctl("role", "grant-permission", "auditor", "read", "--prefix=true", "/bk/")
    server.ctl("user", "add", "auditor:pass-9917")
    server.ctl("user", "grant-role", "auditor", "auditor")
    server.enable_auth("root-of-all")
    file = tmp_path / "credentials.toml"
    file.touch(0o600)
    file.write_text('[etcd]\nuser = "auditor"\npassword = "pass-9917"\n', "utf-8")
    named = replace(FAST, credentials=str(file))
    store = opened(server, named, "/bk")
    assert "cookies/b:1" in store.cluster().nodes
    assert list(ledgers(store).items()) == made(300)
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 2)
    assert b"pass-9917" not in pickle.dumps((parts, named))
    other = opened(server, named, "/other")
    with pytest.raises(StoreError, match="not authorised to read /other/"):
        other.cluster()
    store.close()
    other.close()


def test_a_cookie_that_no_message_holds_is_a_gap(tmp_path: Path) -> None:
    with running(tmp_path / "etcd", flags=("--max-request-bytes", str(8 << 20))) as server:
        server.load([("/bk/layout", b""), ("/bk/cookies/a:1", b"x" * (5 << 20)), ("/bk/cookies/b:1", b"c")])
        store = opened(server, scope="/bk")
        cluster = store.cluster()
        assert [path for path, _ in cluster.gaps] == ["/bk/cookies/a:1"]
        assert "cookies/b:1" in cluster.nodes
        store.close()


def test_a_scope_with_nothing_below_is_no_cluster(corpus: Etcd) -> None:
    for scope in ("/bk", "/bk/cluster1/", "/bk/cluster"):
        store = opened(corpus, scope=scope)
        with pytest.raises(StoreError, match=f"no BookKeeper cluster below {scope} .*exactly as"):
            store.cluster()
        store.close()
    trailing = opened(corpus, scope="/bk/cluster1")
    assert trailing.cluster().nodes
    trailing.close()


def test_keys_of_another_making_are_read_as_well(server: Etcd) -> None:
    odd = ["/bk/ledgers/0-0-0-0-1", "/bk/ledgers/", "/bk/ledgers/x/y", "/bk/ledgers/~", "/bk/ledgers/\udcff"]
    server.load([("/bk/layout", b""), *((path, b"odd") for path in odd)])
    store = opened(server, scope="/bk")
    store.cluster()
    assert sorted(ledgers(store)) == sorted([*odd[:4], "/bk/ledgers/\\xff"])
    store.close()
