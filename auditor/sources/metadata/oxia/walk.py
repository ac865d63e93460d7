"""A walk through a tree of records, level by level, in all shards of a namespace.

In every release of Oxia, the keys directly below a path form one range. The keys of a whole subtree do not
form one range (`auditor.sources.metadata.oxia.questions`). So the walk sends one request for each directory
to each shard. Each answer shows one shard at one moment.

A record does not show whether it has children. So the walk looks below every record, except below ledgers,
under-replication marks, locks and nodes of id generators. It recognises these records by their names. But if
such a record has no value, the walk looks below it too.

If a directory has no record of its own, the walk finds neither the directory nor anything below it.
Pulsar's driver creates a record for each directory, and uses the same ranges to list children.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from auditor.keys.etcd import key_bytes, key_text
from auditor.sources.metadata.oxia.client import OxiaClient, ShardAnswer, ShardRange
from auditor.sources.metadata.oxia.questions import ChildKeys, ChildRecords, OxiaRecord, RecordsByKey
from auditor.sources.metadata.store import Znode
from auditor.sources.metadata.tree_shape import DEPTH_LIMIT, LEAF_NAME

Gap = tuple[str, str]
"""An absolute path and a reason: records at or below the path may be missing from the result."""


class Directory(NamedTuple):
    """A path whose children are to be read.

    ``depth`` is the number of levels below the start of the walk. ``shards`` are the shards to ask.
    """

    path: str
    depth: int
    shards: tuple[ShardRange, ...]


class RecordBatch(NamedTuple):
    """Records as znodes, and the path and the reason of each record that could not be read (``gaps``)."""

    znodes: list[Znode]
    gaps: list[Gap]


def read_records(client: OxiaClient, paths: Sequence[str], batch: int) -> Iterator[RecordBatch]:
    """Yield the records at some paths, without anything below them. Paths without a record are omitted.

    A writer can choose the shard of a key. So every shard is asked for every path. ``batch`` is the number
    of paths in one request.
    """
    for start in range(0, len(paths), batch):
        keys = tuple(map(key_bytes, paths[start : start + batch]))
        for answer in [client.submit(shard, RecordsByKey(keys)) for shard in client.shards()]:
            for records in answer.batches():
                if znodes := [record.znode() for record in records if record is not None]:
                    yield RecordBatch(znodes, [])


def list_children(client: OxiaClient, paths: Sequence[str], in_flight: int) -> dict[str, list[str]]:
    """Return, for each path, the sorted paths of its children.

    Args:
        client: the client.
        paths: absolute paths.
        in_flight: largest number of requests without an answer.
    """
    children: dict[str, set[str]] = {path: set() for path in paths}
    questions = ((ChildKeys(path), shard, path) for path in paths for shard in client.shards())
    sent_questions: deque[tuple[str, ShardAnswer[bytes]]] = deque()
    while True:
        for question, shard, path in questions:
            sent_questions.append((path, client.submit(shard, question)))
            if len(sent_questions) >= in_flight:
                break
        if not sent_questions:
            return {path: sorted(names) for path, names in children.items()}
        path, answer = sent_questions.popleft()
        for keys in answer.batches():
            children[path].update(map(key_text, keys))


def walk_records(
    client: OxiaClient,
    start_directories: Iterable[Directory],
    in_flight: int,
    is_wanted: Callable[[str], bool] = lambda path: True,
) -> Iterator[RecordBatch]:
    """Yield all records below some directories.

    Memory holds one message of each pending answer, and the directories that are still to be read.

    Args:
        client: the client.
        start_directories: the directories.
        in_flight: number of pending requests at which the walk stops sending requests for further
            directories.
        is_wanted: function that returns whether to read the record at a path. The walk does not look below
            records that are not read.
    """
    unasked_directories = list(start_directories)[::-1]
    sent_questions: deque[_SentQuestion] = deque()
    all_shards = client.shards()
    while unasked_directories or sent_questions:
        while unasked_directories and len(sent_questions) < in_flight:
            directory = unasked_directories.pop()
            child_paths: dict[str, None] = {}
            answers = [client.submit(shard, ChildRecords(directory.path)) for shard in directory.shards]
            sent_questions += [
                _SentQuestion(directory, answer, child_paths, answer is answers[-1]) for answer in answers
            ]
        sent_question = sent_questions.popleft()
        is_at_depth_limit = sent_question.directory.depth == DEPTH_LIMIT
        for records in sent_question.answer.batches():
            znodes = [znode for znode in (record.znode() for record in records) if is_wanted(znode.path)]
            inner_paths = [
                znode.path
                for znode in znodes
                if not (znode.data and LEAF_NAME.fullmatch(_name_of_path(znode.path)))
            ]
            reason = f"the record is {DEPTH_LIMIT} levels deep, and nothing below it was read"
            gaps = [(path, reason) for path in inner_paths] if is_at_depth_limit else []
            if znodes or gaps:
                yield RecordBatch(znodes, gaps)
            sent_question.child_paths.update(() if is_at_depth_limit else dict.fromkeys(inner_paths))
        if sent_question.is_last_shard:
            depth = sent_question.directory.depth + 1
            unasked_directories += [
                Directory(path, depth, all_shards) for path in reversed(sent_question.child_paths)
            ]


class _SentQuestion(NamedTuple):
    """The pending answer of one shard to the request for the records directly below a directory.

    ``child_paths`` collects the directory's subdirectories that all of its shards report. ``is_last_shard``
    is True for the last shard that is asked.
    """

    directory: Directory
    answer: ShardAnswer[OxiaRecord]
    child_paths: dict[str, None]
    is_last_shard: bool


def _name_of_path(path: str) -> str:
    return path.rpartition("/")[2]
