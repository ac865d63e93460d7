"""ZooKeeper's paths in Oxia: live and dumped stores equal the ZooKeeper cluster, for any shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from auditor.errors import NoRootError, StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.dump.save import SaveRequest, new_file, save
from auditor.sources.metadata.ledgers import StoredLedger, find_ledger, list_ledgers
from auditor.sources.metadata.oxia.live import OxiaStore
from auditor.sources.metadata.oxia.questions import MIXED_TIMES_NOTE
from auditor.sources.metadata.pulsar_layout import has_pulsar_layout
from auditor.sources.metadata.store import (
    LedgerChanges,
    MetadataStore,
    StoreOptions,
    Tree,
    WatchableStore,
    sibling_value,
    tree_of,
)
from auditor.sources.metadata.stores import (
    choose_layout,
    count_ledgers,
    is_live,
    open_store,
    probe_servers,
)
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.servers.oxia_double import NEW, OLD, OxiaDouble
from tests.sources.owners.pulsar_stores import etcd_dump, owners, znodes

LAYOUT = LayoutKind.HIERARCHICAL
OPTIONS = StoreOptions(rate_limit=0, timeout_s=5)
MARK = "/ledgers/underreplication/ledgers/0000/0000/0000/0007/urL0000000007"
LOCK = "/ledgers/underreplication/locks/urL0000000007"
LONG = "/ledgers/000/0000/0050/0000/L0000"
ODD = ("/ledgers/00/0000/X12", "/ledgers/00/0000/L12", "/ledgers/notes/a", "/ledgers/00/0000/L0188/below")


def make_double(service: str = OLD, shard_count: int = 1) -> OxiaDouble:
    """Return a double with the corpus, a mark, a lock, a long id, and names that no ledger has."""
    double = OxiaDouble(service=service, shard_count=shard_count)
    for node in znodes("managed-ledgers", "schemas", "ledgers"):
        double.put(node.path, node.data, session=0 if node.ephemeral_owner else None)
    double.put(MARK, b'replica: "b1:3181"\nctime: 5\n')
    double.put(LOCK, b"bookieId: h\n", session=3)
    double.put(LONG, b"long")
    for path in ODD[:3]:
        double.put(path, b"x")
    double.put("/ledgersX/00/0000/L0001", b"no")
    return double


def stored_values(double: OxiaDouble) -> dict[str, bytes]:
    return {key.decode(): record.value for shard in double.records for key, record in shard.items()}


def read(
    store: MetadataStore, tree: Tree, layout: LayoutKind = LAYOUT, part_count: int = 3
) -> dict[str, bytes]:
    path_counts: Counter[str] = Counter()
    values: dict[str, bytes] = {}
    for part in store.parts(tree, layout, part_count):
        for batch in store.read(part):
            assert not batch.gaps
            path_counts.update(batch.paths)
            values |= dict(zip(batch.paths, map(bytes, batch.data), strict=True))
    assert set(path_counts.values()) <= {1}
    return values


def columns(store: MetadataStore, tree: Tree) -> list[tuple[object, ...]]:
    """Return the data and the numeric fields of every record of a tree, sorted by path."""
    rows: list[tuple[object, ...]] = []
    for part in store.parts(tree, LAYOUT, 1):
        for batch in store.read(part):
            assert batch.changes is not None
            numbers = (batch.version, batch.ctime, batch.mtime, batch.ephemeral_owner, batch.changes)
            rows += zip(
                batch.paths, map(bytes, batch.data), *(column.tolist() for column in numbers), strict=True
            )
    return sorted(rows, key=str)


@pytest.fixture(scope="module", params=product([OLD, NEW], [1, 4]), ids=str)
def double(request: pytest.FixtureRequest) -> Iterator[OxiaDouble]:
    with make_double(*request.param).serving() as serving:
        yield serving


@pytest.mark.parametrize("part_count", [1, 3, 40])
def test_each_tree_contains_its_paths_and_each_record_is_in_one_part(
    double: OxiaDouble, part_count: int
) -> None:
    below = {path: data for path, data in stored_values(double).items() if path.startswith("/ledgers/")}
    with closing(open_store(double.uri(), OPTIONS)) as store:
        for tree in (Tree.LEDGERS, Tree.MARKS):
            expected = {path: data for path, data in below.items() if tree_of(path[9:]) is tree}
            assert expected
            assert read(store, tree, part_count=part_count) == expected
        cluster = store.cluster()
        own = {path: data for path, data in below.items() if tree_of(path[9:]) is None}
        assert {node.path: node.data for node in cluster.nodes.values()} == own
        assert choose_layout(store, cluster) == (LAYOUT, "LAYOUT says hierarchical")
        assert (cluster.gaps, cluster.notes) == ((), (MIXED_TIMES_NOTE,))
        assert (store.live, store.keeps_marks, store.keeps_times) == (True, True, True)
        assert is_live(double.uri())


def test_flat_tree_is_divided_by_shards() -> None:
    double = OxiaDouble(shard_count=4)
    for number in range(50):
        double.put(f"/ledgers/L{number:010d}", b"x")
    double.put("/ledgers/scopes/0000/0000/0000/0001/0000/0000/0000/L0002", b"y")
    double.put("/ledgers/cookies/b:3181", b"c")
    with double.serving(), closing(open_store(double.uri(), OPTIONS)) as store:
        assert len(store.parts(Tree.LEDGERS, LayoutKind.FLAT, 9)) == 4
        tree_values = read(store, Tree.LEDGERS, LayoutKind.FLAT)
        assert tree_values == {
            path: data
            for path, data in stored_values(double).items()
            if path.startswith("/ledgers/") and tree_of(path[9:]) is Tree.LEDGERS
        }
        assert (count_ledgers(double.uri(), LayoutKind.FLAT, OPTIONS)).ledgers == 51  # with the top of scopes


def test_ledgers_are_counted_listed_and_shown(double: OxiaDouble) -> None:
    ledgers = [entry for entry in list_ledgers(double.uri(), 0, OPTIONS) if isinstance(entry, StoredLedger)]
    paths = {
        path
        for path in stored_values(double)
        if path.startswith("/ledgers/0") and "/L" in path and len(path) > 20
    }
    assert {ledger.path for ledger in ledgers} == paths - {*ODD}
    found_ledger = find_ledger(double.uri(), LedgerId(188), OPTIONS)
    assert found_ledger.path == "/ledgers/00/0000/L0188"
    assert found_ledger.metadata is not None
    assert found_ledger.ctime == 1_000
    with pytest.raises(UsageError, match="has no ledger 9999"):
        find_ledger(double.uri(), LedgerId(9999), OPTIONS)
    counted = count_ledgers(double.uri(), LAYOUT, OPTIONS)
    assert counted.ledgers >= len(ledgers)


def test_owner_trees_are_siblings_and_owners_equal_those_of_zookeeper(
    double: OxiaDouble, tmp_path: Path
) -> None:
    with closing(open_store(double.uri(), OPTIONS)) as store:
        assert isinstance(store, OxiaStore)
        cluster = store.cluster()
        assert (store.has_sibling("managed-ledgers"), store.has_sibling("managed")) == (True, False)
        assert sibling_value(store, "none") is None
        assert not has_pulsar_layout(store, cluster)
    owner_rows = [
        sorted(
            (row["path"] or "", row["status"], row["kind"] or "", row["ledger_id"] or 0)
            for row in owners(uri)
        )
        for uri in (f"pulsar:{double.uri()}", f"pulsar:dump://{etcd_dump(tmp_path / 'owners.jsonl')}")
    ]
    assert owner_rows[0] == owner_rows[1]
    assert len(owner_rows[0]) > 150


def test_oxia_dump_equals_the_live_store(double: OxiaDouble, tmp_path: Path) -> None:
    file = tmp_path / "oxia.jsonl"
    save_request = SaveRequest(
        parse_metadata_uri(double.uri()), ("managed-ledgers", "schemas", "none"), True, OPTIONS
    )
    with new_file(file) as out:
        summary = save(save_request, out)
    assert summary.unread_count == 0
    assert summary.records == sum(not path.startswith("/ledgersX") for path in stored_values(double))
    with closing(open_store(double.uri(), OPTIONS)) as live, closing(open_store(f"dump://{file}")) as saved:
        assert live.cluster().nodes == saved.cluster().nodes
        for tree in (Tree.LEDGERS, Tree.MARKS):
            assert columns(live, tree) == columns(saved, tree)


def test_changes_are_counted_separately_from_versions() -> None:
    double = OxiaDouble()
    for _ in range(3):
        double.put("/ledgers/00/0000/L0001", b"x")
    double.put("/ledgers/idgen")
    for _ in range(4):
        double.put("/ledgers/idgen")
    with double.serving(), closing(open_store(double.uri(), OPTIONS)) as store:
        assert isinstance(store, OxiaStore)
        [batch] = store.read(store.part_of_path("/ledgers/00/0000/L0001"))
        assert batch.changes is not None
        assert (batch.changes.tolist(), batch.version.tolist()) == ([2], [5])
        assert store.cluster().nodes["idgen"].made == 5


def test_changed_ledgers_are_reported_and_can_be_read_alone() -> None:
    double = OxiaDouble(shard_count=3)
    for number in range(20):
        double.put(f"/ledgers/00/0000/L{number:04d}", b"x")
    with double.serving(), closing(open_store(double.uri(), OPTIONS)) as store:
        assert isinstance(store, WatchableStore)
        store.watch_ledgers()
        assert store.changed_ledgers() == LedgerChanges()
        store.watch_ledgers()
        double.put("/ledgers/00/0000/L0003", b"y")
        double.put("/ledgers/00/0001/L0001", b"new")
        double.delete("/ledgers/00/0000/L0007")
        double.put("/ledgers/cookies/b:1", b"c")
        double.put("/managed-ledgers/a", b"c")
        moves = store.changed_ledgers()
        changed = ("/ledgers/00/0000/L0003", "/ledgers/00/0000/L0007", "/ledgers/00/0001/L0001")
        assert moves == LedgerChanges((*changed[:2], "/ledgers/00/0001", changed[2]))
        changed_rows = [
            dict(zip(batch.paths, map(bytes, batch.data), strict=True))
            for part in store.parts_of_paths(changed, 2)
            for batch in store.read(part)
        ]
        assert {path: data for rows in changed_rows for path, data in rows.items()} == {
            changed[0]: b"y",
            changed[2]: b"new",
        }
        assert store.changed_ledgers().unknown_reason == "no watch was set before the first scan"


def disable_notifications(double: OxiaDouble) -> None:
    double.has_notifications = False


def trim_log(double: OxiaDouble) -> None:
    double.put("/ledgers/a", b"y")
    double.put("/ledgers/a", b"z")
    double.log[0] = [entry for entry in double.log[0] if entry.offset != 2]


def delete_range(double: OxiaDouble) -> None:
    double.delete("/ledgers/a", kind=3)


def clear_log(double: OxiaDouble) -> None:
    double.log[0].clear()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (disable_notifications, "notifications not enabled"),
        (trim_log, "reports its log only from 3 on, no longer from 2"),
        (delete_range, "a range of records was deleted"),
        (clear_log, "is shorter than before"),
    ],
)
def test_changes_without_a_complete_log_are_unknown(damage: object, words: str) -> None:
    double = OxiaDouble()
    double.put("/ledgers/a", b"x")
    with double.serving(), closing(open_store(double.uri(), OPTIONS)) as store:
        assert isinstance(store, WatchableStore)
        if damage is disable_notifications:
            disable_notifications(double)
        store.watch_ledgers()
        assert callable(damage)
        damage(double)
        assert words in str(store.changed_ledgers().unknown_reason)


def test_changed_shards_are_an_error() -> None:
    with make_double(shard_count=4).serving() as double, closing(open_store(double.uri(), OPTIONS)) as store:
        store.cluster()
        assert not store.has_lost_moment()
        parts = store.parts(Tree.LEDGERS, LAYOUT, 1)
        double.shard_count = 2
        with (
            closing(open_store(double.uri(), OPTIONS)) as task,
            pytest.raises(StoreError, match="its shards changed"),
        ):
            list(task.read(parts[0]))
        assert store.has_lost_moment()


def test_missing_cluster_and_unknown_namespace_have_different_errors() -> None:
    double = OxiaDouble()
    double.put("/managed-ledgers/a", b"x")
    with double.serving():
        with closing(open_store(double.uri(), OPTIONS)) as store:
            with pytest.raises(NoRootError, match=r"no record /ledgers in Oxia .* namespace bookkeeper"):
                store.cluster()
            for layout in (LAYOUT, LayoutKind.FLAT):
                with pytest.raises(NoRootError):
                    store.parts(Tree.LEDGERS, layout, 1)
        other_uri = double.uri().replace("/bookkeeper", "/broker")
        with (
            closing(open_store(other_uri, OPTIONS)) as store,
            pytest.raises(StoreError, match="no namespace broker"),
        ):
            store.cluster()


@pytest.mark.parametrize(("service", "version"), [(OLD, "0.14 or earlier"), (NEW, "0.15 or later")])
def test_release_of_a_server_is_detected_by_its_service_name(service: str, version: str) -> None:
    with make_double(service).serving() as double:
        # The namespace "default" is not there: that it says so is an answer too.
        [server] = probe_servers(double.uri(), OPTIONS)
    assert (server.is_reached, server.version) == (True, version)
    [server] = probe_servers("metadata-store:oxia://127.0.0.1:1/default", OPTIONS)
    assert not server.is_reached
