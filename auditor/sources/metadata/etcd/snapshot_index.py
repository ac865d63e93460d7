"""Index of an etcd snapshot: one pass on the driver that finds the last change of every key.

The database has one element for each change. The elements are sorted by time. Only the last change of a key
is current, but no task sees all changes. So the driver passes over the whole file once. It keeps 8 bytes for
each change of a ledger, and sorts them. From the result, it derives one bit for each change in the file. The
bit shows whether the change is current. Tasks get leaf pages together with these bits. The pass reads only
keys, and many pages at a time. For 3 million ledgers with two changes each, the pass takes 9 s of CPU time
and 150 MB of memory. In this case, the file has 1.9 GB and is mapped into memory.

The index also records damage. An unreadable page may contain later changes of any key that appears before
it. So only changes after the last damage are certainly current.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.etcd.bbolt import (
    Elements,
    Meta,
    PageSpan,
    bucket,
    elements,
    leaves,
    read_key_values,
    read_meta,
    read_windows,
)
from auditor.codecs.etcd.mvcc import (
    COMPACT_REVISION_KEYS,
    KEY_BUCKET,
    META_BUCKET,
    Revisions,
    decode_revision,
    key_spans,
    revisions,
)
from auditor.errors import DecodeError
from auditor.keys import etcd
from auditor.sources.metadata.other_roots import roots_of
from auditor.sources.metadata.store import MARK_ROOTS, tree_of

CHUNK_LEAVES = 4096
"""Number of leaf pages to decode at a time: 16 MB of a file with pages of 4 KiB."""

SORT_GROUPS = 8
"""Number of groups of changes to sort one after the other. Eight groups take a third of the memory."""

_UUID_LENGTH = 36
_DASH_OFFSETS = np.array([8, 13, 18, 23])
_DIGIT_OFFSETS = np.delete(np.arange(_UUID_LENGTH), _DASH_OFFSETS)
_NO_DIGIT = 16
_NIBBLE_OF_BYTE = np.full(256, _NO_DIGIT, np.uint8)
_NIBBLE_OF_BYTE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_OTHER_CHANGE, _LEDGER_WRITE, _LEDGER_DELETION = range(3)  # kinds of change


class KeyKind(Enum):
    """The kind of keys that are too many to keep by name. The index keeps a number for each instead."""

    UUIDS = "keys of ledgers in BookKeeper's own layout for etcd"
    PATH_KEYS = "keys of ledgers and marks that are ZooKeeper's paths"
    ALL_KEYS = "all keys"


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaf pages, the number of changes in each page, and a bit for each change (``last_changes``).

    The bit is true for the last change of a ledger's key, unless this change is a deletion. The first
    ``at_risk_count`` changes precede damaged pages, so newer changes of their keys may be lost.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    counts: NDArray[np.int64]
    last_changes: NDArray[np.bool_]
    at_risk_count: int


@dataclass(slots=True)
class EtcdSnapshotIndex:
    """The result of one pass over a snapshot, for the keys below a cluster's prefix (its scope).

    ``keys`` maps each key that belongs to no ledger, mark or lock to the position of its current value in the
    file. ``damage`` has the unreadable places in order. ``notes`` has reasons why ``revision`` may be wrong.
    """

    kind: KeyKind
    leaves: Leaves
    keys: dict[bytes, PageSpan]
    revision: int
    damage: list[DecodeError]
    notes: list[str]


@dataclass(slots=True)
class _PassState:
    """The data that `build_index` collects during its pass."""

    scope: bytes
    kind: KeyKind
    start: list[NDArray[np.int64]] = field(default_factory=list)
    end: list[NDArray[np.int64]] = field(default_factory=list)
    counts: list[NDArray[np.int64]] = field(default_factory=list)
    kinds: list[NDArray[np.uint8]] = field(default_factory=list)
    low: list[NDArray[np.uint64]] = field(default_factory=list)
    high: list[NDArray[np.uint64]] = field(default_factory=list)
    other_keys: dict[bytes, tuple[int, PageSpan, bool]] = field(default_factory=dict)
    leaf_count: int = 0
    changes: int = 0
    last_revision: tuple[int, int] = (0, -1)
    damage: list[DecodeError] = field(default_factory=list)
    leaves_at_risk: int = 0

    def record_damage(self, damage: DecodeError, leaves_before: int) -> None:
        """Record damage that may hide later changes of keys in the first ``leaves_before`` leaf pages."""
        self.damage.append(damage)
        self.leaves_at_risk = max(self.leaves_at_risk, leaves_before)


def build_index(data: memoryview, meta: Meta, scope: str, kind: KeyKind = KeyKind.UUIDS) -> EtcdSnapshotIndex:
    """Index a whole snapshot for the keys below ``scope``.

    Raises:
        DecodeError: the bucket that contains the keys cannot be found, so nothing at all is known.
    """
    bucket_root = bucket(data, meta, KEY_BUCKET)
    if bucket_root is None:
        raise DecodeError("etcd snapshot", 0, "the database has no bucket of keys, so it is not etcd's")
    pass_state = _PassState(etcd.key_bytes(scope), kind)
    pages = leaves(data, meta, bucket_root)
    while page_batch := list(islice(pages, CHUNK_LEAVES)):
        spans: list[PageSpan] = []
        for page in page_batch:
            if isinstance(page, DecodeError):
                pass_state.record_damage(page, pass_state.leaf_count + len(spans))
            else:
                spans.append(page)
        if spans:
            _add_leaves(data, pass_state, spans)
    return _make_index(data, meta, pass_state)


def _add_leaves(data: memoryview, pass_state: _PassState, spans: list[PageSpan]) -> None:
    leaf_starts, leaf_ends = np.array(spans, np.int64).T
    leaf_elements = elements(data, leaf_starts, leaf_ends)
    first_leaf = pass_state.leaf_count
    for leaf_number, damage in leaf_elements.error_by_leaf.items():
        pass_state.record_damage(damage, first_leaf + leaf_number + 1)
    key_revisions = revisions(data, leaf_elements)
    key_at, key_ends = key_spans(data, leaf_elements)
    is_valid = key_revisions.is_valid & (key_at >= 0)
    is_valid &= ~_find_unordered(pass_state, key_revisions, is_valid)
    for row in np.flatnonzero(~is_valid).tolist():
        reason = "not a change of a key, or older than the previous change"
        offset = int(leaf_elements.key_offsets[row])
        pass_state.record_damage(
            DecodeError("etcd snapshot", offset, reason), first_leaf + int(leaf_elements.leaf_index[row]) + 1
        )
    change_kinds = np.full(len(is_valid), _OTHER_CHANGE, np.uint8)
    rows = np.flatnonzero(is_valid)
    rows = rows[_keys_below(data, pass_state.scope, key_at[rows], key_ends[rows])]
    find_identities = (
        _uuid_identities
        if pass_state.kind is KeyKind.UUIDS
        else partial(_hash_keys, is_all=pass_state.kind is KeyKind.ALL_KEYS)
    )
    is_ledger, high_bits, low_bits = find_identities(data, pass_state.scope, key_at[rows], key_ends[rows])
    ledgers = rows[is_ledger]
    change_kinds[ledgers] = np.where(key_revisions.is_deleted[ledgers], _LEDGER_DELETION, _LEDGER_WRITE)
    # Copies, because a column view would keep the array of both halves alive.
    pass_state.low.append(low_bits.copy())
    pass_state.high.append(high_bits.copy() if high_bits.any() else np.empty(0, np.uint64))
    _add_other_keys(data, pass_state, leaf_elements, key_revisions, rows[~is_ledger], key_at, key_ends)
    pass_state.start.append(leaf_starts)
    pass_state.end.append(leaf_ends)
    pass_state.leaf_count += len(spans)
    pass_state.counts.append(np.bincount(leaf_elements.leaf_index, minlength=len(spans)))
    pass_state.kinds.append(change_kinds)
    pass_state.changes += len(change_kinds)


def _find_unordered(
    pass_state: _PassState, key_revisions: Revisions, is_valid: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return a mask of the valid changes that have no higher revision than the valid change before them."""
    is_unordered = np.zeros(len(is_valid), bool)
    rows = np.flatnonzero(is_valid)
    if rows.size:
        mains, subs = key_revisions.main_revisions[rows], key_revisions.sub_revisions[rows]
        earlier_mains = np.concatenate([[pass_state.last_revision[0]], mains[:-1]])
        earlier_subs = np.concatenate([[pass_state.last_revision[1]], subs[:-1]])
        is_unordered[rows] = (mains < earlier_mains) | ((mains == earlier_mains) & (subs <= earlier_subs))
        pass_state.last_revision = int(mains[-1]), int(subs[-1])
    return is_unordered


def _keys_below(
    data: memoryview, scope: bytes, key_at: NDArray[np.int64], key_ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return a mask of the keys that equal ``scope`` or are below it. /bk2 is not below /bk."""
    is_below_scope = np.zeros(len(key_at), bool)
    if not len(scope):
        return key_at >= 0
    rows = np.flatnonzero(key_ends - key_at >= len(scope))
    rows = rows[(read_windows(data, key_at[rows], len(scope)) == np.frombuffer(scope, np.uint8)).all(axis=1)]
    suffix_offsets = key_at[rows] + len(scope)
    file_bytes = np.frombuffer(data, np.uint8)
    is_root = suffix_offsets == key_ends[rows]
    is_below_scope[rows] = is_root | (file_bytes[np.where(is_root, 0, suffix_offsets)] == ord("/"))
    return is_below_scope


def _uuid_identities(
    data: memoryview, scope: bytes, key_at: NDArray[np.int64], key_ends: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a mask of the keys that are ledgers of BookKeeper's driver, and the two halves of their ids."""
    prefix = np.frombuffer(scope + f"/{etcd.LEDGERS_KEY}/".encode(), np.uint8)
    rows = np.flatnonzero(key_ends - key_at == len(prefix) + _UUID_LENGTH)
    names = read_windows(data, key_at[rows], len(prefix) + _UUID_LENGTH)
    digits = _NIBBLE_OF_BYTE[names[:, len(prefix) + _DIGIT_OFFSETS]]
    is_uuid = (names[:, : len(prefix)] == prefix).all(axis=1)
    is_uuid &= (names[:, len(prefix) + _DASH_OFFSETS] == ord("-")).all(axis=1) & (digits != _NO_DIGIT).all(
        axis=1
    )
    digits = digits[is_uuid]
    id_halves = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2]).view(">u8").astype(np.uint64)
    is_ledger = np.zeros(len(key_at), bool)
    is_ledger[rows[is_uuid]] = True
    return is_ledger, id_halves[:, 0], id_halves[:, 1]


def _hash_keys(
    data: memoryview, scope: bytes, key_at: NDArray[np.int64], key_ends: NDArray[np.int64], *, is_all: bool
) -> tuple[NDArray[np.bool_], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a mask of the keys that the index keeps only as numbers, and two hash values for each of them.

    `KeyKind` names these keys. If ``is_all`` is True, they are all keys below the scope. The probability
    that any two keys have both hash values in common is 2^-64.
    """
    file_bytes = np.frombuffer(data, np.uint8)
    is_below_scope = key_ends - key_at > len(scope) + 1
    if is_all:
        is_ledger = is_below_scope
    else:
        first_bytes = file_bytes[np.where(is_below_scope, key_at + len(scope) + 1, 0)]
        is_ledger = is_below_scope & (first_bytes >= ord("0")) & (first_bytes <= ord("9"))
        for mark_root in MARK_ROOTS:
            prefix = np.frombuffer(b"/" + mark_root.encode() + b"/", np.uint8)
            rows = np.flatnonzero(key_ends - key_at - len(scope) > len(prefix))
            prefix_matches = read_windows(data, key_at[rows] + len(scope), len(prefix)) == prefix
            is_ledger[rows] |= prefix_matches.all(axis=1)
    key_starts, lengths = key_at[is_ledger], (key_ends - key_at)[is_ledger]
    high_bits, low_bits = np.zeros(len(key_starts), np.uint64), np.zeros(len(key_starts), np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        names = read_windows(data, key_starts[rows], length)
        # Each half is the sum of bytes times random factors. A fixed seed gives every run the same hashes.
        factors = np.random.default_rng(length).integers(0, 2**64, (2, length), np.uint64, endpoint=False)
        for hash_half, byte_factors in ((high_bits, factors[0]), (low_bits, factors[1])):
            for byte_position in range(length):
                hash_half[rows] += names[:, byte_position].astype(np.uint64) * byte_factors[byte_position]
    return is_ledger, high_bits, low_bits


def _add_other_keys(
    data: memoryview,
    pass_state: _PassState,
    leaf_elements: Elements,
    key_revisions: Revisions,
    rows: NDArray[np.int64],
    key_at: NDArray[np.int64],
    key_ends: NDArray[np.int64],
) -> None:
    """Record the last change of each key that does not belong to a ledger.

    There are few such keys, but some of them change often. For example, every new ledger changes one of 128
    counters. So only the last change of each key is decoded.
    """
    lengths = key_ends[rows] - key_at[rows]
    for length in np.unique(lengths).tolist():
        rows_of_length = rows[lengths == length][::-1]
        names = read_windows(data, key_at[rows_of_length], length).view(f"S{length}").ravel()
        for row in rows_of_length[np.unique(names, return_index=True)[1]].tolist():
            key = bytes(data[int(key_at[row]) : int(key_ends[row])])
            span = PageSpan(int(leaf_elements.value_offsets[row]), int(leaf_elements.value_ends[row]))
            pass_state.other_keys[key] = (pass_state.changes + row, span, bool(key_revisions.is_deleted[row]))


def _make_index(data: memoryview, meta: Meta, pass_state: _PassState) -> EtcdSnapshotIndex:
    change_kinds = np.concatenate([*pass_state.kinds, np.empty(0, np.uint8)])
    counts = np.concatenate([*pass_state.counts, np.empty(0, np.int64)])
    last_changes = np.zeros(len(change_kinds), bool)
    last_changes[change_kinds != _OTHER_CHANGE] = _find_last_changes(pass_state)
    last_changes &= change_kinds == _LEDGER_WRITE
    keys: dict[bytes, PageSpan] = {}
    for key, (change_number, span, is_deleted) in pass_state.other_keys.items():
        if is_deleted:
            continue
        if _is_in_tree(key, pass_state):
            last_changes[change_number] = True  # not a ledger's key; `classify` decides later
        else:
            keys[key] = span
    pages = Leaves(
        np.concatenate([*pass_state.start, np.empty(0, np.int64)]),
        np.concatenate([*pass_state.end, np.empty(0, np.int64)]),
        counts,
        last_changes,
        int(counts[: pass_state.leaves_at_risk].sum()),
    )
    notes: list[str] = []
    revision = max([pass_state.last_revision[0], *_compacted_revisions(data, meta, notes)])
    return EtcdSnapshotIndex(pass_state.kind, pages, keys, revision, pass_state.damage, notes)


def _is_in_tree(key: bytes, pass_state: _PassState) -> bool:
    """Return whether a key that is not at a ledger's path belongs to the ledgers, marks or locks."""
    if pass_state.kind is KeyKind.UUIDS:
        return key.startswith(pass_state.scope + f"/{etcd.LEDGERS_KEY}/".encode())
    relative_path = etcd.key_text(key[len(pass_state.scope) + 1 :])
    return pass_state.kind is KeyKind.PATH_KEYS and relative_path != "" and tree_of(relative_path) is not None


def _find_last_changes(pass_state: _PassState) -> NDArray[np.bool_]:
    """Return a mask of the ledger changes: True for the last change of each ledger."""
    starts = np.cumsum([0, *(len(id_bits) for id_bits in pass_state.low)])
    is_last_change = np.zeros(starts[-1], bool)
    for sort_group in range(SORT_GROUPS if len(is_last_change) else 0):
        picks = [np.flatnonzero(halves % SORT_GROUPS == sort_group) for halves in pass_state.low]
        rows = np.concatenate([start + picked for start, picked in zip(starts, picks, strict=False)])
        low_bits = np.concatenate([bits[picked] for bits, picked in zip(pass_state.low, picks, strict=True)])
        high_bits = np.concatenate(
            [_high_halves(halves, picked) for halves, picked in zip(pass_state.high, picks, strict=True)]
        )
        sort_order = np.lexsort((low_bits, high_bits))
        low_bits, high_bits = low_bits[sort_order], high_bits[sort_order]
        is_last = np.ones(len(rows), bool)
        is_last[:-1] = (low_bits[1:] != low_bits[:-1]) | (high_bits[1:] != high_bits[:-1])
        is_last_change[rows[sort_order[is_last]]] = True
    return is_last_change


def _high_halves(id_bits: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the upper 64 bits of the ids at ``rows``: all 0 if ``id_bits`` is empty (64-bit ids)."""
    return id_bits[rows] if len(id_bits) else np.zeros(len(rows), np.uint64)


def _compacted_revisions(data: memoryview, meta: Meta, notes: list[str]) -> Iterator[int]:
    """Yield the revisions of the last compactions, lower bounds of the store's. Add errors to ``notes``."""
    try:
        bucket_root = bucket(data, meta, META_BUCKET)
        for key, stored_value in read_key_values(data, meta, bucket_root) if bucket_root else ():
            if key in COMPACT_REVISION_KEYS:
                yield decode_revision(stored_value)[0]
    except DecodeError as damage:
        notes.append(f"its revision may be later, because the last compaction cannot be read: {damage}")


def find_roots(data: memoryview, markers: tuple[str, ...]) -> list[str]:
    """Return the sorted roots of the clusters in a snapshot. Unreadable pages are skipped.

    ``markers`` are names of keys that a cluster has directly below its root.
    """
    meta = read_meta(data)
    bucket_root = bucket(data, meta, KEY_BUCKET)
    if bucket_root is None:
        return []
    presence: dict[bytes, bool] = {}
    pages = leaves(data, meta, bucket_root)
    while page_batch := list(islice(pages, CHUNK_LEAVES)):
        spans: list[PageSpan] = [page for page in page_batch if not isinstance(page, DecodeError)]
        if spans:
            _add_markers(data, spans, markers, presence)
    return roots_of(sorted(etcd.key_text(key) for key, is_present in presence.items() if is_present), markers)


def _add_markers(
    data: memoryview, spans: list[PageSpan], markers: tuple[str, ...], presence: dict[bytes, bool]
) -> None:
    """Record in ``presence`` whether each marker key exists. ``spans`` are pages in the order of time."""
    leaf_starts, leaf_ends = np.array(spans, np.int64).T
    leaf_elements = elements(data, leaf_starts, leaf_ends)
    is_deleted = revisions(data, leaf_elements).is_deleted
    key_at, key_ends = key_spans(data, leaf_elements)
    rows = []
    for marker in markers:
        suffix_bytes = np.frombuffer(f"/{marker}".encode(), np.uint8)
        candidate_rows = np.flatnonzero((key_at >= 0) & (key_ends - key_at > len(suffix_bytes)))
        name_endings = read_windows(data, key_ends[candidate_rows] - len(suffix_bytes), len(suffix_bytes))
        rows += candidate_rows[(name_endings == suffix_bytes).all(axis=1)].tolist()
    for row in sorted(rows):
        presence[bytes(data[int(key_at[row]) : int(key_ends[row])])] = not is_deleted[row]
