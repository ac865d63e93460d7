"""The live ZooKeeper store, against real servers with files of real clusters and trees made by the tests."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import StoreError
from auditor.keys import ledger_path
from auditor.keys.ledger_path import FLAT, HIERARCHICAL, LEGACY_HIERARCHICAL, LONG_HIERARCHICAL
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.store import MetadataStore, StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store

ReadStore = Callable[[MetadataStore, LayoutKind, int], dict[str, tuple[Any, ...]]]
BOTH_FORMS = [0, 1, 9_999, 10_000, 12_345, 2_147_483_646]
LONG_FORMS = [2_147_483_647, 4_294_967_296, 9_999_999_999, 2**63 - 1]
SCOPED = [LedgerId(0, scope=1), LedgerId(9_999, scope=-1), LedgerId(-2, scope=2**63 - 1)]


TO_PATH = {
    LayoutKind.FLAT: FLAT.to_path,
    LayoutKind.LEGACY_HIERARCHICAL: LEGACY_HIERARCHICAL.to_path,
    LayoutKind.HIERARCHICAL: HIERARCHICAL.to_path,
    LayoutKind.LONG_HIERARCHICAL: LONG_HIERARCHICAL.to_path,
}


def znode(path: str, data: bytes = b"", owner: int = 0) -> Znode:
    return Znode(path, data, 0, 0, 0, 0, 0, owner)


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def server(one_server: EmbeddedZooKeeper) -> Iterator[EmbeddedZooKeeper]:
    """Yield the empty server that all tests of this module share."""
    yield one_server
    one_server._client().delete("/bk", recursive=True)


@pytest.mark.parametrize("corpus", ["interleaved-hier", "flat-v1", "dbledger-long"])
def test_a_live_read_equals_the_dump_of_the_same_cluster(
    corpus: str,
    copy_of: Callable[[str], Path],
    expected_of: Callable[[str], dict[str, Any]],
    layout_of: Callable[[str], LayoutKind],
    held_by: ReadStore,
) -> None:
    with EmbeddedZooKeeper(copy_of(corpus)) as server:
        for part_count in (1, 5):
            store = open_store(
                f"zk://{server.hosts}/ledgers", StoreOptions(rate_limit=0, batch=7, in_flight=3)
            )
            assert held_by(store, layout_of(corpus), part_count) == expected_of(corpus)
            kinds = {"connect", "sync", "multi_read", "znodes_read", "znodes_listed"}
            assert set(store.operations()) == kinds
            store.close()


def test_scan_time_is_the_clock_or_the_newest_znode_time_if_later(
    copy_of: Callable[[str], Path],
) -> None:
    from auditor.sources.metadata.uri import parse_metadata_uri
    from auditor.sources.metadata.zookeeper.live import ZooKeeperStore

    with EmbeddedZooKeeper(copy_of("flat-v1")) as server:
        uri = f"zk://{server.hosts}/ledgers"
        for now_ms in (5, 2_000_000_000_000):
            store = ZooKeeperStore(parse_metadata_uri(uri), StoreOptions(), clock=repeat(now_ms).__next__)
            cluster = store.cluster()
            newest = max(max(node.ctime, node.mtime) for node in cluster.nodes.values())
            assert cluster.scan_time == max(now_ms, newest)
            assert int(cluster.position, 16) > 0
            store.close()


@pytest.mark.parametrize("layout", list(TO_PATH))
@pytest.mark.parametrize("part_count", [1, 3])
def test_all_layouts_are_read_completely_with_malformed_names(
    layout: LayoutKind, part_count: int, server: EmbeddedZooKeeper, held_by: ReadStore
) -> None:
    ids = BOTH_FORMS + ([] if layout is LayoutKind.LEGACY_HIERARCHICAL else LONG_FORMS)
    written = {f"/bk/{TO_PATH[layout](ledger_id)}": b"%d" % ledger_id for ledger_id in ids}
    written |= {f"/bk/{to_path(7)}": b"7" for to_path in TO_PATH.values()}
    written |= {"/bk/LAYOUT": b"2\nx:1", "/bk/cookies/b:3181": b"c", "/bk/underreplication/disable": b""}
    written |= {"/bk/00/foo/L1/deeper/still": b"odd", "/bk/000/zz": b"", "/bk/Lx": b"?"}
    written |= {"/bk/underreplication/ledgers/0000/0000/0000/0001/urL0000000001": b"m"}
    written |= {f"/bk/{ledger_path.to_scope_id_path(ledger)}": b"s" for ledger in SCOPED}
    written |= {"/bk/scopes/odd/L0001": b"?"}
    written |= {"/bk/underreplication/ledgers/urL7": b"", "/bk/underreplication/locks/urL0000000001": b"l"}
    server.load(znode(path, data) for path, data in written.items())
    store = open_store(f"zk://{server.hosts}/bk", StoreOptions(rate_limit=0))
    znodes = held_by(store, layout, part_count)
    store.close()
    assert {path: znodes[path][0] for path in written} == written
    assert all("/".join(path.split("/")[:-1]) in {"/bk", *znodes} for path in znodes)


def test_parts_have_the_requested_number_and_are_small(server: EmbeddedZooKeeper) -> None:
    server.load(znode(f"/bk/{LONG_HIERARCHICAL.to_path(2**33 + n * 10_000)}") for n in range(200))
    store = open_store(f"zk://{server.hosts}/bk")
    parts = store.parts(Tree.LEDGERS, LayoutKind.LONG_HIERARCHICAL, 8)
    assert len(parts) == 8
    sizes = [
        sum(len(batch.paths) for batch in store.read(pickle.loads(pickle.dumps(part)))) for part in parts
    ]
    assert max(sizes) <= 2 * min(sizes)
    assert all(len(pickle.dumps(part)) < 10_000 for part in parts)
    store.close()


def test_tree_of_one_scope_is_divided_at_its_branches(server: EmbeddedZooKeeper) -> None:
    ledgers = [LedgerId(n << 16, scope=-5) for n in range(60)]
    server.load(znode(f"/bk/{ledger_path.to_scope_id_path(ledger)}") for ledger in ledgers)
    store = open_store(f"zk://{server.hosts}/bk")
    parts = store.parts(Tree.LEDGERS, LayoutKind.LONG_HIERARCHICAL, 4)
    sizes = [sum(len(batch.paths) for batch in store.read(part)) for part in parts]
    assert len(sizes) == 4
    assert sum(sizes) == 7 + 2 * 60  # each step once
    assert max(sizes) <= 2 * min(sizes)
    store.close()


def test_a_task_opens_its_own_connection(server: EmbeddedZooKeeper) -> None:
    server.load([znode("/bk/00/0000/L0001", b"x")])
    driver = open_store(f"zk://{server.hosts}/bk")
    (part, *_) = driver.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
    driver.close()
    task = open_store(f"zk://{server.hosts}/bk")
    assert [path for batch in task.read(part) for path in batch.paths][-1] == "/bk/00/0000/L0001"
    task.close()


def test_large_znode_and_many_children_are_read(server: EmbeddedZooKeeper) -> None:
    server.load([znode("/bk/00/0000/L0000", bytes(900_000))])
    server.load(znode(f"/bk/00/0000/L{n:04}", bytes(10)) for n in range(1, 3000))
    store = open_store(f"zk://{server.hosts}/bk", StoreOptions(rate_limit=0))
    (part,) = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
    read = {p: d for batch in store.read(part) for p, d in zip(batch.paths, batch.data, strict=True)}
    store.close()
    assert len(read) == 3002
    assert read["/bk/00/0000/L0000"] == bytes(900_000)


def test_rate_limit_applies_to_reading(server: EmbeddedZooKeeper) -> None:
    server.load(znode(f"/bk/00/0000/L{n:04}") for n in range(600))
    store = open_store(f"zk://{server.hosts}/bk", StoreOptions(rate_limit=400, batch=50))
    (part,) = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
    begin = time.monotonic()
    assert sum(len(batch.paths) for batch in store.read(part)) == 602
    assert time.monotonic() - begin >= (602 - 50) / 400 - 0.15
    store.close()


def test_unreadable_znode_is_a_gap_and_the_other_znodes_are_read(tmp_path: Path) -> None:
    from kazoo.security import make_digest_acl

    # A server of its own: nobody may take such rights back.
    with EmbeddedZooKeeper(tmp_path) as server:
        server.load([znode("/bk/00/0000/L0001"), znode("/bk/00/0001/L0001"), znode("/bk/cookies/b")])
        server._client().set_acls("/bk/00/0001", [make_digest_acl("somebody", "else", all=True)])
        store = open_store(f"zk://{server.hosts}/bk")
        parts = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 2)
        batches = [batch for part in parts for batch in store.read(part)]
        assert {path for batch in batches for path in batch.paths} == {
            "/bk/00",
            "/bk/00/0000",
            "/bk/00/0000/L0001",
        }
        ((path, reason),) = [gap for batch in batches for gap in batch.gaps]
        assert (path, "not authorised" in reason) == ("/bk/00/0001", True)
        server._client().set_acls("/bk", [make_digest_acl("somebody", "else", all=True)])
        with pytest.raises(StoreError, match=r"not authorised to read /bk .*127\.0\.0\.1"):
            store.cluster()
        store.close()


def test_missing_root_and_unreachable_server_are_errors_with_the_hosts(server: EmbeddedZooKeeper) -> None:
    store = open_store(f"zk://{server.hosts}/nothing/here")
    with pytest.raises(StoreError, match=rf"/nothing/here .*{server.hosts}"):
        store.cluster()
    with pytest.raises(StoreError, match="/nothing/here"):
        store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 2)
    store.close()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(StoreError, match=rf"{hosts}: no connection within 1 s"):
            open_store(f"zk://{hosts}/ledgers", StoreOptions(timeout_s=1)).cluster()
        assert time.monotonic() - begin < 5


def test_no_log_level_shows_znode_data(server: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    server.load([znode("/bk/00/0000/L0001", b"a-password")])
    store = open_store(f"zk://{server.hosts}/bk")
    (part,) = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
    assert b"a-password" in [data for batch in store.read(part) for data in batch.data]
    store.close()
    assert "a-password" not in caplog.text


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Yield whole ZooKeeper frames: an int length and that number of bytes."""
    buffer = b""
    while chunk := connection.recv(1 << 16):
        buffer += chunk
        while len(buffer) >= 4 and len(buffer) >= 4 + (size := struct.unpack_from("!i", buffer)[0]):
            yield buffer[: 4 + size]
            buffer = buffer[4 + size :]


@contextmanager
def run_proxy(server: EmbeddedZooKeeper, answer: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Run a proxy; if ``answer`` returns bytes for a frame, it sends them and ends the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(client: socket.socket, upstream: socket.socket) -> None:
        with suppress(OSError), client, upstream:
            for number, frame in enumerate(frames(client)):
                reply = answer(frame) if number else None  # the first frame is the handshake
                if reply is not None:
                    client.sendall(reply)
                    client.shutdown(socket.SHUT_RDWR)
                    return
                upstream.sendall(frame)

    def pump_back(client: socket.socket, upstream: socket.socket) -> None:
        with suppress(OSError):
            while chunk := upstream.recv(1 << 16):
                client.sendall(chunk)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                upstream = socket.create_connection(("127.0.0.1", server.port))
                for work in (pump, pump_back):
                    threading.Thread(target=work, args=(client, upstream), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def test_server_without_multi_read_is_read_by_single_requests(
    copy_of: Callable[[str], Path], expected_of: Callable[[str], dict[str, Any]], held_by: ReadStore
) -> None:
    def unimplemented(frame: bytes) -> bytes | None:
        # What a server before 3.6 does with a type that it does not know: error -6 and the session's end.
        xid, kind = struct.unpack_from("!ii", frame, 4)
        return struct.pack("!iiqi", 16, xid, 0, -6) if kind == 22 else None

    with (
        EmbeddedZooKeeper(copy_of("interleaved-hier")) as server,
        run_proxy(server, unimplemented) as hosts,
    ):
        store = open_store(f"zk://{hosts}/ledgers", StoreOptions(rate_limit=0))
        assert held_by(store, LayoutKind.HIERARCHICAL, 3) == expected_of("interleaved-hier")
        assert store.operations()["multi_read"] == 1
        assert store.operations()["connect"] == 2
        assert store.operations()["get"] > 60
        store.close()


def test_broken_connection_is_reopened_and_no_znode_is_lost(server: EmbeddedZooKeeper) -> None:
    server.load(znode(f"/bk/00/0000/L{n:04}") for n in range(500))
    broken: list[bytes] = []

    def breaking(frame: bytes) -> bytes | None:
        if struct.unpack_from("!i", frame, 8)[0] == 22 and b"L0300" in frame and len(broken) < 2:
            broken.append(frame)
            return b""
        return None

    with run_proxy(server, breaking) as hosts:
        store = open_store(f"zk://{hosts}/bk", StoreOptions(rate_limit=0, batch=50))
        (part,) = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
        batches = list(store.read(part))
        store.close()
    assert len(broken) == 2
    assert sorted(path for batch in batches for path in batch.paths)[2:] == [
        f"/bk/00/0000/L{n:04}" for n in range(500)
    ]
    assert not [gap for batch in batches for gap in batch.gaps]


def test_znode_that_breaks_every_connection_is_a_gap(server: EmbeddedZooKeeper) -> None:
    server.load(znode(f"/bk/00/0000/L{n:04}") for n in range(60))

    def breaking(frame: bytes) -> bytes | None:
        return b"" if struct.unpack_from("!i", frame, 8)[0] == 22 and b"L0030" in frame else None

    with run_proxy(server, breaking) as hosts:
        store = open_store(f"zk://{hosts}/bk", StoreOptions(rate_limit=0, batch=30))
        (part,) = store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 1)
        batches = list(store.read(part))
        store.close()
    assert sum(len(batch.paths) for batch in batches) == 61
    ((path, reason),) = [gap for batch in batches for gap in batch.gaps]
    assert path == "/bk/00/0000/L0030"
    assert "could not be read" in reason
