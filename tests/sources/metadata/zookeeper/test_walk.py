"""What a walk says of a tree that changes under it, on a reader whose every answer is set by the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from auditor.sources.metadata.tree_shape import DEPTH_LIMIT
from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
from auditor.sources.metadata.zookeeper.requests import NodeData, Stat
from auditor.sources.metadata.zookeeper.tree import TopZnode, walk

GONE = FailedRead(NO_NODE, "no such znode")
BROKEN = FailedRead(None, "ConnectionLoss")


class Scripted:
    """Answers from a tree of names; ``data_of`` and ``children_of`` override, call by call."""

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
            return GONE
        return NodeData(path.encode(), Stat(1, 1, 5, 5, 0, 0, 0, 0, 0, len(self._names(path)), 1))

    def children(self, paths: Sequence[str]) -> list[Any]:
        return [
            self.children_of[path].pop(0) if self.children_of.get(path) else self._names(path)
            for path in paths
        ]


def outcome(reader: Scripted, *tops: TopZnode) -> tuple[list[str], list[str]]:
    batches = list(walk(cast(ZooKeeperReader, reader), tops))
    return sorted(z.path for znodes, _ in batches for z in znodes), sorted(
        g[0] for _, gaps in batches for g in gaps
    )


TREE = ["/r", "/r/00", "/r/00/0000", "/r/00/0000/L0001", "/r/00/0000/L0002", "/r/00/0001", "/r/00/0001/L0003"]


def test_a_quiet_tree_is_read_whole_and_a_shallow_top_alone() -> None:
    assert outcome(Scripted(TREE), TopZnode("/r")) == (TREE, [])
    assert outcome(Scripted(TREE), TopZnode("/r/00", is_recursive=False)) == (["/r/00"], [])


def test_a_leaf_that_vanishes_is_simply_gone() -> None:
    reader = Scripted(TREE)
    reader.data_of["/r/00/0000/L0002"] = GONE
    paths, gaps = outcome(reader, TopZnode("/r"))
    assert "/r/00/0000/L0002" not in paths
    assert gaps == []


def test_an_inner_znode_that_is_gone_from_its_parents_list_too_was_deleted() -> None:
    reader = Scripted(TREE)
    reader.data_of["/r/00/0001"] = GONE
    reader.children_of["/r/00"] = [["0000", "0001"], ["0000"]]
    assert outcome(reader, TopZnode("/r")) == (TREE[:5], [])


def test_an_inner_znode_that_vanished_between_data_and_list_was_deleted_too() -> None:
    reader = Scripted(TREE)
    reader.children_of = {"/r/00/0001": [GONE], "/r/00": [["0000", "0001"], ["0000"]]}
    assert outcome(reader, TopZnode("/r")) == (TREE[:6], [])


def test_an_inner_znode_that_is_back_in_its_parents_list_is_a_gap() -> None:
    for where in ("data", "list"):
        reader = Scripted(TREE)
        if where == "data":
            reader.data_of["/r/00/0001"] = GONE
        else:
            reader.children_of["/r/00/0001"] = [GONE]
        assert outcome(reader, TopZnode("/r"))[1] == ["/r/00/0001"]


def test_a_parent_that_is_gone_as_well_was_deleted_and_one_that_cannot_be_listed_proves_nothing() -> None:
    for second, expected in ((GONE, []), (BROKEN, ["/r/00/0001"])):
        reader = Scripted(TREE)
        reader.data_of["/r/00/0001"] = GONE
        reader.children_of["/r/00"] = [["0000", "0001"], second]
        assert outcome(reader, TopZnode("/r"))[1] == expected


def test_what_cannot_be_read_or_listed_is_a_gap_and_never_a_shorter_list() -> None:
    reader = Scripted(TREE)
    reader.data_of["/r/00/0000/L0001"] = BROKEN
    reader.children_of["/r/00/0001"] = [BROKEN]
    paths, gaps = outcome(reader, TopZnode("/r"))
    assert gaps == ["/r/00/0000/L0001", "/r/00/0001"]
    assert "/r/00/0000/L0002" in paths


def test_a_tree_without_end_is_a_gap_at_the_limit() -> None:
    is_recursive = ["/" + "/".join("r" * n) for n in range(1, 40)]
    paths, gaps = outcome(Scripted(is_recursive), TopZnode("/r"))
    assert len(paths) == DEPTH_LIMIT + 1
    assert gaps == [paths[-1]]
