"""Ledgers of a running etcd read against an earlier run equal those of a full read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.ledger_rows import REREAD_LEDGERS
from auditor.sources.metadata.store import History
from tests.examples import examples
from tests.servers.etcd import Etcd, running
from tests.sources.earlier_etcd import (
    CLOSED,
    DOUBLED,
    GARBAGE,
    LONGER,
    OPEN,
    comparable_rows,
    key,
    open_etcd_store,
    read_since,
    read_whole,
    reused_ledgers,
    write_earlier_ledgers,
)

MESSAGE_BYTES = 30_000
"""What no value of a test but one is larger than."""

HUGE = bytes(2 * MESSAGE_BYTES)
SCOPES = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd")) as member:
        yield member


LEDGERS = [key("", (bucket << 56) + number) for bucket in (0, 1, 127) for number in range(1, 6)]
KEYS = [
    *LEDGERS,
    key("", 7, scope_id=1),
    key("", -7, scope_id=-1),
    "/ledgers/",
    "/ledgers/0-0-0-0-1",
    "/ledgers/00000000-0000-0000-0100-000000000003/x",
    "/ledgers/~",
    "/ledgers/\udcff",
    "/buckets/001",
]
VALUES = [CLOSED, CLOSED, OPEN, LONGER, GARBAGE, DOUBLED, b"", HUGE]
LIKELY = st.one_of(st.sampled_from(LEDGERS), st.sampled_from(LEDGERS), st.sampled_from(KEYS))
PUT = st.tuples(LIKELY, st.sampled_from(VALUES))
CHANGE = st.one_of(PUT, st.tuples(LIKELY, st.none()), st.tuples(LIKELY, st.just("again")))


def change(server: Etcd, path: str, value: bytes | str | None) -> None:
    """Put a value, delete the key, or delete and recreate it with a possibly equal value."""
    if not isinstance(value, bytes):
        server.delete(path)
    if value is not None:
        server.load([(path, value if isinstance(value, bytes) else CLOSED)])


def history(server: Etcd, scope: str) -> History:
    store = open_etcd_store(server, scope)
    store.cluster()
    store_history = store.history()
    store.close()
    return store_history


@settings(max_examples=examples(20), deadline=None)
@given(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES[:6]), max_size=4),
    st.lists(st.lists(CHANGE, max_size=6), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from([2, 4, 5_000]),
    st.sampled_from([1, 500]),
    st.sampled_from([1, 4]),
    st.booleans(),
)
def test_reading_against_an_earlier_run_equals_a_full_read(
    server: Etcd,
    odd: dict[str, bytes],
    steps: list[list[tuple[str, bytes | str | None]]],
    part_count: int,
    piece: int,
    page: int,
    in_flight: int,
    compacted: bool,
) -> None:
    scope = f"/bk{next(SCOPES)}"
    first = {**dict.fromkeys(LEDGERS, CLOSED), **odd, "/layout": b""}
    server.load([(scope + path, value) for path, value in first.items()])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("auditor.sources.metadata.earlier_ledgers.PIECE_ROWS", piece)
        patch.setattr("auditor.sources.metadata.etcd.pages.FIRST_PAGE_KEYS", page)
        patch.setattr("auditor.sources.metadata.etcd.client.MESSAGE_LIMIT", MESSAGE_BYTES)
        store = open_etcd_store(server, scope, in_flight=in_flight)
        store.cluster()
        before, then = read_whole(store), store.history()
        for number, changes in enumerate(steps):
            earlier = write_earlier_ledgers(Path(folder, str(number)), before, part_count)
            for path, value in changes:
                change(server, scope + path, value)
            if compacted:
                server.compact(server.load([(f"{scope}/other", b"")]))
            store.cluster()
            before, current = read_since(store, earlier, part_count), store.history()
            assert comparable_rows(before) == comparable_rows(read_whole(store))
            again = read_since(store, earlier, part_count, REREAD_LEDGERS)
            assert comparable_rows(again) == comparable_rows(read_whole(store, columns=REREAD_LEDGERS))
            assert current.continues(then)
            then = current
        store.close()


def make_store(server: Etcd, scope: str, ledgers: range) -> EtcdStore:
    """Return a store whose ledgers were each written in a revision of their own."""
    server.load([(f"{scope}/layout", b"")])
    for ledger in ledgers:
        server.load([(key(scope, ledger), CLOSED)])
    store = open_etcd_store(server, scope)
    store.cluster()
    return store


def test_only_changed_ledgers_and_a_few_of_the_newest_are_read(
    server: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.metadata.earlier_ledgers.PIECE_ROWS", 10)
    store = make_store(server, "/few", range(40))
    earlier = write_earlier_ledgers(tmp_path / "run", read_whole(store), 3)
    server.load([(key("/few", 3), OPEN), (key("/few", 100), OPEN)])
    server.delete(key("/few", 12))
    store.cluster()
    before = store.operations()
    table = read_since(store, earlier, 3)
    assert comparable_rows(table) == comparable_rows(read_whole(store))
    # Files of 14, 14 and 12 rows: of each piece, of 10 or fewer, the newest are asked for again.
    newest = {7, 8, 9, 12, 13, 21, 22, 23, 26, 27, 35, 36, 37, 39}
    assert {*range(40)} - reused_ledgers(table) - {3, 12} <= newest
    assert len(reused_ledgers(table)) >= 24
    assert store.operations()["keys_read"] - before["keys_read"] < 40 + 40
    assert table["path"].to_pylist() == sorted(table["path"].to_pylist())
    store.close()


def test_keys_are_not_listed_if_none_were_deleted(server: Etcd, tmp_path: Path) -> None:
    store = make_store(server, "/same", range(40))
    earlier = write_earlier_ledgers(tmp_path / "run", read_whole(store))
    server.load([(key("/same", 5), OPEN)])
    store.cluster()
    before = store.operations()["keys_read"]
    # Files of 21 and 19 rows.
    assert reused_ledgers(read_since(store, earlier)) == {*range(15), *range(21, 35)} - {5}
    assert store.operations()["keys_read"] - before == 1 + 6 + 5
    store.close()


def test_stray_key_causes_a_reread_of_its_neighbours_only(
    server: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.metadata.earlier_ledgers.PIECE_ROWS", 10)
    server.load([("/stray/ledgers/00000000-0000-0000-0000-00000000000z", b"")])
    store = make_store(server, "/stray", range(40))
    earlier = write_earlier_ledgers(tmp_path / "run", read_whole(store), 1)
    assert not earlier.whole
    server.delete(key("/stray", 12))  # so that there are as many keys as rows
    store.cluster()
    table = read_since(store, earlier)
    assert comparable_rows(table) == comparable_rows(read_whole(store))
    assert {row["path"][-1] for row in comparable_rows(table) if row["status"] == "misplaced"} == {"z"}
    assert not reused_ledgers(table) & {*range(10, 20)}
    assert reused_ledgers(table) >= {*range(7), *range(20, 27), *range(30, 37)}
    store.close()


@settings(max_examples=2, deadline=None)
@given(st.integers(1, 4), st.integers(0, 30))
def test_restored_etcd_is_detected_at_any_revision(server: Etcd, lost: int, anew: int) -> None:
    scope = f"/restored{next(SCOPES)}"
    with tempfile.TemporaryDirectory() as folder:
        make_store(server, scope, range(12)).close()
        server.save(Path(folder, "snapshot.db"))
        for ledger in range(lost):
            server.load([(key(scope, ledger), OPEN)])
        then = history(server, scope)
        server.put_back(Path(folder, "snapshot.db"))
        for ledger in range(anew):
            server.load([(key(scope, ledger), LONGER)])
        current = history(server, scope)
    assert current.cluster == then.cluster, "nothing else tells them apart"
    assert not current.continues(then)


def test_ledgers_lost_by_a_restored_etcd_are_read_again(
    server: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.metadata.earlier_ledgers.PIECE_ROWS", 10)
    store = make_store(server, "/back", range(0, 80, 2))
    server.save(tmp_path / "snapshot.db")
    for ledger in (64, 66, 25, 27, 29):  # the last three are new
        server.load([(key("/back", ledger), OPEN)])
    store.cluster()
    earlier, then = write_earlier_ledgers(tmp_path / "run", read_whole(store), 1), store.history()
    store.close()
    server.put_back(tmp_path / "snapshot.db")
    for ledger in (22, 24, 64):  # at revisions that it had reached before
        server.load([(key("/back", ledger), LONGER)])
    server.load([("/back/other", b"")])
    server.load([("/back/other", b"")])
    store = open_etcd_store(server, "/back")
    assert store.cluster().revision == then.revision
    table = read_since(store, earlier)
    assert comparable_rows(table) == comparable_rows(read_whole(store))
    assert reused_ledgers(table) >= {0, 2, 4, 34, 36, 38}
    assert not reused_ledgers(table) & {*range(20, 33)}
    store.close()
