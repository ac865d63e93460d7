"""A tree of records read level by level, from all shards of a namespace.

What lies right below a path is one range in every release; a whole subtree is none (`questions`). So each
directory is asked for in each shard: one stream, which shows one moment of one shard. A record does not tell
whether others lie below it. Everything is looked below, but for ledgers, marks and locks, whose names show
what they are: if such a record has a value, nothing is looked for below it.

A directory without a record of its own is not seen, and neither is what lies below it. Pulsar's driver makes
a record for each directory, and lists by the same ranges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from auditor.keys.etcd import key_bytes, key_text
from auditor.sources.metadata.oxia.client import OxiaClient, ShardAnswer, ShardRange
from auditor.sources.metadata.oxia.questions import ChildKeys, ChildRecords, OxiaRecord, RecordsAt
from auditor.sources.metadata.store import Znode
from auditor.sources.metadata.tree_shape import DEPTH_LIMIT, LEAF

Gap = tuple[str, str]
"""Absolute path and reason."""


class Directory(NamedTuple):
    """A path to read the children of: how deep it lies below where a walk began, and in which shards."""

    path: str
    depth: int
    shards: tuple[ShardRange, ...]


class RecordBatch(NamedTuple):
    """Records as they came, and what was not read beside them."""

    znodes: list[Znode]
    gaps: list[Gap]


def read_records(client: OxiaClient, paths: Sequence[str], batch: int) -> Iterator[RecordBatch]:
    """The records at some paths, without what lies below them; one that is not there has none.

    Which shard has a key its writer may choose, so that every shard is asked for it.
    """
    for begin in range(0, len(paths), batch):
        keys = tuple(map(key_bytes, paths[begin : begin + batch]))
        for answer in [client.begin(shard, RecordsAt(keys)) for shard in client.shards()]:
            for records in answer.batches():
                if found := [record.znode() for record in records if record is not None]:
                    yield RecordBatch(found, [])


def list_children(client: OxiaClient, paths: Sequence[str], in_flight: int) -> dict[str, list[str]]:
    """The paths right below some others, in order, by the path above them."""
    children: dict[str, set[str]] = {path: set() for path in paths}
    questions = ((ChildKeys(path), shard, path) for path in paths for shard in client.shards())
    sent: deque[tuple[str, ShardAnswer[bytes]]] = deque()
    while True:
        for question, shard, path in questions:
            sent.append((path, client.begin(shard, question)))
            if len(sent) >= in_flight:
                break
        if not sent:
            return {path: sorted(names) for path, names in children.items()}
        path, answer = sent.popleft()
        for keys in answer.batches():
            children[path].update(map(key_text, keys))


def walk_records(
    client: OxiaClient,
    tops: Iterable[Directory],
    in_flight: int,
    concerns: Callable[[str], bool] = lambda path: True,
) -> Iterator[RecordBatch]:
    """All records below some directories that concern the reader, and what lies below those.

    Held at a time: a message of each answer on its way, and the directories that are still to be asked for.
    """
    waiting = list(tops)[::-1]
    sent: deque[_Asked] = deque()
    everywhere = client.shards()
    while waiting or sent:
        while waiting and len(sent) < in_flight:
            directory = waiting.pop()
            below: dict[str, None] = {}
            answers = [client.begin(shard, ChildRecords(directory.path)) for shard in directory.shards]
            sent += [_Asked(directory, answer, below, answer is answers[-1]) for answer in answers]
        asked = sent.popleft()
        is_deepest = asked.directory.depth == DEPTH_LIMIT
        for records in asked.answer.batches():
            znodes = [znode for znode in (record.znode() for record in records) if concerns(znode.path)]
            inner = [znode.path for znode in znodes if not (znode.data and LEAF.fullmatch(_name(znode.path)))]
            reason = f"it is {DEPTH_LIMIT} levels down, and nothing was looked for below it"
            gaps = [(path, reason) for path in inner] if is_deepest else []
            if znodes or gaps:
                yield RecordBatch(znodes, gaps)
            asked.below.update(() if is_deepest else dict.fromkeys(inner))
        if asked.is_last:
            depth = asked.directory.depth + 1
            waiting += [Directory(path, depth, everywhere) for path in reversed(asked.below)]


class _Asked(NamedTuple):
    """The answer of one shard for a directory; ``below`` collects what all of its shards have below it."""

    directory: Directory
    answer: ShardAnswer[OxiaRecord]
    below: dict[str, None]
    is_last: bool


def _name(path: str) -> str:
    return path.rpartition("/")[2]
