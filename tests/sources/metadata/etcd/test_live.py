"""A running etcd read at one revision: it equals its dump, omits later writes, and is not changed."""

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

KEY_COUNT = 50_000
UNLIMITED = StoreOptions(rate_limit=0)


def read_dump() -> list[dict[str, Any]]:
    lines = gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def open_etcd(server: Etcd, options: StoreOptions = UNLIMITED, scope: str = SCOPE) -> EtcdStore:
    store = open_store(f"etcd://{server.host}{scope}", options)
    assert isinstance(store, EtcdStore)
    return store


def batches(store: EtcdStore, part_count: int) -> Iterator[ZnodeBatch]:
    """Yield the batches of all parts in order, each part pickled and unpickled as for a task."""
    for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, part_count):
        yield from store.read(pickle.loads(pickle.dumps(part)))


def ledgers(store: EtcdStore, part_count: int = 4) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for batch in batches(store, part_count):
        assert not batch.gaps
        assert not contents.keys() & set(batch.paths)
        contents.update(zip(batch.paths, batch.data, strict=True))
    return contents


def make_keys(count: int, scope: str = "/bk") -> list[tuple[str, bytes]]:
    """Return keys of ledgers as BookKeeper's etcd driver writes them, in key order."""
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


@pytest.mark.parametrize("part_count", [1, 5])
def test_a_live_read_equals_the_dump_of_the_same_cluster(corpus: Etcd, part_count: int) -> None:
    records = {record["path"]: record for record in read_dump() if record["path"] != SCOPE}
    store = open_etcd(corpus, replace(UNLIMITED, revision=REVISION, revision_time=12345))
    cluster = store.cluster()
    assert (cluster.scan_time, cluster.position, cluster.revision) == (12345, "revision 86", REVISION)
    assert (cluster.gaps, cluster.notes) == ((), ("etcd keeps no times and no under-replication marks",))
    rows_by_path = {
        znode.path: (znode.data, znode.czxid, znode.mzxid, znode.version, znode.ephemeral_owner)
        for znode in cluster.nodes.values()
    }
    assert {(znode.ctime, znode.mtime) for znode in cluster.nodes.values()} == {(NO_TIME, NO_TIME)}
    for batch in batches(store, part_count):
        assert not batch.gaps
        assert set(batch.mtime.tolist()) == {12345}
        assert set(batch.ctime.tolist()) == {NO_TIME}
        columns = (column.tolist() for column in (batch.mzxid, batch.version, batch.ephemeral_owner))
        for path, data, changed, version, lease in zip(batch.paths, batch.data, *columns, strict=True):
            assert path not in rows_by_path
            rows_by_path[path] = (data, records[path]["createRevision"], changed, version, lease)
    assert rows_by_path == {
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


def test_cluster_keys_have_their_zookeeper_names(corpus: Etcd) -> None:
    oracle = json.loads(gzip.decompress((DATA / "oracle.json.gz").read_bytes()))
    store = open_etcd(corpus, replace(UNLIMITED, revision=REVISION))
    nodes = store.cluster().nodes
    parents = ("cookies/", "available/readonly/", "available/")
    children = [[name.removeprefix(up) for name in nodes if name.startswith(up)] for up in parents]
    children[2] = [name for name in children[2] if not name.startswith("readonly")]
    assert sorted(children[0]) == sorted(oracle["cookies"])
    assert sorted(children[1]) == oracle["registration"]["readOnly"]
    assert sorted(children[2]) == oracle["registration"]["writable"]
    assert {"LAYOUT", "INSTANCEID"} < nodes.keys()
    store.close()


def test_etcd_has_no_marks(corpus: Etcd) -> None:
    store = open_etcd(corpus)
    assert store.parts(Tree.MARKS, LayoutKind.ETCD, 4) == []
    assert (store.live, store.keeps_marks, store.keeps_times) == (True, False, False)
    assert not store.operations()


def test_reading_does_not_change_the_server(corpus: Etcd) -> None:
    store = open_etcd(corpus)
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
        member.load([*make_keys(KEY_COUNT), *neighbours])
        yield member


@pytest.mark.parametrize(
    ("part_count", "options"),
    [(1, UNLIMITED), (7, replace(UNLIMITED, in_flight=1)), (40, replace(UNLIMITED, rate_limit=100_000))],
)
def test_fifty_thousand_keys_are_read_once_each(large: Etcd, part_count: int, options: StoreOptions) -> None:
    store = open_etcd(large, options, "/bk")
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, part_count)
    assert min(part_count, 30) <= len(parts) <= 2 * part_count  # and none of a few keys
    assert list(ledgers(store, part_count).items()) == make_keys(KEY_COUNT)
    assert store.operations()["count"] <= 2 * (18 + 128)
    store.close()


def test_parts_have_about_equal_sizes(large: Etcd) -> None:
    store = open_etcd(large, scope="/bk")
    sizes = [
        sum(len(batch.paths) for batch in store.read(part))
        for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, 8)
    ]
    assert max(sizes) < 1.5 * KEY_COUNT / 8
    store.close()


def test_pinned_revision_excludes_later_writes(server: Etcd) -> None:
    ledger_keys = make_keys(5_000)
    server.load([("/bk/layout", b"2\nx:0"), *ledger_keys])
    store = open_etcd(server, scope="/bk")
    cluster = store.cluster()
    stop, written = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            server.load([(path, b"changed %d" % number) for path, _ in ledger_keys[:: 50 + number]])
            server.load([(f"/bk/{etcd.to_path(LedgerId((number << 40) + 3))}", b"new")])
            server.ctl("del", ledger_keys[number][0])
            written.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        assert written.wait(20)
        first = ledgers(store)
        pinned_store = open_etcd(
            server, replace(UNLIMITED, revision=cluster.revision, revision_time=cluster.scan_time), "/bk"
        )
        assert first == ledgers(pinned_store, 9) == dict(ledger_keys)
        assert pinned_store.cluster().position == cluster.position
        pinned_store.close()
    finally:
        stop.set()
        writer.join()
    later = store.cluster()
    assert later.revision is not None
    assert cluster.revision is not None
    assert later.revision > cluster.revision
    again = ledgers(store)
    assert again != first
    assert ledger_keys[1][0] not in again
    store.close()


def test_parts_carry_their_revision_to_the_task(server: Etcd) -> None:
    server.load([("/bk/layout", b"2\nx:0"), *make_keys(100)])
    store = open_etcd(server, scope="/bk")
    revision = store.cluster().revision
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 3)
    server.load([(path, b"changed") for path, _ in make_keys(100)])
    task = open_etcd(server, scope="/bk")
    contents = [data for part in parts for batch in task.read(part) for data in batch.data]
    assert contents == [data for _, data in make_keys(100)]
    assert {part.moment.revision for part in parts if isinstance(part, EtcdPart)} == {revision}
    task.close()
    store.close()


def test_compacted_revision_ends_the_read_with_an_error(server: Etcd) -> None:
    server.load([("/bk/layout", b"2\nx:0"), *make_keys(3_000)])
    store = open_etcd(server, scope="/bk")
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


class CompactingClient(EtcdClient):
    """A client whose etcd is compacted between two requests."""

    server: Etcd
    times = 0

    def send_request(self, range_request: EtcdRangeRequest) -> PendingAnswer:
        if range_request.revision and self.times:
            self.times -= 1
            self.server.compact(self.server.load([("/bk/underreplication", b"")]))
        return super().send_request(range_request)


def test_cluster_keys_are_read_again_after_a_compaction(
    server: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load([("/bk/layout", b"2\nx:0")])
    monkeypatch.setattr(etcd_pinned, "EtcdClient", CompactingClient)
    monkeypatch.setattr(CompactingClient, "server", server, raising=False)
    monkeypatch.setattr(CompactingClient, "times", 2)
    store = open_etcd(server, scope="/bk")
    cluster = store.cluster()
    assert cluster.nodes["LAYOUT"].data == b"2\nx:0"
    assert "compacted the revision 2 times during the scan" in cluster.notes[1]
    monkeypatch.setattr(CompactingClient, "times", MAX_RESTARTS + 1)
    failing_store = open_etcd(server, scope="/bk")
    with pytest.raises(CompactedError):
        failing_store.cluster()
    store.close()
    failing_store.close()


def test_store_continues_with_another_member(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "etcd") as members:
        members[0].load([("/bk/layout", b"2\nx:0"), *make_keys(20_000)])
        hosts = ",".join([f"127.0.0.1:{free_port()}", *(member.host for member in members)])
        store = EtcdStore(parse_metadata_uri(f"etcd://{hosts}/bk"), replace(UNLIMITED, timeout_s=5))
        store.cluster()
        contents: dict[str, bytes] = {}
        for number, batch in enumerate(batches(store, 4)):
            contents.update(zip(batch.paths, batch.data, strict=True))
            if number == 3:
                members[0].stop()
        assert list(contents.items()) == make_keys(20_000)
        assert store.operations()["failover"] >= 2
        store.close()


def test_a_part_of_one_cluster_is_not_read_from_another(server: Etcd, tmp_path: Path) -> None:
    server.load(make_keys(10))
    store = open_etcd(server, scope="/bk")
    [part] = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 1)
    with running(tmp_path / "other") as other_server:
        other_server.load(make_keys(10))
        task = open_etcd(other_server, scope="/bk")
        with pytest.raises(StoreError, match="belong to several clusters"):
            list(task.read(part))
        task.close()
    store.close()


def test_read_permission_below_the_scope_is_sufficient(server: Etcd, tmp_path: Path) -> None:
    server.load([("/bk", b""), ("/bk/layout", b"2\nx:0"), ("/bk/cookies/b:1", b"c"), *make_keys(300)])
    server.ctl("role", "add", "auditor")
    server.ctl("role", "grant-permission", "auditor", "read", "--prefix=true", "/bk/")
    server.ctl("user", "add", "auditor:pass-9917")
    server.ctl("user", "grant-role", "auditor", "auditor")
    server.enable_auth("root-of-all")
    file = tmp_path / "credentials.toml"
    file.touch(0o600)
    file.write_text('[etcd]\nuser = "auditor"\npassword = "pass-9917"\n', "utf-8")
    options = replace(UNLIMITED, credentials=str(file))
    store = open_etcd(server, options, "/bk")
    assert "cookies/b:1" in store.cluster().nodes
    assert list(ledgers(store).items()) == make_keys(300)
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 2)
    assert b"pass-9917" not in pickle.dumps((parts, options))
    other_store = open_etcd(server, options, "/other")
    with pytest.raises(StoreError, match="not authorised to read /other/"):
        other_store.cluster()
    store.close()
    other_store.close()


def test_cookie_larger_than_a_message_is_a_gap(tmp_path: Path) -> None:
    with running(tmp_path / "etcd", flags=("--max-request-bytes", str(8 << 20))) as server:
        server.load([("/bk/layout", b""), ("/bk/cookies/a:1", b"x" * (5 << 20)), ("/bk/cookies/b:1", b"c")])
        store = open_etcd(server, scope="/bk")
        cluster = store.cluster()
        assert [path for path, _ in cluster.gaps] == ["/bk/cookies/a:1"]
        assert "cookies/b:1" in cluster.nodes
        store.close()


def test_scope_without_keys_is_an_error(corpus: Etcd) -> None:
    for scope in ("/bk", "/bk/cluster1/", "/bk/cluster"):
        store = open_etcd(corpus, scope=scope)
        with pytest.raises(StoreError, match=f"no BookKeeper cluster below {scope} .*exactly as"):
            store.cluster()
        store.close()
    trailing = open_etcd(corpus, scope="/bk/cluster1")
    assert trailing.cluster().nodes
    trailing.close()


def test_keys_of_unknown_form_are_read(server: Etcd) -> None:
    odd = ["/bk/ledgers/0-0-0-0-1", "/bk/ledgers/", "/bk/ledgers/x/y", "/bk/ledgers/~", "/bk/ledgers/\udcff"]
    server.load([("/bk/layout", b""), *((path, b"odd") for path in odd)])
    store = open_etcd(server, scope="/bk")
    store.cluster()
    assert sorted(ledgers(store)) == sorted([*odd[:4], "/bk/ledgers/\\xff"])
    store.close()
