"""ZooKeeper's paths as keys of etcd: live, saved and dumped stores equal the original ZooKeeper cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.errors import NoRootError, StoreError
from auditor.keys.etcd import key_text
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.etcd.live import PathEtcdStore
from auditor.sources.metadata.store import MetadataStore, SiblingStore, StoreOptions, Tree, tree_of
from auditor.sources.metadata.stores import choose_layout, count_ledgers, open_store
from tests.codecs.bbolt_writer import History
from tests.servers.etcd import running
from tests.sources.owners.pulsar_stores import owners, znodes

LAYOUT = LayoutKind.HIERARCHICAL
MARK = "/ledgers/underreplication/ledgers/0000/0000/0000/0007/urL0000000007"
LOCK = "/ledgers/underreplication/locks/urL0000000007"
ValuesByPath = dict[str, bytes]


def values() -> ValuesByPath:
    """Return the corpus's values by path, with an added mark and lock."""
    node_values = {
        node.path: node.data for node in znodes("managed-ledgers", "schemas", "ledgers") if node.data
    }
    return node_values | {
        MARK: b'replica: "b1:3181"\nctime: 5\n',
        LOCK: b"bookieId: h\n",
        "/ledgersX/00/0000/L0001": b"no",
    }


class Stores(NamedTuple):
    """The URIs of the same cluster in three forms, and the values in it."""

    uris: tuple[str, ...]
    held: ValuesByPath


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder = tmp_path_factory.mktemp("paths")
    contents = values()
    with running(folder / "etcd") as server:
        server.load([("/ledgers/00/0000/L0001", b"before")])
        server.load([*contents.items(), ("/ledgers/00/0000/L9999", b"gone")])
        server.delete("/ledgers/00/0000/L9999")
        server.save(folder / "saved.db")
        response = json.loads(server.ctl("get", "--prefix", "/", "-w", "json"))
        (folder / "dump.jsonl").write_text("".join(line(entry) for entry in response["kvs"]))
        yield Stores(
            (
                f"metadata-store:etcd://{server.host}/ledgers",
                f"metadata-store:etcd-snapshot://{folder / 'saved.db'}?root=/ledgers",
                f"dump://{folder / 'dump.jsonl'}",
            ),
            contents,
        )


def line(entry: dict[str, object]) -> str:
    record = {
        "path": base64.b64decode(str(entry["key"])).decode(),
        "key": entry["key"], "data": entry.get("value", ""),
        "createRevision": entry["create_revision"], "modRevision": entry["mod_revision"],
        "version": entry["version"], "lease": 0,
    }  # fmt: skip
    return json.dumps(record) + "\n"


def read(store: MetadataStore, tree: Tree, part_count: int = 3) -> ValuesByPath:
    contents: ValuesByPath = {}
    for part in store.parts(tree, LAYOUT, part_count):
        for batch in store.read(part):
            assert not batch.gaps
            assert (batch.ctime == -1).all()
            for path, data in zip(batch.paths, batch.data, strict=True):
                assert path not in contents
                contents[path] = bytes(data)
    return contents


@pytest.mark.parametrize("form", range(3))
def test_each_tree_contains_its_paths(stores: Stores, form: int) -> None:
    store = open_store(stores.uris[form])
    below = {path: data for path, data in stores.held.items() if path.startswith("/ledgers/")}
    cluster = store.cluster()
    for tree in (Tree.LEDGERS, Tree.MARKS):
        expected = {path: data for path, data in below.items() if tree_of(path[9:]) is tree}
        assert expected
        assert read(store, tree) == expected
    own = {path: data for path, data in below.items() if tree_of(path[9:]) is None}
    assert {node.path: node.data for node in cluster.nodes.values()} == own
    assert choose_layout(store, cluster) == (LAYOUT, "LAYOUT says hierarchical")
    assert (cluster.gaps, cluster.notes) == ((), ("etcd keeps no times",))
    assert (store.keeps_marks, store.keeps_times) == (True, False)
    store.close()


@pytest.mark.parametrize("form", range(3))
def test_owner_trees_are_siblings_of_the_root(stores: Stores, form: int) -> None:
    store = open_store(stores.uris[form])
    assert isinstance(store, SiblingStore)
    store.cluster()
    assert (store.has_sibling("managed-ledgers"), store.has_sibling("managed")) == (True, False)
    store.close()


def test_owners_of_a_snapshot_equal_the_owners_of_the_dump(stores: Stores) -> None:
    snapshot = stores.uris[1].removeprefix("metadata-store:").partition("?")[0]
    owner_rows = [
        sorted((str(row["path"]), row["kind"], row["ledger_id"]) for row in owners(uri) if row["path"])
        for uri in (f"pulsar:{snapshot}", f"pulsar:dump://{stores.uris[2].removeprefix('dump://')}")
    ]
    assert owner_rows[0] == owner_rows[1]
    assert len(owner_rows[0]) > 150
    with pytest.raises(NoRootError, match="no key below"):
        open_store(f"{snapshot}?scope=/nothing").parts(Tree.WHOLE, LAYOUT, 1)


def test_live_store_counts_its_ledgers_and_reports_a_missing_cluster(stores: Stores) -> None:
    options = StoreOptions()
    counted = count_ledgers(stores.uris[0], LAYOUT, options)
    ledgers = sum(tree_of(path[9:]) is Tree.LEDGERS for path in stores.held if path.startswith("/ledgers/"))
    assert (counted.ledgers, counted.is_exact) == (ledgers, False)
    with pytest.raises(StoreError, match="no BookKeeper cluster below /nothing"):
        open_store(stores.uris[0].replace("/ledgers", "/nothing")).cluster()
    live_store = open_store(stores.uris[0])
    assert isinstance(live_store, PathEtcdStore)
    live_store.cluster()
    (batch,) = live_store.read(live_store.part_of_path("/ledgers/00/0000/L0188"))
    assert list(batch.paths) == ["/ledgers/00/0000/L0188"]


names = st.sampled_from(
    [
        *(f"/ledgers/00/000{leaf}/L000{digit}".encode() for leaf in "01" for digit in "012"),
        *(f"/ledgers/{name}".encode() for name in ("LAYOUT", "cookies/b:1", "available/b:1", "notes", "00")),
        *(
            path.encode()
            for path in (MARK, LOCK, "/ledgers", "/ledgers2/00/0000/L0000", "/managed-ledgers/a")
        ),
    ]
)
transactions = st.lists(
    st.lists(
        st.tuples(names, st.one_of(st.none(), st.binary(max_size=60))),
        min_size=1,
        max_size=4,
        unique_by=lambda change: change[0],
    ),
    max_size=60,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(transactions, st.integers(1, 5))
def test_snapshot_has_the_last_change_of_every_key(
    tmp_path: Path, change_lists: list[list[tuple[bytes, bytes | None]]], part_count: int
) -> None:
    history = History()
    for changes in change_lists:
        history.change(*changes)
    history.change((b"/ledgers/INSTANCEID", b"x"))
    (tmp_path / "saved.db").write_bytes(history.database())
    uri = f"metadata-store:etcd-snapshot://{tmp_path / 'saved.db'}?root=/ledgers"
    store = open_store(uri)
    state = {key_text(name): record.value for name, record in history.state.items()}
    below = {path: data for path, data in state.items() if path.startswith("/ledgers/")}
    for tree in (Tree.LEDGERS, Tree.MARKS):
        assert read(store, tree, part_count) == {
            path: data for path, data in below.items() if tree_of(path[9:]) is tree
        }
    own = {path[9:] for path in below if tree_of(path[9:]) is None}
    assert set(store.cluster().nodes) == own
    whole = open_store(f"etcd-snapshot://{tmp_path / 'saved.db'}?scope=/ledgers")
    assert read(whole, Tree.WHOLE, part_count) == below
