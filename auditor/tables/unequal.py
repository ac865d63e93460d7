"""unequal: the pairs (ledger, bookie) whose expected and held entries differ.

Expected and held entries are canonical BP-34 groups. So a healthy replica takes one comparison of bytes and
has no row. All later queries use only the rows of this table.

    1. Readers get accounts from the run's tables: ledgers, availability, answers, journals. An account is
       the report of one source on the entries of replicas.
    2. Each account is packed in blocks, one per bucket of ledgers. Spark brings a bucket's blocks together.
    3. A bucket is sorted by ledger and bookie. The accounts of each (ledger, bookie) pair are combined.

A pair becomes a row only once its expected and held entries are known to differ. Only pairs with two
accounts of held entries are examined one by one (`auditor.tables.accounts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.model.batch_bounds import byte_slices
from auditor.model.columns import make_batch, make_schema
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import IndexState
from auditor.spark.batches import Rows
from auditor.spark.execution import BucketSource, Execution
from auditor.spark.table_files import TableFiles
from auditor.tables.accounts import (
    GROUP_COLUMNS,
    HeldEntries,
    merge_answer,
    merge_journal_tail,
    subtract_gone_entries,
)
from auditor.tables.replica_blocks import (
    BLOCK_SCHEMA,
    NO_ANSWER_TIME,
    Evidence,
    ReplicaBatch,
    from_blocks,
    to_blocks,
)

UNEQUAL = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("bookie_id", pa.string(), "the bookie"),
    (
        "expected",
        pa.binary(),
        "entries that the bookie should have, as groups of 24 bytes. null: the audit compares no "
        "entries of the ledger on this bookie",
    ),
    ("held", pa.binary(), "entries in the bookie's index, as groups of 24 bytes; null: there is no index"),
    (
        "index_state",
        pa.string(),
        "state of the index (see table availability): ok, cut, unreadable, limbo, not-indexed, misplaced, "
        "wrong-directory or absent",
    ),
    ("answered", pa.int64(), "time (ms since 1970, UTC) when the bookie listed its entries (rpc:)"),
    (
        "listed",
        pa.binary(),
        "entries in the column held that only the running bookie listed (rpc:); its disks were read "
        "completely and lack them. null: no such entries",
    ),
    ("gone", pa.binary(), "entries that the index locates in a missing entry log; they are not in held"),
    (
        "gone_state",
        pa.string(),
        "certainty of gone: agreed or once (see table gone_entries); null: gone is null",
    ),
)
"""The table ``unequal``.

``expected`` is null if the ledger is gone, cannot be judged, or should have no entries on that bookie.
``index_state`` is absent if there is no index. ``answered`` is the time at which the bookie listed its
entries; null if the row is judged by an index instead of the bookie's listing. ``listed`` has the entries
that the bookie listed and its index lacks, although the index was read completely.
"""

_ROWS_PER_BATCH = 1 << 16


class SourceFiles(NamedTuple):
    """The files of one table, the source (`Evidence`) of its replicas, and the reader of the files."""

    evidence: Evidence
    files: TableFiles
    read: Callable[[TableFiles], Iterator[ReplicaBatch]]


class BookieTrust(NamedTuple):
    """The bookies whose reports are corrected before the comparison.

    ``foreign_bookies`` belong to another cluster, so their entries never count as equal. The disks of
    ``read_bookies`` were read completely: their indexes prove which entries are missing, and their listings
    do not. A bookie of ``part_read_bookies`` has unknown entries. It may have answered about a ledger that is
    not closed. This ledger and bookie then have a row, even if expected and held entries are equal.
    """

    foreign_bookies: frozenset[str] = frozenset()
    read_bookies: frozenset[str] = frozenset()
    part_read_bookies: frozenset[str] = frozenset()


def find_unequal(
    execution: Execution, source_files: Sequence[SourceFiles], bookie_trust: BookieTrust, replicas: int = 0
) -> Rows:
    """Return the rows of `UNEQUAL`: pairs that differ. ``replicas`` is the number of replicas to compare."""
    sources = [
        BucketSource(source.files, partial(_pack_blocks, source.evidence, source.read))
        for source in source_files
    ]
    compare = partial(_compare_bucket, bookie_trust=bookie_trust)
    return execution.map_buckets(sources, BLOCK_SCHEMA, compare, UNEQUAL, replicas, GROUP_COLUMNS)


def _pack_blocks(
    evidence: Evidence, read: Callable[[TableFiles], Iterator[ReplicaBatch]], files: TableFiles, buckets: int
) -> Iterator[pa.RecordBatch]:
    return map(partial(to_blocks, evidence=evidence, bucket_count=buckets), read(files))


def _compare_bucket(blocks: Iterable[pa.RecordBatch], bookie_trust: BookieTrust) -> Iterator[pa.RecordBatch]:
    replicas, sources = from_blocks(blocks)
    if len(sources):
        yield from unequal_rows(replicas, sources, bookie_trust)


def unequal_rows(
    replicas: ReplicaBatch, sources: NDArray[np.int8], bookie_trust: BookieTrust
) -> Iterator[pa.RecordBatch]:
    """Return the rows of `UNEQUAL` for ``replicas``. ``sources`` has the `Evidence` of each replica.

    If the metadata or an index has the same replica twice, the replica makes two pairs, as in any join.
    """
    pairs = _pair_up(replicas, sources)
    has_groups = np.append(pc.binary_length(replicas.groups.values).to_numpy(zero_copy_only=False) > 0, False)
    has_expected_entries = (pairs.expected >= 0) & has_groups[replicas.groups.codes[pairs.expected]]
    # Journal entries do not count if the ledger is gone or the bookie should have none of its entries.
    has_tail = (pairs.tail >= 0) & (pairs.expected >= 0)
    pairs = pairs._replace(
        expected=np.where(has_expected_entries, pairs.expected, -1),
        tail=np.where(has_tail, pairs.tail, -1),
        missing_logs=np.where(pairs.indexed >= 0, pairs.missing_logs, -1),
    ).take_rows(has_expected_entries | has_tail | (pairs.indexed >= 0) | (pairs.answer >= 0))
    comparison = _Comparison(replicas, bookie_trust)
    needs_union = comparison.have_several_sources(pairs)
    yield from comparison.compare_one_source(pairs.take_rows(~needs_union))
    yield from comparison.compare_several_sources(pairs.take_rows(needs_union))


class _Pairs(NamedTuple):
    """The row numbers of the replicas in each (ledger, bookie) pair, by `Evidence`. -1 means no replica."""

    expected: Longs
    indexed: Longs
    answer: Longs
    tail: Longs
    missing_logs: Longs

    def take_rows(self, rows: slice | NDArray[np.bool_]) -> _Pairs:
        return _Pairs(*(evidence_rows[rows] for evidence_rows in self))


def _pair_up(replicas: ReplicaBatch, sources: NDArray[np.int8]) -> _Pairs:
    """Combine the accounts (reports) about the same ledger and bookie into pairs."""
    order, first_positions = _sort_by_pair(replicas, sources)
    sorted_sources = sources[order]
    counts = np.diff(np.append(first_positions, len(order)))
    second_positions = np.minimum(first_positions + 1, len(order) - 1)
    is_simple_pair = (counts == 2) & (sorted_sources[first_positions] == Evidence.EXPECTED)
    is_simple_pair &= (sorted_sources[second_positions] == Evidence.INDEX) | (
        sorted_sources[second_positions] == Evidence.ANSWER
    )
    expected_rows, source_rows = (
        order[first_positions[is_simple_pair]],
        order[second_positions[is_simple_pair]],
    )
    no_source = np.full(len(expected_rows), -1)
    is_answered = sources[source_rows] == Evidence.ANSWER
    simple_pairs = _Pairs(
        expected_rows,
        np.where(is_answered, -1, source_rows),
        np.where(is_answered, source_rows, -1),
        no_source,
        no_source,
    )
    return _Pairs(
        *map(
            np.append,
            simple_pairs,
            _cross_product(order, sorted_sources, first_positions[~is_simple_pair], counts[~is_simple_pair]),
        )
    )


def _cross_product(
    order: Longs, sorted_sources: NDArray[np.int8], first_positions: Longs, counts: Longs
) -> _Pairs:
    """Return all combinations of the reports about each ledger and bookie: one replica of each `Evidence`."""
    rows = np.repeat(first_positions - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(counts.sum())
    pair_numbers = np.repeat(np.arange(len(first_positions)), counts)
    source_counts = np.array(
        [
            np.bincount(pair_numbers[sorted_sources[rows] == source], minlength=len(first_positions))
            for source in Evidence
        ],
        np.int64,
    )
    source_starts = first_positions + np.cumsum(source_counts, axis=0) - source_counts
    counts_per_account = np.maximum(source_counts, 1)
    combination_counts = counts_per_account.prod(axis=0)
    pairs = np.repeat(np.arange(len(first_positions)), combination_counts)
    combination_number = np.arange(len(pairs)) - np.repeat(
        np.cumsum(combination_counts) - combination_counts, combination_counts
    )
    evidence_rows = []
    for source_kind in Evidence:
        source_row = (
            source_starts[source_kind][pairs] + combination_number % counts_per_account[source_kind][pairs]
        )
        combination_number //= counts_per_account[source_kind][pairs]
        has_source = source_counts[source_kind][pairs] > 0
        evidence_rows.append(np.where(has_source, order[np.minimum(source_row, len(order) - 1)], -1))
    return _Pairs(*evidence_rows)


def _sort_by_pair(replicas: ReplicaBatch, sources: NDArray[np.int8]) -> tuple[Longs, Longs]:
    """Return the order of replicas by ledger, bookie and source, and the positions where pairs begin."""
    smallest_ledger, bookies = int(replicas.ledgers.min()), max(1, len(replicas.bookies.values))
    ledger_id_span = int(replicas.ledgers.max()) - smallest_ledger + 1
    if ledger_id_span * bookies * len(Evidence) < 1 << 63 and not replicas.scopes.any():
        pair_key = (replicas.ledgers - smallest_ledger) * bookies + replicas.bookies.codes
        order = np.argsort(pair_key * len(Evidence) + sources)
        pair_key = pair_key[order]
        is_pair_start = pair_key[1:] != pair_key[:-1]
    else:
        sort_keys = (replicas.bookies.codes, replicas.scopes, replicas.ledgers)
        order = np.lexsort((sources, *sort_keys))
        is_pair_start = np.logical_or.reduce(
            [sort_key[order][1:] != sort_key[order][:-1] for sort_key in sort_keys]
        )
    return order, np.flatnonzero(np.append(True, is_pair_start))


class _Comparison:
    """Comparison of expected and held entries for the pairs of one bucket."""

    def __init__(self, replicas: ReplicaBatch, bookie_trust: BookieTrust) -> None:
        self._replicas = replicas
        self._trust = bookie_trust
        lengths = pc.binary_length(replicas.groups.values).to_numpy(zero_copy_only=False)
        self._lengths = np.append(lengths, 0).astype(np.int64)  # null has the last position
        bookie_names = [name.decode() for name in replicas.bookies.values.to_pylist()]
        self._is_foreign, self._is_read, self._is_part_read = (
            np.array([name in bookies for name in bookie_names], bool) for bookies in bookie_trust
        )
        states = replicas.states.values.to_pylist()
        self._is_ok, self._is_closed = (
            np.array([*(state == state_name.encode() for state in states), False])
            for state_name in (IndexState.OK, LedgerState.CLOSED)
        )

    def have_several_sources(self, pairs: _Pairs) -> NDArray[np.bool_]:
        """Return for each pair whether its accounts other than `Evidence.EXPECTED` must be united.

        Such a pair has several of these accounts, or a single one that is not an index.
        """
        is_read = self._is_read[self._replicas.bookies.codes[pairs.answer]]
        is_answered: NDArray[np.bool_] = (pairs.answer >= 0) & (is_read | (pairs.indexed >= 0))
        return is_answered | (pairs.tail >= 0) | (pairs.missing_logs >= 0)

    def compare_one_source(self, pairs: _Pairs) -> Iterator[pa.RecordBatch]:
        """Return the rows of pairs with at most one report other than `Evidence.EXPECTED` (the metadata)."""
        replicas, expected = self._replicas, pairs.expected
        held_rows = np.maximum(pairs.indexed, pairs.answer)
        bookie = replicas.bookies.codes[np.maximum(expected, held_rows)]
        is_healthy = (expected >= 0) & (held_rows >= 0) & self._is_ok[replicas.states.codes[held_rows]]
        is_healthy &= (
            replicas.groups.codes[expected] == replicas.groups.codes[held_rows]
        ) & ~self._is_foreign[bookie]
        has_open_end = self._is_part_read[bookie] & (replicas.answered[held_rows] != NO_ANSWER_TIME)
        has_open_end &= ~self._is_closed[replicas.states.codes[expected]]
        rows = np.flatnonzero(~is_healthy | has_open_end)
        for batch_slice in byte_slices(self._group_bytes(expected[rows], held_rows[rows]), _ROWS_PER_BATCH):
            batch_rows = rows[batch_slice]
            yield self._unequal_batch(expected[batch_rows], held_rows[batch_rows])

    def compare_several_sources(self, pairs: _Pairs) -> Iterator[pa.RecordBatch]:
        """Unite the reports on each pair for which `have_several_sources` is True, and return the rows."""
        replicas = self._replicas
        for batch_slice in byte_slices(self._group_bytes(*pairs), _ROWS_PER_BATCH):
            batch_pairs = pairs.take_rows(batch_slice)
            source_rows = np.max(np.stack(batch_pairs), axis=0)
            columns = self._key_columns(source_rows)
            columns["expected"] = replicas.groups.column(batch_pairs.expected, pa.binary())
            sources = zip(
                columns["bookie_id"].to_pylist(),
                columns["expected"].to_pylist(),
                self._is_closed[replicas.states.codes[batch_pairs.expected]].tolist(),
                self._held_entries(batch_pairs.indexed),
                self._held_entries(batch_pairs.answer),
                replicas.groups.column(batch_pairs.tail, pa.binary()).to_pylist(),
                replicas.groups.column(batch_pairs.missing_logs, pa.binary()).to_pylist(),
                replicas.states.column(batch_pairs.missing_logs, pa.string()).to_pylist(),
                strict=True,
            )
            held_entries = [self._unite_sources(*row) for row in sources]
            for name in HeldEntries._fields:
                columns[name] = [
                    getattr(held_entry, name) if held_entry else None for held_entry in held_entries
                ]
            batch = make_batch(UNEQUAL, len(held_entries), columns)
            yield batch.filter(pa.array([held_account is not None for held_account in held_entries]))

    def _group_bytes(self, *evidence_rows: Longs) -> Longs:
        """Return the total bytes of each pair's entry groups in these rows. Row -1 stands for no groups."""
        codes = self._replicas.groups.codes
        sizes: Longs = np.sum(
            [self._lengths[codes[source_rows]] * (source_rows >= 0) for source_rows in evidence_rows],
            axis=0,
        )
        return sizes

    def _unite_sources(
        self,
        bookie: str,
        expected: bytes | None,
        closed: bool,
        index: HeldEntries | None,
        answer: HeldEntries | None,
        tail: bytes | None,
        gone_groups: bytes | None,
        gone_state: str | None,
    ) -> HeldEntries | None:
        """Return the united held entries of a pair. None (no row): they equal the expected entries."""
        if index is not None and gone_groups is not None and gone_state is not None:
            index = subtract_gone_entries(index, gone_groups, gone_state)
        held_entries = index
        if answer is not None:
            held_entries = merge_answer(index, answer, bookie in self._trust.read_bookies)
            if index is not None:
                held_entries = held_entries._replace(gone=index.gone, gone_state=index.gone_state)
        if tail is not None:
            held_entries = merge_journal_tail(held_entries, tail)
        assert held_entries is not None
        is_foreign = bookie in self._trust.foreign_bookies
        has_ok_index_only = (
            held_entries.index_state == IndexState.OK and held_entries.listed is None and not is_foreign
        )
        if not has_ok_index_only or expected is None or held_entries.held != expected:
            return held_entries
        is_open = bookie in self._trust.part_read_bookies and held_entries.answered is not None and not closed
        return held_entries if is_open else None

    def _held_entries(self, evidence_rows: Longs) -> list[HeldEntries | None]:
        replicas = self._replicas
        rows = zip(
            evidence_rows.tolist(),
            replicas.groups.column(evidence_rows, pa.binary()).to_pylist(),
            replicas.states.column(evidence_rows, pa.string()).to_pylist(),
            replicas.answered[evidence_rows].tolist(),
            strict=True,
        )
        return [
            None
            if source_row < 0
            else HeldEntries(groups, state, None if answer_time == NO_ANSWER_TIME else answer_time)
            for source_row, groups, state, answer_time in rows
        ]

    def _key_columns(self, source_rows: Longs) -> dict[str, Any]:
        replicas = self._replicas
        return {
            "scope_id": replicas.scopes[source_rows],
            "ledger_id": replicas.ledgers[source_rows],
            "bookie_id": replicas.bookies.column(source_rows, pa.string()),
        }

    def _unequal_batch(self, expected: Longs, held_rows: Longs) -> pa.RecordBatch:
        replicas = self._replicas
        answer_times = np.where(held_rows < 0, NO_ANSWER_TIME, replicas.answered[held_rows])
        columns = self._key_columns(np.maximum(expected, held_rows)) | {
            "expected": replicas.groups.column(expected, pa.binary()),
            "held": replicas.groups.column(held_rows, pa.binary()),
            "index_state": replicas.states.column(held_rows, pa.string()).fill_null(IndexState.ABSENT),
            "answered": pa.array(answer_times, mask=answer_times == NO_ANSWER_TIME),
        }
        return make_batch(UNEQUAL, len(expected), columns)
