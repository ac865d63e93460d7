"""Keys of etcd: spans of ledger keys, and the names of the keys that belong to no ledger.

A span is a range of keys. Every answer of etcd reports the number of keys in the whole requested range. To
count them, the server walks its index to the end of the range, for every page of an answer. In etcd 3.4.23,
this takes half a microsecond per key. So readers split millions of keys into many short spans. Each Spark
task reads such spans too.

BookKeeper's driver creates ids in 128 buckets: an id is ``bucket << 56 | n``. So a range is first cut at
the edges of buckets, eight buckets at a time. This is usually enough. If a cluster creates its ids in a
different way, a span can still contain too many keys. Such a span is cut near the middle of its keys. The
program never holds a list of all keys in memory.

In Pulsar's layout, the keys are ZooKeeper's paths, and they contain the ids as digits. A span with too many
keys is cut where the next digit differs:

    /ledgers/00/0000/L0018               ids below 2^31 - 1
    /ledgers/000/0000/0000/0000/L0018    ids from 2^31 - 1 on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from auditor.keys import etcd
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.store import NO_TIME, Znode, tree_of

MAX_KEYS_PER_SPAN = 100_000
"""Largest number of keys in a span. A span with more keys is cut if that is possible."""

MIN_KEYS_PER_SPAN = 1_000
"""Smallest number of keys that is worth a task of its own."""

MAX_KEYS_PER_JOINED_SPAN = 10_000
"""Largest number of keys in a span that is joined from neighbouring spans of a part."""

MAX_SPAN_CUTS = 500
"""Largest number of cuts, to limit the work for unusual ids. It is enough for 50 million keys in a bucket.
"""

_NUMBER_LIMIT = 1 << 128
_UINT64_LIMIT = 1 << 64

KeyCounter = Callable[[Sequence[tuple[bytes, bytes]]], list[int]]
"""Function that returns the number of keys in each of several ranges."""

FirstKeyReader = Callable[[bytes, bytes], bytes | None]
"""Function that returns the first key of a range; None if the range is empty."""


class KeySpan(NamedTuple):
    """A range of keys from ``start`` on and before ``end``, and the number of keys in it."""

    start: bytes
    end: bytes
    keys: int


def make_ledger_key(etcd_scope: str, ledger_number: int) -> bytes:
    """Return the key of the ledger with the 128-bit number ``ledger_number``.

    ``etcd_scope`` is the prefix of all keys of the cluster. The upper half of the number is the scope of the
    ledger id, and the lower half is the id itself. Keys sort in the order of these numbers.

    >>> make_ledger_key("/bk", 1 << 64)
    b'/bk/ledgers/00000000-0000-0001-0000-000000000000'
    """
    return etcd.key_bytes(f"{etcd_scope}/{etcd.to_path(LedgerId.parse(f'{ledger_number:032x}'))}")


def ledger_spans(
    etcd_scope: str, count_keys: KeyCounter, read_first_key: FirstKeyReader, task_count: int
) -> list[KeySpan]:
    """Return key ranges (spans) that cover all keys below ``<etcd_scope>/ledgers/``, in order, without holes.

    Args:
        etcd_scope: the scope, which is the prefix of all keys of the cluster.
        count_keys: function that counts the keys in ranges.
        read_first_key: function that returns the first key in a range.
        task_count: number of tasks that will share the spans. With more tasks, the spans are smaller.
    """
    whole_span = KeySpan(*etcd.children(etcd_scope, etcd.LEDGERS_KEY), 0)
    edge_keys = [
        make_ledger_key(etcd_scope, ledger_number)
        for ledger_number in (*range(0, _UINT64_LIMIT // 2, 8 << 56), _UINT64_LIMIT // 2, _UINT64_LIMIT)
    ]
    cut_spans = _cut_at_edges(whole_span, edge_keys[1:], count_keys)
    keys_per_span = _keys_per_span(sum(span.keys for span in cut_spans), task_count)
    bucket_edge_keys = [
        make_ledger_key(etcd_scope, bucket_number << 56) for bucket_number in range(1, etcd.BUCKET_COUNT)
    ]
    uncut_spans: list[KeySpan] = []
    for span in cut_spans:
        uncut_spans += (
            _cut_at_edges(span, bucket_edge_keys, count_keys) if span.keys > keys_per_span else [span]
        )
    return _cut_to_size(
        uncut_spans, keys_per_span, lambda span: _halve_span(etcd_scope, span, count_keys, read_first_key)
    )


def _keys_per_span(total_keys: int, task_count: int) -> int:
    """Return the largest number of keys that a span should have.

    ``total_keys`` is the number of all keys. ``task_count`` is the number of tasks that share the spans.
    """
    return max(MIN_KEYS_PER_SPAN, min(MAX_KEYS_PER_SPAN, total_keys // (2 * max(1, task_count))))


def _cut_to_size(
    uncut_spans: list[KeySpan], keys_per_span: int, cut_span: Callable[[KeySpan], Sequence[KeySpan]]
) -> list[KeySpan]:
    """Cut key ranges (spans) until each has at most ``keys_per_span`` keys, or cannot be cut further.

    ``cut_span`` returns the spans into which a span is cut. It returns an empty sequence if the span cannot
    be cut.
    """
    uncut_spans, finished_spans, cut_count = uncut_spans[::-1], [], 0
    while uncut_spans:
        span = uncut_spans.pop()
        smaller_spans = cut_span(span) if span.keys > keys_per_span and cut_count < MAX_SPAN_CUTS else ()
        if smaller_spans:
            cut_count += 1
            uncut_spans += smaller_spans[::-1]
        else:
            finished_spans.append(span)
    return finished_spans


def _cut_at_edges(span: KeySpan, edge_keys: Sequence[bytes], count_keys: KeyCounter) -> list[KeySpan]:
    """Cut a span at those ``edge_keys`` that are inside it, and count the keys in each new span."""
    inner_edges = [
        span.start,
        *(edge_key for edge_key in edge_keys if span.start < edge_key < span.end),
        span.end,
    ]
    key_ranges = list(pairwise(inner_edges))
    return [
        KeySpan(*span_edges, keys)
        for span_edges, keys in zip(key_ranges, count_keys(key_ranges), strict=True)
    ]


def group_spans(all_spans: Sequence[KeySpan], group_count: int) -> list[list[KeySpan]]:
    """Group neighbouring spans into about ``group_count`` groups with similar numbers of keys.

    A span is a range of keys. Small spans that are neighbours in the same group become one span.

    >>> lots = group_spans([KeySpan(b"a", b"b", 4000), KeySpan(b"b", b"c", 0), KeySpan(b"c", b"d", 3000)], 2)
    >>> [[(span.start, span.end) for span in lot] for lot in lots]
    [[(b'a', b'b')], [(b'b', b'd')]]
    """
    total_keys = sum(span.keys for span in all_spans)
    keys_per_group = max(MIN_KEYS_PER_SPAN, -(-total_keys // max(1, group_count)))
    span_groups: list[list[KeySpan]] = [[]]
    group_key_count = 0
    for span in all_spans:
        if span_groups[-1] and group_key_count + span.keys // 2 >= keys_per_group:
            span_groups.append([])
            group_key_count = 0
        span_groups[-1].append(span)
        group_key_count += span.keys
    return [_join_small_spans(span_group) for span_group in span_groups]


def _join_small_spans(span_group: Sequence[KeySpan]) -> list[KeySpan]:
    joined_spans = [span_group[0]]
    for span in span_group[1:]:
        previous_span = joined_spans[-1]
        if previous_span.keys + span.keys <= MAX_KEYS_PER_JOINED_SPAN:
            joined_spans[-1] = KeySpan(previous_span.start, span.end, previous_span.keys + span.keys)
        else:
            joined_spans.append(span)
    return joined_spans


def _halve_span(
    etcd_scope: str, span: KeySpan, count_keys: KeyCounter, read_first_key: FirstKeyReader
) -> Sequence[KeySpan]:
    """Cut a span into two spans, each with about half of the keys and with at least one key.

    Return () if that is impossible. Every ledger key stands for a 128-bit number. To find where the left
    span ends, the function adds a power of two to the number of the span's first key. It uses the largest
    power with which the left span has at most half of the keys.
    """
    key = read_first_key(span.start, span.end)
    ledger = etcd.from_path(etcd.key_text(key)[len(etcd_scope) + 1 :]) if key is not None else None
    if key is None or ledger is None:
        return ()  # a key of unknown form: such a span is read in one go
    first_ledger_number = int(ledger.qualified_name, 16)

    def make_boundary_key(bit_count: int) -> bytes:
        return min(
            make_ledger_key(etcd_scope, min(first_ledger_number + (1 << bit_count), _NUMBER_LIMIT - 1)),
            span.end,
        )

    lower_bit_count, upper_bit_count, left_key_count = 0, 128, 1
    while upper_bit_count - lower_bit_count > 1:
        tried_bit_count = (lower_bit_count + upper_bit_count) // 2
        (tried_key_count,) = count_keys([(span.start, make_boundary_key(tried_bit_count))])
        if tried_key_count * 2 <= span.keys:
            lower_bit_count, left_key_count = tried_bit_count, tried_key_count
        else:
            upper_bit_count = tried_bit_count
    boundary_key = make_boundary_key(lower_bit_count)
    if not span.start < boundary_key < span.end:
        return ()
    return KeySpan(span.start, boundary_key, left_key_count), KeySpan(
        boundary_key, span.end, span.keys - left_key_count
    )


_DIGIT_BYTES = [bytes([key_byte]) for key_byte in range(ord("0"), ord("9") + 2)]
"""The ten digits as bytes, and the byte after "9"."""


def path_ledger_spans(
    start: bytes, end: bytes, count_keys: KeyCounter, read_first_key: FirstKeyReader, task_count: int
) -> list[KeySpan]:
    """Return spans that together cover all keys from ``start`` on and before ``end``.

    The spans are in order and without holes. The keys must be ZooKeeper's paths. `ledger_spans` explains
    the other arguments.
    """
    (total_keys,) = count_keys([(start, end)])

    def cut_span_at_digits(span: KeySpan) -> Sequence[KeySpan]:
        edge_keys = _digit_edges(span, read_first_key)
        return _cut_at_edges(span, edge_keys, count_keys) if edge_keys else ()

    return _cut_to_size(
        [KeySpan(start, end, total_keys)], _keys_per_span(total_keys, task_count), cut_span_at_digits
    )


def _digit_edges(span: KeySpan, read_first_key: FirstKeyReader) -> Sequence[bytes]:
    """Return keys at which a span can be cut, or [] if there are none.

    The function compares the span's first key with the span's end, and skips their common prefix. It tries
    the remaining digits of the first key, from left to right. For each digit, it cuts the key off before
    this digit. Then it appends each digit in turn, and also the byte after the digit 9. At the first
    position where this gives keys inside the span, it returns all of these keys.
    """
    key = read_first_key(span.start, span.end)
    if key is None:
        return []
    for byte_position in range(_common_prefix_length(key, span.end), len(key)):
        if key[byte_position : byte_position + 1].isdigit():
            edge_keys = [key[:byte_position] + next_digit for next_digit in _DIGIT_BYTES]
            inner_edges = [edge_key for edge_key in edge_keys if span.start < edge_key < span.end]
            if inner_edges:
                return inner_edges
    return []


def _common_prefix_length(key: bytes, other_key: bytes) -> int:
    """Return the number of leading bytes that two keys have in common."""
    for byte_position, (key_byte, other_key_byte) in enumerate(zip(key, other_key, strict=False)):
        if key_byte != other_key_byte:
            return byte_position
    return min(len(key), len(other_key))


NO_MARKS_NOTE = "etcd keeps no times and no under-replication marks"
NO_TIMES_NOTE = "etcd keeps no times"


def key_znode(
    path: str, data: bytes, create_revision: int, mod_revision: int, lease: int, version: int
) -> Znode:
    """Return an etcd key as a `Znode`. The version of this znode is ``mod_revision``.

    ``version`` is the number of writes of the key, as etcd counts them. The field `Znode.made` gets this
    number.

    >>> key_znode("/bk/layout", b"", 2, 9, 0, 3).version
    9
    """
    return Znode(path, data, create_revision, mod_revision, NO_TIME, NO_TIME, mod_revision, lease, version)


def is_ledger(root: str, path: str) -> bool:
    """Return whether a path in BookKeeper's own etcd layout belongs to the tree of ledgers.

    >>> is_ledger("/bk", "/bk/ledgers/x"), is_ledger("/bk", "/bk/ledgers")
    (True, False)
    """
    return path.startswith(f"{root}/{etcd.LEDGERS_KEY}/")


def nodes_by_name(root: str, keys: Iterable[Znode]) -> dict[str, Znode]:
    """Return a dict that maps ZooKeeper names (`auditor.keys.etcd.node_name`) to the keys of etcd.

    Keys that have no ZooKeeper name are omitted.

    >>> list(nodes_by_name("/bk", [key_znode("/bk/bookies/writable/b:3181", b"", 2, 2, 7, 1)]))
    ['available/b:3181']
    """
    nodes: dict[str, Znode] = {}
    for znode in keys:
        name = etcd.node_name(znode.path[len(root) + 1 :])
        if name is not None:
            nodes[name] = znode
    return nodes


def nodes_of_root(root: str, keys: Iterable[Znode]) -> dict[str, Znode]:
    """Return a dict that maps names below the root to the keys that belong to the cluster itself.

    Keys of ledgers, under-replication marks and locks are omitted. The keys must be ZooKeeper's paths.

    >>> names = ("available/b:3181", "00/0000/L0001")
    >>> list(nodes_of_root("/ledgers", [key_znode(f"/ledgers/{name}", b"", 2, 2, 7, 1) for name in names]))
    ['available/b:3181']
    """
    child_znodes = ((znode.path[len(root) + 1 :], znode) for znode in keys if len(znode.path) > len(root) + 1)
    return {name: znode for name, znode in child_znodes if tree_of(name) is None}
