"""A server's files, plain, compressed, cut, damaged or incomplete, against the dump of the same moment."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import MetadataStore, StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.zookeeper import snapshot_index
from tests.examples import examples

CORPORA = ("interleaved-hier", "flat-v1", "dbledger-long")
ZnodesByPath = dict[str, tuple[Any, ...]]
ReadStore = Callable[[MetadataStore, LayoutKind, int], ZnodesByPath]


def newest_snapshot(directory: Path) -> Path:
    return max(directory.glob("version-2/snapshot.*"), key=lambda path: int(path.name.split(".")[1], 16))


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("records_a_slice", [3, 100_000])
def test_snapshot_files_equal_the_dump_of_the_same_moment(
    corpus: str,
    records_a_slice: int,
    copy_of: Callable[[str], Path],
    expected_of: Callable[[str], ZnodesByPath],
    znodes_of: Callable[[str], list[Znode]],
    held_by: ReadStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_index, "SLICE_RECORDS", records_a_slice)
    copied = copy_of(corpus)
    for directory in (copied, copied / "version-2"):
        store = open_store(f"zk-snapshot://{directory}")
        assert held_by(store, LayoutKind.HIERARCHICAL, 4) == expected_of(corpus)
        cluster = store.cluster()
        assert cluster.scan_time == max(max(z.ctime, z.mtime) for z in znodes_of(corpus))
        assert cluster.position == "0x" + newest_snapshot(copied).name.split(".")[1]
        assert not cluster.notes
        by_path = {znode.path: znode for znode in znodes_of(corpus)}
        assert all(znode[:8] == by_path[znode.path][:8] for znode in cluster.nodes.values())


@pytest.mark.parametrize("corpus", CORPORA)
def test_first_snapshot_and_the_log_give_the_same_tree(
    corpus: str,
    copy_of: Callable[[str], Path],
    expected_of: Callable[[str], ZnodesByPath],
    held_by: ReadStore,
) -> None:
    directory = copy_of(corpus)
    newest_snapshot(directory).unlink()
    store = open_store(f"zk-snapshot://{directory}")
    assert held_by(store, LayoutKind.HIERARCHICAL, 4) == expected_of(corpus)


@pytest.mark.parametrize("corpus", CORPORA)
def test_damaged_snapshot_is_skipped_with_a_note(
    corpus: str,
    copy_of: Callable[[str], Path],
    expected_of: Callable[[str], ZnodesByPath],
    held_by: ReadStore,
) -> None:
    directory = copy_of(corpus)
    newest = newest_snapshot(directory)
    whole = newest.read_bytes()
    for damaged in (
        whole[:-1],
        whole[: len(whole) // 2],
        b"",
        whole[:5000] + b"\1" + whole[5001:],
        whole + b"\0",
    ):
        newest.write_bytes(damaged)
        store = open_store(f"zk-snapshot://{directory}")
        assert held_by(store, LayoutKind.HIERARCHICAL, 2) == expected_of(corpus)
        (note,) = store.cluster().notes
        assert newest.name in note
        assert "was skipped" in note


@settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_any_changed_byte_of_the_only_snapshot_is_detected(
    tmp_path: Path, data: st.DataObject, copy_of: Callable[[str], Path]
) -> None:
    if not (tmp_path / "flat-v1").exists():
        copy_of("flat-v1")
        (tmp_path / "flat-v1/version-2/snapshot.0").unlink()
        shutil.copy(newest_snapshot(tmp_path / "flat-v1"), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    offset = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.booleans())
    changed = (
        whole[:offset]
        if cut
        else whole[:offset] + bytes([whole[offset] ^ data.draw(st.integers(1, 255))]) + whole[offset + 1 :]
    )
    newest_snapshot(tmp_path / "flat-v1").write_bytes(changed)
    # The data base id is the one field that says nothing, and the seals cover it as well.
    with pytest.raises(StoreError, match="no valid snapshot"):
        open_store(f"zk-snapshot://{tmp_path}/flat-v1").cluster()


@pytest.mark.parametrize("method", ["gz", "snappy"])
def test_compressed_snapshots_of_a_real_server_are_read(
    method: str,
    copy_of: Callable[[str], Path],
    expected_of: Callable[[str], ZnodesByPath],
    held_by: ReadStore,
) -> None:
    directory = copy_of("interleaved-hier")
    with EmbeddedZooKeeper(directory, properties={"zookeeper.snapshot.compression.method": method}):
        pass  # a server writes a snapshot when it starts
    compressed = directory / f"version-2/snapshot.16f.{method}"
    assert compressed.exists()
    (directory / "version-2/snapshot.16f").unlink()
    (directory / "version-2/snapshot.0").unlink()
    store = open_store(f"zk-snapshot://{directory}")
    assert held_by(store, LayoutKind.HIERARCHICAL, 4) == expected_of("interleaved-hier")
    whole = compressed.read_bytes()
    for damaged in (whole[:-20], whole[:40], whole[:300] + bytes([whole[300] ^ 0x55]) + whole[301:], b""):
        compressed.write_bytes(damaged)
        with pytest.raises(StoreError, match="no valid snapshot"):
            open_store(f"zk-snapshot://{directory}").cluster()


@pytest.fixture
def lived(tmp_path: Path) -> tuple[Path, ZnodesByPath]:
    """Return the files of a server after every kind of write, and the final tree that a live reader saw."""
    from kazoo.client import KazooClient

    with EmbeddedZooKeeper(tmp_path / "lived") as server:
        server.load([Znode("/bk/available/stays", b"s", 0, 0, 0, 0, 0, 1)])
        clients = [KazooClient(hosts=server.hosts) for _ in range(2)]
        for client in clients:
            client.start()
        first, second = clients
        for n in range(30):
            first.create(f"/bk/00/{n % 3:04}/L{n:04}", b"%d" % n, makepath=True)
        for n in range(0, 30, 2):
            first.set(f"/bk/00/{n % 3:04}/L{n:04}", b"changed")
        for n in range(0, 30, 5):
            first.delete(f"/bk/00/{n % 3:04}/L{n:04}")
        first.create("/bk/00/0000/L0000", b"again")
        first.create("/bk/underreplication/locks/urL0000000001", b"", ephemeral=True, makepath=True)
        second.create("/bk/underreplication/locks/urL0000000002", b"", ephemeral=True)
        second.create("/bk/available/goes", b"", ephemeral=True)
        failing = first.transaction()
        failing.create("/bk/00/0001/L9999", b"never")
        failing.create("/bk/00/0001/L0001", b"exists")
        failing.commit()
        good = first.transaction()
        good.create("/bk/00/0002/L7777", b"multi")
        good.set_data("/bk/00/0002/L7777", b"multi again")
        good.delete("/bk/00/0001/L0001")
        good.commit()
        first.create("/bk/idgen/ID-", b"", sequence=True, ephemeral=True, makepath=True)
        second.stop()
        second.close()
        store = open_store(f"zk://{server.hosts}/bk", StoreOptions(rate_limit=0))
        znodes: ZnodesByPath = {}
        for tree in (Tree.LEDGERS, Tree.MARKS):
            for part in store.parts(tree, LayoutKind.HIERARCHICAL, 2):
                for batch in store.read(part):
                    for row in zip(
                        batch.paths, batch.data, batch.mzxid, batch.mtime, batch.version, strict=True
                    ):
                        znodes[row[0]] = row[1:]
        for node in store.cluster().nodes.values():
            znodes[node.path] = (node.data, node.mzxid, node.mtime, node.version)
        shutil.copytree(tmp_path / "lived/version-2", tmp_path / "saved")
        store.close()
        first.stop()
        first.close()
    return tmp_path / "saved", znodes


def test_every_kind_of_write_is_replayed_as_by_the_server(
    lived: tuple[Path, ZnodesByPath], held_by: ReadStore
) -> None:
    saved, expected = lived
    read = held_by(open_store(f"zk-snapshot://{saved}?root=/bk"), LayoutKind.HIERARCHICAL, 3)
    assert {path: (row[0], row[1], row[3], row[4]) for path, row in read.items()} == expected
    assert "/bk/available/stays" in read
    assert "/bk/underreplication/locks/urL0000000001" in read
    assert not {"/bk/available/goes", "/bk/underreplication/locks/urL0000000002", "/bk/00/0001/L9999"} & set(
        read
    )


def test_cut_log_gives_the_tree_of_an_earlier_moment_and_a_note(lived: tuple[Path, ZnodesByPath]) -> None:
    (log,) = lived[0].glob("log.*")
    whole = log.read_bytes().rstrip(b"\0")
    log.write_bytes(whole[:-3])
    before = open_store(f"zk-snapshot://{lived[0]}?root=/bk").cluster()
    log.write_bytes(whole)
    after = open_store(f"zk-snapshot://{lived[0]}?root=/bk").cluster()
    assert int(before.position, 16) == int(after.position, 16) - 1
    assert ([log.name in note for note in before.notes], after.notes) == ([True], ())
    assert before.gaps == after.gaps == ()


def test_damaged_or_missing_logs_are_gaps_of_the_whole_tree(lived: tuple[Path, ZnodesByPath]) -> None:
    saved, _ = lived
    (log,) = saved.glob("log.*")
    whole = log.read_bytes()
    middle = len(whole.rstrip(b"\0")) // 2
    log.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    store = open_store(f"zk-snapshot://{saved}?root=/bk")
    ((path, reason),) = store.cluster().gaps
    assert path == "/bk"
    assert log.name in reason
    for tree in (Tree.LEDGERS, Tree.MARKS):
        parts = [pickle.loads(pickle.dumps(part)) for part in store.parts(tree, LayoutKind.HIERARCHICAL, 2)]
        assert [gap for part in parts for batch in store.read(part) for gap in batch.gaps] == [(path, reason)]
    log.write_bytes(whole)
    # The first record away: the log now begins later than the snapshot ends.
    first = 16 + 12 + int.from_bytes(whole[24:28], "big") + 1
    log.write_bytes(whole[:16] + whole[first:])
    ((path, reason),) = open_store(f"zk-snapshot://{saved}?root=/bk").cluster().gaps
    assert "are missing" in reason


def test_missing_files_missing_root_and_changed_files_are_store_errors(
    tmp_path: Path, copy_of: Callable[[str], Path]
) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        open_store(f"zk-snapshot://{tmp_path}/nowhere").cluster()
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"snapshot\.<zxid>"):
        open_store(f"zk-snapshot://{tmp_path}/empty").cluster()
    directory = copy_of("flat-v1")
    with pytest.raises(StoreError, match=r"\?root="):
        open_store(f"zk-snapshot://{directory}?root=/other").cluster()
    store = open_store(f"zk-snapshot://{directory}")
    (part,) = store.parts(Tree.LEDGERS, LayoutKind.FLAT, 1)
    newest = newest_snapshot(directory)
    newest.write_bytes(newest.read_bytes()[:9000])
    with pytest.raises(StoreError, match="changed while it was read"):
        list(store.read(part))
