"""The result of a walk over a changing tree, with a reader whose every answer the test sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from auditor.sources.metadata.tree_shape import DEPTH_LIMIT
from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
from auditor.sources.metadata.zookeeper.requests import NodeData, Stat
from auditor.sources.metadata.zookeeper.tree import TopZnode, walk

NO_ZNODE = FailedRead(NO_NODE, "no such znode")
CONNECTION_LOSS = FailedRead(None, "ConnectionLoss")


class ScriptedReader:
    """A reader that answers from a tree of names; ``data_of`` and ``children_of`` override single calls."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = set(paths)
        self.data_of: dict[str, FailedRead] = {}
        self.children_of: dict[str, list[Any]] = {}

    def _names(self, path: str) -> list[str]:
        return sorted(p.rpartition("/")[2] for p in self.paths if p.rpartition("/")[0] == path)

    def data(self, paths: Sequence[str]) -> list[NodeData | FailedRead]:
        return [self._data(path) for path in paths]

    def _data(self, path: str) -> NodeData | FailedRead:
        if path in self.data_of:
            return self.data_of[path]
        if path not in self.paths:
            return NO_ZNODE
        return NodeData(path.encode(), Stat(1, 1, 5, 5, 0, 0, 0, 0, 0, len(self._names(path)), 1))

    def children(self, paths: Sequence[str]) -> list[Any]:
        return [
            self.children_of[path].pop(0) if self.children_of.get(path) else self._names(path)
            for path in paths
        ]


def outcome(reader: ScriptedReader, *tops: TopZnode) -> tuple[list[str], list[str]]:
    batches = list(walk(cast(ZooKeeperReader, reader), tops))
    return sorted(z.path for znodes, _ in batches for z in znodes), sorted(
        g[0] for _, gaps in batches for g in gaps
    )


TREE = ["/r", "/r/00", "/r/00/0000", "/r/00/0000/L0001", "/r/00/0000/L0002", "/r/00/0001", "/r/00/0001/L0003"]


def test_unchanged_tree_is_read_and_a_non_recursive_top_without_children() -> None:
    assert outcome(ScriptedReader(TREE), TopZnode("/r")) == (TREE, [])
    assert outcome(ScriptedReader(TREE), TopZnode("/r/00", is_recursive=False)) == (["/r/00"], [])


def test_deleted_leaf_is_not_a_gap() -> None:
    reader = ScriptedReader(TREE)
    reader.data_of["/r/00/0000/L0002"] = NO_ZNODE
    paths, gaps = outcome(reader, TopZnode("/r"))
    assert "/r/00/0000/L0002" not in paths
    assert gaps == []


def test_inner_znode_missing_in_the_list_of_its_parent_was_deleted() -> None:
    reader = ScriptedReader(TREE)
    reader.data_of["/r/00/0001"] = NO_ZNODE
    reader.children_of["/r/00"] = [["0000", "0001"], ["0000"]]
    assert outcome(reader, TopZnode("/r")) == (TREE[:5], [])


def test_inner_znode_deleted_between_data_and_list_is_not_a_gap() -> None:
    reader = ScriptedReader(TREE)
    reader.children_of = {"/r/00/0001": [NO_ZNODE], "/r/00": [["0000", "0001"], ["0000"]]}
    assert outcome(reader, TopZnode("/r")) == (TREE[:6], [])


def test_inner_znode_that_its_parent_still_lists_is_a_gap() -> None:
    for where in ("data", "list"):
        reader = ScriptedReader(TREE)
        if where == "data":
            reader.data_of["/r/00/0001"] = NO_ZNODE
        else:
            reader.children_of["/r/00/0001"] = [NO_ZNODE]
        assert outcome(reader, TopZnode("/r"))[1] == ["/r/00/0001"]


def test_missing_znode_is_deleted_with_its_parent_and_a_gap_if_the_parent_fails() -> None:
    for second, expected in ((NO_ZNODE, []), (CONNECTION_LOSS, ["/r/00/0001"])):
        reader = ScriptedReader(TREE)
        reader.data_of["/r/00/0001"] = NO_ZNODE
        reader.children_of["/r/00"] = [["0000", "0001"], second]
        assert outcome(reader, TopZnode("/r"))[1] == expected


def test_unreadable_or_unlistable_znode_is_a_gap() -> None:
    reader = ScriptedReader(TREE)
    reader.data_of["/r/00/0000/L0001"] = CONNECTION_LOSS
    reader.children_of["/r/00/0001"] = [CONNECTION_LOSS]
    paths, gaps = outcome(reader, TopZnode("/r"))
    assert gaps == ["/r/00/0000/L0001", "/r/00/0001"]
    assert "/r/00/0000/L0002" in paths


def test_endless_tree_is_a_gap_at_the_depth_limit() -> None:
    is_recursive = ["/" + "/".join("r" * n) for n in range(1, 40)]
    paths, gaps = outcome(ScriptedReader(is_recursive), TopZnode("/r"))
    assert len(paths) == DEPTH_LIMIT + 1
    assert gaps == [paths[-1]]
