"""Snapshots of etcd: the last change of every key is read, and no loss of data is silent."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.codecs.etcd.bbolt import PageSpan, bucket, elements, leaves, page_span, read_meta
from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.etcd.snapshot import GapsPart, LeavesPart
from auditor.sources.metadata.store import MetadataStore, Part, Tree
from auditor.sources.metadata.stores import open_store
from tests.codecs.bbolt_writer import History, database, revision
from tests.examples import examples
from tests.servers.etcd import running
from tests.sources.etcd_saved import SCOPE, KeysByPath, ledgers_of, nodes_of, unpack_file

ROOT = "/bk"
property_settings = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def key(ledger: int, scope: int = 0) -> bytes:
    return f"{ROOT}/{etcd.to_path(LedgerId(ledger, scope))}".encode()


def store_of(file: bytes, folder: Path, root: str = ROOT) -> MetadataStore:
    (folder / "saved.db").write_bytes(file)
    return open_store(f"etcd-snapshot://{folder / 'saved.db'}?scope={root}")


def expected(history: History) -> tuple[KeysByPath, KeysByPath]:
    """Return the final ledgers and the final keys of the cluster itself."""
    key_values = {
        etcd.key_text(name): (record.value, record.mod_revision, record.lease)
        for name, record in history.state.items()
    }
    ledgers = {path: value for path, value in key_values.items() if path.startswith(f"{ROOT}/ledgers/")}
    cluster_keys = {
        path: value for path, value in key_values.items() if etcd.node_name(path[len(ROOT) + 1 :])
    }
    return ledgers, cluster_keys


names = st.one_of(
    st.builds(key, st.integers(0, 9), st.sampled_from([0, 0, 0, 1, -1])),
    st.sampled_from(
        [b"/bk/ledgers/0-0-0-0-1", b"/bk/ledgers/", b"/bk/ledgers/x", b"/bk/layout", b"/bk/buckets/001"]
    ),
    st.sampled_from(
        [b"/bk", b"/bk2/ledgers/x", b"/bk/cookies/b:1", b"/bk/bookies/writable/b:1", b"/b", b"\xff"]
    ),
)
transactions = st.lists(
    st.lists(
        st.tuples(names, st.one_of(st.none(), st.binary(max_size=200))),
        min_size=1,
        max_size=4,
        unique_by=lambda change: change[0],
    ),
    max_size=60,
)


@property_settings
@given(transactions, st.integers(2, 6), st.booleans(), st.booleans(), st.integers(1, 5))
def test_snapshot_has_the_last_change_of_every_key(
    tmp_path: Path,
    change_lists: list[list[tuple[bytes, bytes | None]]],
    per_branch: int,
    hashed: bool,
    inline: bool,
    part_count: int,
) -> None:
    history = History()
    history.change((b"/bk", b""))
    for changes in change_lists:
        history.change(*changes)
    history.change((b"/bk/instanceid", b"x"))
    file = history.database(per_branch=per_branch, hashed=hashed, inline=[b"key"] if inline else [b"meta"])
    store = store_of(file, tmp_path)
    ledgers, cluster_keys = expected(history)
    tree_keys, gaps = ledgers_of(store, part_count)
    assert (tree_keys, gaps) == (ledgers, [])
    assert nodes_of(store) == cluster_keys
    assert store.cluster().position == f"revision {history.main}"


def test_compaction_of_the_last_change_keeps_the_latest_revision(tmp_path: Path) -> None:
    history = History()
    history.change((b"/bk", b""))
    marks = [
        (b"consistent_index", bytes(8)),
        (b"finishedCompactRev", revision(9)),
        (b"scheduledCompactRev", revision(8)),
    ]
    store = store_of(database({b"key": history.pairs, b"meta": marks}), tmp_path)
    assert store.cluster().position == "revision 9"
    store = store_of(database({b"key": history.pairs, b"meta": [(b"finishedCompactRev", b"?")]}), tmp_path)
    cluster = store.cluster()
    assert (cluster.position, cluster.gaps) == ("revision 2", ())
    assert any("may be later" in note for note in cluster.notes)


def make_history(count: int = 400) -> History:
    """Return a history of created, closed and deleted ledgers, id buckets and a repeated registration."""
    history = History()
    history.change((b"/bk", b""), (b"/bk/layout", b"2\nx:0"), (b"/bk/cookies/b:1", b"cookie"))
    for ledger in range(count):
        history.change((b"/bk/buckets/%03d" % (ledger % 3), b""))
        history.change((key(ledger), b"open %d" % ledger))
        if ledger % 3:
            history.change((key(ledger), b"closed %d" % ledger + bytes(5000 if ledger % 97 == 1 else 0)))
        if ledger % 7 == 0:
            history.change((key(ledger), None))
        if ledger % 50 == 0:
            history.change((b"/bk/bookies/writable/b:1", b""), lease=77)
    return history


def test_parts_have_about_the_requested_number_and_are_small(tmp_path: Path) -> None:
    history = make_history()
    store = store_of(history.database(), tmp_path)
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 8)
    assert 7 <= len(parts) <= 8
    assert all(len(pickle.dumps(part)) < 2_000 for part in parts)
    task_store = open_store(store.uri)
    tree_keys: KeysByPath = {}
    for part in pickle.loads(pickle.dumps(parts)):
        for batch in task_store.read(part):
            tree_keys |= dict.fromkeys(batch.paths, (b"", 0, 0))
    assert set(tree_keys) == set(expected(history)[0])


def read_all(store: MetadataStore, parts: list[Part]) -> None:
    for part in parts:
        for _ in store.read(part):
            pass


def test_file_replaced_during_the_read_is_an_error(tmp_path: Path) -> None:
    history = make_history()
    store = store_of(history.database(), tmp_path)
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, 2)
    good = (tmp_path / "saved.db").read_bytes()
    history.change((key(5), None))
    assert isinstance(parts[0], LeavesPart)
    broken = bytearray(good)
    broken[int(parts[0].start[0]) + 20] ^= 0x10  # the first element of a leaf lies elsewhere now
    for content in (history.database(transaction=8), good[:-1], bytes(broken), b""):
        (tmp_path / "saved.db").write_bytes(content)
        with pytest.raises(StoreError, match="changed while it was read"):
            read_all(store, parts)
    (tmp_path / "saved.db").unlink()
    with pytest.raises(StoreError, match="cannot read"):
        list(store.read(parts[0]))


def test_file_that_is_not_a_snapshot_is_an_error(tmp_path: Path) -> None:
    for file in (b"", b"x" * 100, bytes(20_000), database({b"other": [(b"a", b"b")]})):
        with pytest.raises(StoreError, match="is not a readable etcd snapshot"):
            store_of(file, tmp_path).cluster()
    with pytest.raises(StoreError, match="cannot read"):
        open_store(f"etcd-snapshot://{tmp_path}/none?scope=/bk").cluster()


def test_file_without_a_hash_has_a_note(tmp_path: Path) -> None:
    history = make_history(20)
    file = history.database(hashed=False)
    for copied in (file, file + bytes(1024 * 9)):  # etcd makes room before it writes
        cluster = store_of(copied, tmp_path).cluster()
        assert not cluster.gaps
        assert any("no hash" in note for note in cluster.notes)
    broken = bytearray(file)
    broken[1024 + 16] ^= 1  # of the two meta pages of a copy either can be the newer
    cluster = store_of(bytes(broken), tmp_path).cluster()
    assert [path for path, _ in cluster.gaps] == [ROOT]


def test_wrong_hash_is_a_gap_and_all_keys_are_read(tmp_path: Path) -> None:
    history = make_history(50)
    file = bytearray(history.database())
    file[-1] ^= 1
    store = store_of(bytes(file), tmp_path)
    tree_keys, gaps = ledgers_of(store)
    assert tree_keys == expected(history)[0]
    assert [path for path, _ in gaps] == [ROOT]
    assert "SHA-256" in gaps[0][1]
    assert store.cluster().gaps == tuple(gaps)
    assert any("SHA-256" in note for note in store.cluster().notes)


def test_cut_file_is_reported(tmp_path: Path) -> None:
    file = unpack_file("etcd-snapshot.db", tmp_path).read_bytes()
    whole = ledgers_of(store_of(file, tmp_path, SCOPE))[0]
    # Its last pages are free; the root of all buckets is page 10.
    for size in (13 * 4096 - 1, 11 * 4096):
        tree_keys, gaps = ledgers_of(store_of(file[:size], tmp_path, SCOPE))
        assert tree_keys == whole
        assert [path for path, _ in gaps] == [SCOPE]
        assert f"cut off: {size} of 53248 bytes are present" in gaps[0][1]
    with pytest.raises(StoreError, match="the file ends before the end of page 10"):
        ledgers_of(store_of(file[: 11 * 4096 - 1], tmp_path, SCOPE))
    # Only the hash is gone: the database is whole.
    assert ledgers_of(store_of(file[:-32], tmp_path, SCOPE)) == (whole, [])


def leaf_pages(file: bytes) -> list[PageSpan]:
    data = memoryview(file)
    meta = read_meta(data)
    root = bucket(data, meta, b"key")
    assert root is not None
    return [leaf for leaf in leaves(data, meta, root) if isinstance(leaf, PageSpan)]


def test_lost_page_makes_earlier_changes_unknown_and_keeps_later_changes(tmp_path: Path) -> None:
    history = make_history()
    file = bytearray(history.database(hashed=False))
    pages = leaf_pages(bytes(file))
    lost = pages[len(pages) // 2]
    page_elements = elements(memoryview(bytes(file)), np.array([lost.start]), np.array([lost.end]))
    revisions = [
        int.from_bytes(file[offset : offset + 8], "big") for offset in page_elements.key_offsets.tolist()
    ]
    file[lost.start] ^= 0xFF  # the page's number
    ledgers, _ = expected(history)
    store = store_of(bytes(file), tmp_path)
    tree_keys, gaps = ledgers_of(store)
    assert tree_keys == {path: value for path, value in ledgers.items() if value[1] > max(revisions)}
    unsure = {path for path, _ in gaps}
    assert ROOT in unsure
    before = {path for path, value in ledgers.items() if value[1] < min(revisions)}
    assert before <= unsure
    assert any(isinstance(part, GapsPart) for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, 2))


def check_damage_is_reported(
    file: bytes, folder: Path, whole: KeysByPath, nodes: KeysByPath, root: str
) -> None:
    """Check that the read is equal, or fails with a typed error, or reports each difference as unknown."""
    store = store_of(file, folder, root)
    try:
        tree_keys, gaps = ledgers_of(store)
        cluster = nodes_of(store)
        unclear = {path for path, _ in (*gaps, *store.cluster().gaps)}
    except StoreError:
        return
    if root not in unclear:
        differ = {path for path in whole.keys() | tree_keys.keys() if whole.get(path) != tree_keys.get(path)}
        assert differ <= unclear
        assert {path for path in nodes if nodes[path] != cluster.get(path)} <= unclear


@property_settings
@given(st.data())
def test_damage_to_a_hashed_snapshot_of_a_real_server_is_never_silent(
    tmp_path: Path, data: st.DataObject
) -> None:
    file = bytearray(unpack_file("etcd-snapshot.db", tmp_path).read_bytes())
    good = bytes(file)
    store = store_of(good, tmp_path, SCOPE)
    whole, nodes = ledgers_of(store)[0], nodes_of(store)
    for _ in range(data.draw(st.integers(1, 3))):
        file[data.draw(st.integers(0, len(file) - 1))] ^= data.draw(st.integers(1, 255))
    check_damage_is_reported(bytes(file), tmp_path, whole, nodes, SCOPE)
    check_damage_is_reported(good[: data.draw(st.integers(0, len(good)))], tmp_path, whole, nodes, SCOPE)


HISTORY = make_history(120)
COPY = HISTORY.database(hashed=False)


def values(file: bytes) -> set[int]:
    """Return the offsets of the bytes within values, which only a hash could check."""
    data = memoryview(file)
    meta = read_meta(data)
    inside: set[int] = set()
    trees = [page_span(data, meta, meta.root), bucket(data, meta, b"key"), bucket(data, meta, b"meta")]
    for root in trees:
        assert root is not None
        for leaf in leaves(data, meta, root):
            assert isinstance(leaf, PageSpan)
            page_elements = elements(data, np.array([leaf.start]), np.array([leaf.end]))
            for begin, end in zip(
                page_elements.value_offsets.tolist(), page_elements.value_ends.tolist(), strict=True
            ):
                inside |= set(range(begin, end))
    return inside


STRUCTURE = sorted(set(range(len(COPY))) - values(COPY))


@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(STRUCTURE), st.integers(1, 255))
def test_damage_to_the_pages_of_a_copy_without_a_hash_is_never_silent(
    tmp_path: Path, offset: int, flip: int
) -> None:
    file = bytearray(COPY)
    file[offset] ^= flip
    check_damage_is_reported(bytes(file), tmp_path, *expected(HISTORY), ROOT)


def test_real_snapshot_and_member_file_are_read(tmp_path: Path) -> None:
    saved, copied = tmp_path / "saved.db", tmp_path / "copied.db"
    with running(tmp_path / "server") as server:
        server.load([(ROOT, b""), (f"{ROOT}/instanceid", b"x")])
        paths = [key(ledger << 40).decode() for ledger in range(11_000)]
        server.load((path, b"open") for path in paths)
        server.load(
            (path, b"closed" + bytes(6000 if n % 500 == 0 else 50)) for n, path in enumerate(paths[::2])
        )
        for path in paths[:5]:
            server.ctl("del", path)
        server.ctl("put", paths[2], "back")
        server.ctl("snapshot", "save", str(saved))
        before = server.revision()
        server.compact(before)
        server.ctl("defrag")
        server.ctl("snapshot", "save", str(tmp_path / "compacted.db"))
    shutil.copy(next((tmp_path / "server").rglob("member/snap/db")), copied)
    expected_values = dict.fromkeys(paths, b"open")
    expected_values |= {
        path: b"closed" + bytes(6000 if n % 500 == 0 else 50) for n, path in enumerate(paths[::2])
    }
    for path in paths[:5]:
        del expected_values[path]
    expected_values[paths[2]] = b"back"
    sizes = []
    for file in (saved, tmp_path / "compacted.db", copied):
        store = open_store(f"etcd-snapshot://{file}?scope={ROOT}")
        tree_keys, gaps = ledgers_of(store, 5)
        assert not gaps
        assert {path: data for path, (data, _, _) in tree_keys.items()} == expected_values
        assert store.cluster().position == f"revision {before}"
        assert store.cluster().nodes["INSTANCEID"].data == b"x"
        sizes.append(file.stat().st_size)
    assert sizes[0] > 2**20
