"""Reading a live subtree that changes while it is read.

Every znode's data is read, and its stat says whether it has children; so a znode is listed only if it has
some, whatever its name. What disappears on the way is judged by what it could have held:

- a leaf (a ledger, mark, lock or registration) that is gone is simply gone;
- an inner znode that is gone: its parent is listed once more. Gone there too: it was deleted. Otherwise what
  was below it is unknown, and that is a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auditor.sources.metadata.store import BATCH_ZNODES, Tree, Znode
from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader

DEPTH_LIMIT = 16
"""Levels below the znode where a walk starts; the deepest tree, that of scopes, has nine."""

LEAF = re.compile(r"(L|urL|ID-)-?[0-9]+|L[0-9a-f]{4}")
"""Names of znodes that hold no others: ledgers, marks and locks, id generation."""

# Inner znodes whose children are inner too: listing parents of leaves would bring all ledgers to the driver.
DIVISIBLE = {
    Tree.LEDGERS: re.compile(r"[0-9]{2}|[0-9]{3}(/[0-9]{4}){0,2}|scopes(/[0-9a-f]{4}){0,6}"),
    Tree.MARKS: re.compile(r"underreplication/ledgers(/[0-9a-f]{4}){0,3}"),
    Tree.WHOLE: re.compile(r"[^/]+"),
}


@dataclass(frozen=True, slots=True)
class Top:
    """Where a walk starts; a shallow one is read without what is below it."""

    path: str
    deep: bool = True


@dataclass(frozen=True, slots=True)
class _Inner:
    path: str
    num_children: int
    depth: int


Gap = tuple[str, str]
"""Absolute path and reason."""


def walk(reader: ZooKeeperReader, tops: Iterable[Top]) -> Iterator[tuple[list[Znode], list[Gap]]]:
    """Read the tops and everything below the deep ones, in batches of znodes and gaps.

    Held at a time: one batch, the names of the children still to be read (a batch and the widest znode),
    and the inner znodes still to be listed.
    """
    to_read = [(top.path, 0 if top.deep else DEPTH_LIMIT + 1) for top in tops]
    to_list: list[_Inner] = []
    while to_read or to_list:
        gaps: list[Gap] = []
        if to_list and len(to_read) < BATCH_ZNODES:
            listed = _take(to_list, BATCH_ZNODES - len(to_read))
            to_read += _list(reader, listed, gaps)
            if gaps:
                yield [], gaps
            continue
        chunk = to_read[-BATCH_ZNODES:]
        del to_read[-BATCH_ZNODES:]
        znodes, inner = _read_chunk(reader, chunk, gaps)
        to_list += inner
        if znodes or gaps:
            yield znodes, gaps


def _take(to_list: list[_Inner], room: int) -> list[_Inner]:
    """Inner znodes off the end of the list, with about ``room`` children together; at least one."""
    taken = [to_list.pop()]
    children = taken[0].num_children
    while to_list and children + to_list[-1].num_children <= room:
        taken.append(to_list.pop())
        children += taken[-1].num_children
    return taken


def _list(reader: ZooKeeperReader, inner: list[_Inner], gaps: list[Gap]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    vanished: list[str] = []
    for znode, names in zip(inner, reader.children([znode.path for znode in inner]), strict=True):
        if not isinstance(names, FailedRead):
            found += [(f"{znode.path}/{name}", znode.depth + 1) for name in names]
        elif names.code == NO_NODE:
            vanished.append(znode.path)
        else:
            gaps.append((znode.path, f"its children could not be listed: {names.reason}"))
    gaps += _reappeared_gaps(reader, vanished)
    return found


def _read_chunk(
    reader: ZooKeeperReader, chunk: list[tuple[str, int]], gaps: list[Gap]
) -> tuple[list[Znode], list[_Inner]]:
    znodes: list[Znode] = []
    inner: list[_Inner] = []
    vanished: list[str] = []
    for (path, depth), answer in zip(chunk, reader.data([path for path, _ in chunk]), strict=True):
        if isinstance(answer, FailedRead):
            if answer.code != NO_NODE:
                gaps.append((path, f"it could not be read: {answer.reason}"))
            elif not LEAF.fullmatch(path.rpartition("/")[2]):
                vanished.append(path)
            continue
        data, stat = answer
        znodes.append(
            Znode(
                path,
                data,
                stat.czxid,
                stat.mzxid,
                stat.ctime,
                stat.mtime,
                stat.version,
                stat.ephemeral_owner,
                # cversion counts what was made and what was deleted.
                (stat.cversion + stat.num_children) // 2,
                stat.num_children,
            )
        )
        if stat.num_children and depth < DEPTH_LIMIT:
            inner.append(_Inner(path, stat.num_children, depth))
        elif stat.num_children and depth == DEPTH_LIMIT:
            gaps.append((path, f"it is {DEPTH_LIMIT} levels down and has children, which were not read"))
    gaps += _reappeared_gaps(reader, vanished)
    return znodes, inner


def _reappeared_gaps(reader: ZooKeeperReader, vanished: list[str]) -> list[Gap]:
    """Gaps for inner znodes that were gone when they were read, yet are in their parent's list."""
    parents = sorted({path.rpartition("/")[0] for path in vanished})
    listings = dict(zip(parents, reader.children(parents), strict=True))
    gaps = []
    for path in vanished:
        parent, _, name = path.rpartition("/")
        names = listings[parent]
        if isinstance(names, FailedRead):
            if names.code != NO_NODE:
                gaps.append((path, f"it vanished, and its parent could not be listed: {names.reason}"))
        elif name in names:
            gaps.append((path, "it vanished while it was read and is there again"))
    return gaps
