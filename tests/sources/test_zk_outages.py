"""Servers that end, freeze, lag or lose a session during a scan: all is read, or the failure is reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.errors import StoreError
from auditor.keys.ledger_path import FLAT, HIERARCHICAL
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import StoreOptions, Tree, ZnodeBatch
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.zookeeper import tree
from auditor.sources.metadata.zookeeper.live import SubtreesPart, ZooKeeperStore
from auditor.sources.metadata.zookeeper.tree import TopZnode
from tests.servers.zookeeper import Ensemble, ZooKeeperProcess, write, writer
from tests.servers.zookeeper_debian import debian_jars

LEDGERS = {f"/bk/{HIERARCHICAL.to_path(n * 2_500)}": b"%d" % n for n in range(600)}
BATCHES_BEFORE_ACT = 3  # batches after which something happens

Action = Callable[[ZooKeeperStore], object]


@pytest.fixture(scope="module", params=["3.9", "3.8"])
def ensemble(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    jars = debian_jars() if request.param == "3.8" else None
    with Ensemble(tmp_path_factory.mktemp("ensemble"), jars) as running:
        with writer(running.hosts) as client:
            write(client, LEDGERS)
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path / "server") as running:
        with writer(running.hosts) as client:
            write(client, LEDGERS)
        yield running


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "BATCH_ZNODES", 100)


def scan(
    hosts: str, act: Action, timeout_s: float = 2, rate: float = 0, at_once: bool = False
) -> tuple[list[ZnodeBatch], int]:
    """Return the batches of everything below /bk, and the number of connections made.

    ``act`` runs between two batches or, with ``at_once``, while one is read.
    """
    store = open_store(f"zk://{hosts}/bk", StoreOptions(rate, timeout_s=timeout_s, batch=10))
    assert isinstance(store, ZooKeeperStore)
    batches: list[ZnodeBatch] = []
    acting: threading.Thread | None = None
    try:
        (part,) = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
        for batch in store.read(part):
            batches.append(batch)
            if len(batches) == BATCHES_BEFORE_ACT:
                acting = threading.Thread(target=act, args=(store,), daemon=True)
                acting.start()
                if not at_once:
                    acting.join()
    finally:
        if acting:
            acting.join()
        store.close()
    return batches, store.operations()["connect"]


def ledgers(batches: list[ZnodeBatch]) -> dict[str, bytes]:
    """Return the data of ledgers by path, and check that each was read once."""
    read = [(path, data) for batch in batches for path, data in zip(batch.paths, batch.data, strict=True)]
    assert len(dict(read)) == len(read)
    return {path: data for path, data in read if "/L" in path}


def gaps(batches: list[ZnodeBatch]) -> list[tuple[str, str]]:
    return [gap for batch in batches for gap in batch.gaps]


def connected_member(ensemble: Ensemble) -> ZooKeeperProcess:
    """Return the member to which the scan, the only client, is connected."""
    (member,) = [member for member in ensemble.members if member.connections()]
    return member


@pytest.mark.parametrize("at_once", [False, True])
def test_scan_continues_with_another_member_after_a_member_is_killed(
    ensemble: Ensemble, at_once: bool
) -> None:
    ended: list[ZooKeeperProcess] = []

    def end(store: ZooKeeperStore) -> None:
        ended.append(connected_member(ensemble))
        ended[0].kill()

    try:
        batches, connected = scan(ensemble.hosts, end, rate=2000, at_once=at_once)
    finally:
        ended[0].start()
    assert connected > 1
    assert ledgers(batches) == LEDGERS
    assert gaps(batches) == []


def test_scan_continues_with_another_member_after_a_member_freezes(ensemble: Ensemble) -> None:
    frozen: list[ZooKeeperProcess] = []

    def freeze(store: ZooKeeperStore) -> None:
        frozen.append(connected_member(ensemble))
        frozen[0].freeze()

    try:
        batches, connected = scan(ensemble.hosts, freeze)
    finally:
        frozen[0].thaw()
        frozen[0].wait()
    assert connected > 1
    assert ledgers(batches) == LEDGERS
    assert gaps(batches) == []


def test_lagging_member_does_not_hide_ledgers(ensemble: Ensemble) -> None:
    # What one member does not know yet, since it was frozen, must not look deleted to who knew it before.
    follower = next(member for member in ensemble.members if member.mode() == "follower")
    other_hosts = ",".join(member.hosts for member in ensemble.members if member is not follower)
    follower.freeze()
    try:
        with writer(other_hosts) as client:
            write(client, {f"/late/00/0000/L{n:04}": b"" for n in range(10)})
        store = open_store(f"zk://{other_hosts}/late")
        parts = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
        store.close()
    finally:
        follower.thaw()
    lagging = open_store(f"zk://{follower.hosts}/late")
    batches = [batch for part in parts for batch in lagging.read(part)]
    lagging.close()
    assert len(ledgers(batches)) == 10


def test_second_scan_on_one_connection_reads_earlier_writes(ensemble: Ensemble) -> None:
    store = open_store(f"zk://{ensemble.hosts}/twice")
    with writer(ensemble.hosts) as client:
        for number in range(20):
            write(client, {f"/twice/cookies/{number}": b""})
            # Written through one member, and read through another, which may not have it yet.
            assert f"cookies/{number}" in store.cluster().nodes
        client.delete("/twice", recursive=True)
    store.close()


@pytest.mark.parametrize("at_once", [False, True])
def test_scan_waits_for_a_restarted_server(server: ZooKeeperProcess, at_once: bool) -> None:
    def restart(store: ZooKeeperStore) -> None:
        server.kill()
        server.start()

    batches, connected = scan(server.hosts, restart, rate=2000, at_once=at_once)
    assert connected > 1
    assert ledgers(batches) == LEDGERS
    assert gaps(batches) == []


def test_expired_session_is_replaced(server: ZooKeeperProcess) -> None:
    sessions: list[object] = []

    def expire(store: ZooKeeperStore) -> None:
        session = store._reader._session
        assert session is not None
        sessions.append(session)
        with writer(server.hosts, client_id=session._client.client_id):
            pass  # who closes a session that is also another's ends it for both
        deadline = time.monotonic() + 10
        while not session.has_moved:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        sessions.append(store)

    batches, connected = scan(server.hosts, expire)
    assert len(sessions) == 2
    assert connected > 1
    assert ledgers(batches) == LEDGERS
    assert gaps(batches) == []


def test_ledgers_deleted_during_the_scan_are_no_gap_and_all_others_are_read(server: ZooKeeperProcess) -> None:
    deleted = {path for path in LEDGERS if "/00/01" in path}
    assert len(deleted) == 200

    def delete(store: ZooKeeperStore) -> None:
        with writer(server.hosts) as client:
            for inner in sorted({path.rpartition("/")[0] for path in deleted}):
                client.delete(inner, recursive=True)

    batches, connected = scan(server.hosts, delete)
    read = ledgers(batches)
    assert connected == 1
    assert gaps(batches) == []
    assert {path: data for path, data in read.items() if path not in deleted} == {
        path: data for path, data in LEDGERS.items() if path not in deleted
    }
    assert len(read) < len(LEDGERS)


def test_ledgers_deleted_and_created_again_during_the_scan_are_a_gap(server: ZooKeeperProcess) -> None:
    inner = sorted({path.rpartition("/")[0] for path in LEDGERS})

    store = open_store(f"zk://{server.hosts}/bk", StoreOptions(batch=10))
    assert isinstance(store, ZooKeeperStore)
    # Between the list of an inner znode's siblings and its own data it is gone for a moment.
    real = store._reader.data
    pending = {inner[5]}

    def data(paths: list[str]) -> object:
        if pending & set(paths):
            with writer(server.hosts) as client:
                client.delete(inner[5], recursive=True)
                answers = real(paths)
                write(client, {path: b"" for path in LEDGERS if path.startswith(inner[5])})
            pending.clear()
            return answers
        return real(paths)

    store._reader.data = data  # type: ignore[method-assign,assignment]
    batches = [
        batch for part in store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1) for batch in store.read(part)
    ]
    store.close()
    assert gaps(batches) == [(inner[5], "it was deleted and created again during the scan")]
    assert {path for path in LEDGERS if not path.startswith(inner[5])} == set(ledgers(batches))


@pytest.mark.parametrize("how", ["kill", "freeze"])
@pytest.mark.parametrize("at_once", [False, True])
def test_unreachable_cluster_during_the_scan_is_an_error(
    server: ZooKeeperProcess, how: str, at_once: bool
) -> None:
    def cut_off(store: ZooKeeperStore) -> None:
        server.kill() if how == "kill" else server.freeze()

    with pytest.raises(StoreError, match=rf"cannot connect to ZooKeeper at {server.hosts}") as lost:
        scan(server.hosts, cut_off, timeout_s=1, rate=2000, at_once=at_once)
    assert lost.value.exit_code == 4


def test_parts_of_a_flat_root_are_read_after_a_restart(tmp_path: Path) -> None:
    ids = {f"/bk/{FLAT.to_path(n)}": b"" for n in range(500)}
    with ZooKeeperProcess(tmp_path / "server") as server:
        with writer(server.hosts) as client:
            write(client, ids)
        driver = open_store(f"zk://{server.hosts}/bk")
        parts = driver.parts(Tree.LEDGERS, LayoutKind.FLAT, 3)
        driver.close()
        server.kill()
        server.start()
        task = open_store(f"zk://{server.hosts}/bk")
        batches = [batch for part in parts for batch in task.read(part)]
        task.close()
    assert set(ledgers(batches)) == set(ids)


def test_server_behind_the_zxid_of_the_parts_is_rejected(server: ZooKeeperProcess) -> None:
    store = open_store(f"zk://{server.hosts}/bk", StoreOptions(timeout_s=1))
    ahead = SubtreesPart((TopZnode("/bk/00"),), zxid=2**40)
    with pytest.raises(StoreError, match="cannot connect to ZooKeeper"):
        list(store.read(ahead))
    store.close()
