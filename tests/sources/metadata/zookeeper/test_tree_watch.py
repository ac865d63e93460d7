"""The changes that a tree watch reports on real servers, against a second full read."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.exceptions import KazooException
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys import ledger_path
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.ledger_rows import REREAD_LEDGERS, ledger_rows
from auditor.sources.metadata.store import LedgerChanges, Part, StoreOptions, Tree
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.zookeeper import tree
from auditor.sources.metadata.zookeeper.live import ZooKeeperStore
from tests.examples import examples
from tests.servers.zookeeper import writer
from tests.servers.zookeeper_debian import debian_zookeeper
from tests.sources.earlier_etcd import CLOSED, GARBAGE, LONGER, OPEN
from tests.sources.metadata.zookeeper.test_live import run_proxy

ROOTS = count()
KIND = LayoutKind.HIERARCHICAL
WRITE_ONLY = [ACL(Permissions.ALL & ~Permissions.READ, Id("world", "anyone"))]


@pytest.fixture(scope="module", params=["pyspark's", "Debian's"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedZooKeeper]:
    home = tmp_path_factory.mktemp("server")
    usual = request.param == "pyspark's"
    with EmbeddedZooKeeper(home) if usual else debian_zookeeper(home) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: EmbeddedZooKeeper) -> Iterator[Any]:
    with writer(server.hosts) as writing:
        yield writing


def open_zookeeper(server: EmbeddedZooKeeper, root: str, **options: Any) -> ZooKeeperStore:
    store = open_store(f"zk://{server.hosts}{root}", StoreOptions(rate_limit=0, **options))
    assert isinstance(store, ZooKeeperStore)
    return store


def rows(store: ZooKeeperStore, parts: list[Part]) -> pa.Table:
    batches = [
        ledger_rows(batch, store.root, KIND, REREAD_LEDGERS) for part in parts for batch in store.read(part)
    ]
    return pa.Table.from_batches(batches, REREAD_LEDGERS)


def read_whole(store: ZooKeeperStore, part_count: int = 2) -> pa.Table:
    return rows(store, store.parts(Tree.LEDGERS, KIND, part_count))


def comparable_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: str(row["path"]))


def apply_changes(
    store: ZooKeeperStore, first: pa.Table, moves: LedgerChanges, part_count: int = 2
) -> pa.Table:
    """Return the rows of a first read, with the changed paths replaced by their current rows."""
    stood = pc.invert(pc.is_in(first["path"], pa.array(moves.paths, pa.string())))
    return pa.concat_tables([first.filter(stood), rows(store, store.parts_of_paths(moves.paths, part_count))])


LEDGERS = [f"/00/{inner:04}/L{leaf:04}" for inner in (0, 1, 7) for leaf in (1, 2, 3)]
PATHS = [
    *LEDGERS,
    f"/{ledger_path.to_scope_id_path(LedgerId(5, scope=9))}",
    "/000/0000/0000/0001/L0001",
    "/00/0000/X12",
    "/00/0001/L12",
    "/00/0001/L0002/deeper/L0001",
    "/Lodd",
    "/cookies/bk1:3181",
    "/underreplication/ledgers/0000/urL0000000001",
    "/ID-0000000001",
]
VALUES = [CLOSED, CLOSED, OPEN, LONGER, GARBAGE, b""]
LIKELY = st.one_of(st.sampled_from(LEDGERS), st.sampled_from(PATHS))
CHANGE = st.tuples(LIKELY, st.one_of(st.sampled_from(VALUES), st.sampled_from([None, "again", "parents"])))


def change(client: Any, path: str, value: bytes | str | None) -> None:
    """Put bytes or delete the znode; "again" then recreates it, and "parents" deletes empty parents."""
    if isinstance(value, bytes):
        if client.exists(path):
            client.set(path, value)
        else:
            client.create(path, value, makepath=True)
        return
    if client.exists(path):
        client.delete(path, recursive=True)
    if value == "again":
        client.create(path, CLOSED, makepath=True)
    with suppress(KazooException):
        while value == "parents" and path.count("/") > 2:
            path = path.rpartition("/")[0]
            client.delete(path)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sets(st.sampled_from(PATHS)),
    st.lists(CHANGE, max_size=6),
    st.lists(CHANGE, max_size=12),
    st.integers(1, 3),
    st.sampled_from([1, 2, 200]),
)
def test_first_read_with_reread_changes_equals_a_full_read(
    server: EmbeddedZooKeeper,
    client: Any,
    initial_paths: set[str],
    meanwhile: list[tuple[str, bytes | str | None]],
    later: list[tuple[str, bytes | str | None]],
    part_count: int,
    batch: int,
) -> None:
    root = f"/bk{next(ROOTS)}"
    for path in sorted({*LEDGERS, *initial_paths}):
        client.create(root + path, CLOSED, makepath=True)
    store = open_zookeeper(server, root, batch=batch)
    store.cluster()
    store.watch_ledgers()
    parts = store.parts(Tree.LEDGERS, KIND, part_count)
    # Whatever moves while the first scan is under way may be in it or not.
    first = rows(store, parts[:1])
    for path, value in meanwhile:
        change(client, root + path, value)
    first = pa.concat_tables([first, rows(store, parts[1:])])
    for path, value in later:
        change(client, root + path, value)
    moves = store.changed_ledgers()
    assert moves.unknown_reason is None
    combined = apply_changes(store, first, moves, part_count)
    assert comparable_rows(combined) == comparable_rows(read_whole(store, part_count))
    assert not any("/cookies" in path or "/underreplication" in path for path in moves.paths)
    store.close()


def test_only_changed_ledgers_are_read(server: EmbeddedZooKeeper, client: Any) -> None:
    root = f"/few{next(ROOTS)}"
    for leaf in range(50):
        client.create(f"{root}/00/0000/L{leaf:04}", CLOSED, makepath=True)
    store = open_zookeeper(server, root)
    store.watch_ledgers()
    first = read_whole(store)
    client.set(f"{root}/00/0000/L0007", OPEN)
    client.delete(f"{root}/00/0000/L0008")
    client.create(f"{root}/00/0001/L0009", OPEN, makepath=True)
    before = store.operations()["znodes_read"]
    moves = store.changed_ledgers()
    assert moves == LedgerChanges(
        tuple(f"{root}/00/{below}" for below in ("0000/L0007", "0000/L0008", "0001", "0001/L0009"))
    )
    assert comparable_rows(apply_changes(store, first, moves)) == comparable_rows(read_whole(store))
    operations = store.operations()
    assert operations["watch"] == 1
    assert (
        operations["znodes_read"] - before == 4 + 50 + 3
    )  # 50 ledgers and three inner znodes by the full read
    assert store.changed_ledgers().unknown_reason == "no watch was set before the first scan"
    store.close()


def test_change_hidden_by_an_acl_is_detected(server: EmbeddedZooKeeper, client: Any) -> None:
    root = f"/acl{next(ROOTS)}"
    client.create(f"{root}/00/0000/L0001", CLOSED, makepath=True)
    client.create(f"{root}/00/0000/L0002", CLOSED, acl=WRITE_ONLY)
    store = open_zookeeper(server, root)
    store.watch_ledgers()
    client.create(f"{root}/00/0000/L0003", CLOSED, acl=OPEN_ACL_UNSAFE)
    assert store.changed_ledgers() == LedgerChanges((f"{root}/00/0000/L0003",))
    store.watch_ledgers()
    client.create(f"{root}/00/0000/L0004", CLOSED, acl=WRITE_ONLY)
    moves = store.changed_ledgers()
    # Servers before 3.8.4 and 3.9.2 tell of what may not be read.
    hidden = f"ZooKeeper did not report every change below {root}/00/0000"
    assert moves in (LedgerChanges((f"{root}/00/0000/L0004",)), LedgerChanges((), hidden))
    store.close()


def test_more_changes_than_the_limit_are_unknown(
    server: EmbeddedZooKeeper, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"/many{next(ROOTS)}"
    client.ensure_path(f"{root}/00/0000")
    store = open_zookeeper(server, root)
    monkeypatch.setattr(tree, "MAX_CHANGED_PATHS", 3)
    for change_count, unknown in ((3, None), (4, "more than 3 ledger records changed since the first scan")):
        store.watch_ledgers()
        for leaf in range(change_count):
            client.create(f"{root}/00/0000/L{change_count}{leaf:03}", CLOSED)
        moves = store.changed_ledgers()
        assert (len(moves.paths), moves.unknown_reason) == (change_count if unknown is None else 0, unknown)
    monkeypatch.setattr(tree, "MAX_INNER_ZNODES", 2)
    store.watch_ledgers()
    unknown = store.changed_ledgers().unknown_reason
    assert unknown == "the ledgers could not be watched: there are more than 2 inner znodes"
    store.close()


def test_broken_watch_connection_makes_the_changes_unknown(server: EmbeddedZooKeeper, client: Any) -> None:
    root = f"/broken{next(ROOTS)}"
    client.create(f"{root}/00/0000/L0001", CLOSED, makepath=True)
    cut = threading.Event()
    with run_proxy(server, lambda _: b"" if cut.is_set() else None) as hosts:
        store = open_store(f"zk://{hosts}{root}", StoreOptions(rate_limit=0, timeout_s=2))
        assert isinstance(store, ZooKeeperStore)
        store.watch_ledgers()
        cut.set()
        moves = store.changed_ledgers()
        assert moves.paths == ()
        assert moves.unknown_reason is not None
        assert moves.unknown_reason.startswith("the connection of the watch broke or was refused: ")
        store.close()


def test_server_without_tree_watches_is_reported_and_read(server: EmbeddedZooKeeper, client: Any) -> None:
    root = f"/old{next(ROOTS)}"
    client.create(f"{root}/00/0000/L0001", CLOSED, makepath=True)

    def unimplemented(frame: bytes) -> bytes | None:
        # What a server before 3.6 does with a type that it does not know.
        xid, kind = struct.unpack_from("!ii", frame, 4)
        return struct.pack("!iiqi", 16, xid, 0, -6) if kind in (22, 106) else None

    with run_proxy(server, unimplemented) as hosts:
        store = open_store(f"zk://{hosts}{root}", StoreOptions(rate_limit=0))
        assert isinstance(store, ZooKeeperStore)
        store.watch_ledgers()
        assert read_whole(store).num_rows == 1
        unknown = "this ZooKeeper cannot watch a tree; this requires version 3.6"
        assert store.changed_ledgers() == LedgerChanges((), unknown)
        store.close()
