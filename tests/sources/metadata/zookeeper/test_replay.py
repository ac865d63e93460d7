"""Log replay is as tolerant as ZooKeeper's: fuzzy and exact snapshots give equal trees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.zookeeper.txnlog import CloseSession, Create, Delete, Operation, SetData
from auditor.sources.metadata.store import Znode
from auditor.sources.metadata.zookeeper.snapshot_index import Replay

PATHS = [f"/r/{name}" for name in "abc"]
SESSIONS = [7, 8]


def znode(path: str, owner: int = 0) -> Znode:
    return Znode(path, b"old", 1, 1, 1, 1, 0, owner)


def replay(base: list[Znode], *operations: Operation) -> dict[str, Znode | None]:
    numbered = [(10 + n, 100 + n, what) for n, what in enumerate(operations)]
    return Replay(0, numbered).apply_to({node.path: node for node in base})


def test_create_set_and_delete_are_applied() -> None:
    state = replay([], Create("/r/a", b"x", 0), SetData("/r/a", b"y", 1))
    assert state == {"/r/a": Znode("/r/a", b"y", 10, 11, 100, 101, 1, 0)}
    assert replay([znode("/r/a")], Delete("/r/a")) == {"/r/a": None}


def test_changes_that_the_snapshot_has_are_not_applied_again() -> None:
    existing = znode("/r/a")
    assert replay([existing], Create("/r/a", b"x", 0)) == {"/r/a": existing}
    assert replay([], Delete("/r/a"), SetData("/r/a", b"y", 5)).get("/r/a") is None


def test_closed_session_removes_its_ephemeral_znodes_in_both_log_forms() -> None:
    own, foreign = znode("/r/a", 7), znode("/r/b", 8)
    for paths in ((), ("/r/a", "/r/c")):
        state = replay([own, foreign], Create("/r/c", b"", 7), CloseSession(7, paths))
        assert (state["/r/a"], state["/r/b"], state["/r/c"]) == (None, foreign, None)


def test_path_recreated_by_another_session_is_kept() -> None:
    state = replay([znode("/r/a", 7)], CloseSession(7, ()), Create("/r/a", b"new", 8), CloseSession(7, ()))
    assert state["/r/a"] == Znode("/r/a", b"new", 11, 11, 101, 101, 0, 8)
    state = replay([znode("/r/a", 7)], Delete("/r/a"), Create("/r/a", b"new", 0), CloseSession(7, ()))
    assert state["/r/a"] is not None


def test_znode_newer_than_a_change_keeps_its_data() -> None:
    newer = Znode("/r/a", b"of the second", 12, 12, 102, 102, 0, 8)
    history: list[Operation] = [Create("/r/a", b"", 7), SetData("/r/a", b"of the first", 1), Delete("/r/a")]
    assert replay([newer], *history[:2], CloseSession(7, ()))["/r/a"] == newer
    # In one transaction a znode is as new as what is done to it.
    state = Replay(0, [(5, 50, what) for what in history[:2]]).apply_to({})
    assert state["/r/a"] == Znode("/r/a", b"of the first", 5, 5, 50, 50, 1, 7)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, Operation]]:
    """Draw writes as a server logs them: only successful ones."""
    live_nodes: dict[str, tuple[int, int]] = {}  # version and owner
    open_sessions = list(SESSIONS)
    history: list[tuple[int, int, Operation]] = []
    for step in range(draw(st.integers(0, 25))):
        path = draw(st.sampled_from(PATHS))
        what: Operation
        if open_sessions and draw(st.integers(0, 9)) == 0:
            session = open_sessions.pop()
            what = CloseSession(
                session,
                draw(st.sampled_from([(), tuple(p for p in live_nodes if live_nodes[p][1] == session)])),
            )
            live_nodes = {p: node for p, node in live_nodes.items() if node[1] != session}
        elif path not in live_nodes:
            live_nodes[path] = (0, draw(st.sampled_from([0, *open_sessions])))
            what = Create(path, b"%d" % step, live_nodes[path][1])
        elif draw(st.booleans()):
            live_nodes.pop(path)
            what = Delete(path)
        else:
            live_nodes[path] = (live_nodes[path][0] + 1, live_nodes[path][1])
            what = SetData(path, b"%d" % step, live_nodes[path][0])
        history.append((step + 1, 1000 + step, what))
    return history


@given(histories(), st.data())
def test_fuzzy_snapshot_gives_the_tree_of_an_exact_snapshot(
    history: list[tuple[int, int, Operation]], data: st.DataObject
) -> None:
    exact = {path: node for path, node in Replay(0, history).apply_to({}).items() if node}
    begun = data.draw(st.integers(0, len(history)))
    fuzzy: dict[str, Znode] = {}
    for path in PATHS:
        # Each znode is written to the snapshot at a moment of its own, at or after the snapshot's beginning.
        moment = data.draw(st.integers(begun, len(history)))
        node = Replay(0, history[:moment]).apply_to({}).get(path)
        fuzzy |= {path: node} if node else {}
    ended = Replay(begun, history[begun:]).apply_to(fuzzy)
    assert {path: node for path, node in ended.items() if node} == exact
