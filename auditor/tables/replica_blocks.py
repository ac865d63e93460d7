"""Replicas packed in blocks: Spark moves the many replicas of a block between tasks as one row.

The join of expected and held replicas reads every replica of a cluster. With one row per replica, creating,
sorting and comparing rows would take most of its time. So a row here is a block of replicas from the same
bucket of ledgers, with these columns:

    bucket, account      one number each; the account is the source of the report
    ledgers              8 bytes for each replica
    scopes, answered     8 bytes for each replica, or nothing if no replica has one
    bookies, groups,     three columns each: a code of 1, 2 or 4 bytes for each replica (-1 for null); the
    states               end of each value that a code stands for; the bytes of all these values

Each block has its own codes. `from_blocks` gives equal values the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs

CodeArray = NDArray[np.int32]


class Evidence(IntEnum):
    """The source of a block's replicas.

    The numbers of the sources give the order of reports about the same ledger and bookie.
    """

    EXPECTED = 0  # from the metadata: entries that should be held
    INDEX = 1
    ANSWER = 2  # from the bookie, if it was asked
    TAIL = 3  # from the bookie's journal
    MISSING_LOGS = 4  # entries that the index locates in missing entry logs


NO_ANSWER_TIME = np.iinfo(np.int64).min
"""Time of the answer of replicas about which the bookie was not asked."""

_NUMBER_FIELDS = ("ledgers", "scopes", "answered")
_CODED_FIELDS = ("bookies", "groups", "states")
BLOCK_SCHEMA = pa.schema(
    [
        pa.field("bucket", pa.int32()),
        pa.field("account", pa.int8()),
        *(pa.field(name, pa.binary()) for name in _NUMBER_FIELDS),
        *(
            pa.field(f"{name}_{buffer_name}", pa.binary())
            for name in _CODED_FIELDS
            for buffer_name in ("codes", "ends", "octets")
        ),
    ]
)


class CodedColumn(NamedTuple):
    """A dictionary-encoded column of bytes: one code per row (-1 for null), and the value of each code."""

    codes: CodeArray
    values: pa.Array

    @classmethod
    def from_column(cls, column: pa.ChunkedArray | pa.Array) -> CodedColumn:
        """Encode a column of strings or bytes.

        >>> CodedColumn.from_column(pa.array(["b", None, "b"])).codes.tolist()
        [0, -1, 0]
        """
        chunked_column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        if not pa.types.is_dictionary(chunked_column.type):
            chunked_column = chunked_column.dictionary_encode()
        if not chunked_column.num_chunks:
            return cls(np.zeros(0, np.int32), pa.array([], pa.binary()))
        chunks = chunked_column.unify_dictionaries().chunks
        codes = [
            encoded_chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for encoded_chunk in chunks
        ]
        return cls(np.concatenate(codes).astype(np.int32), chunks[0].dictionary.cast(pa.binary()))

    def take_rows(self, rows: Longs | NDArray[np.bool_]) -> CodedColumn:
        """Return the column with only the given rows."""
        return CodedColumn(self.codes[rows], self.values)

    def column(self, rows: Longs, arrow_type: pa.DataType) -> pa.Array:
        """Return the values of the given rows as an Arrow array. For the row number -1, the value is null."""
        codes = np.where(rows < 0, -1, np.append(self.codes, -1)[rows])
        return self.values.take(pa.array(codes, mask=codes < 0)).cast(arrow_type)


class ReplicaBatch(NamedTuple):
    """Replicas from the same source (`Evidence`), as columns.

    ``answered`` are the times of the bookies' answers. For expected replicas, ``states`` are the states of
    their ledgers.
    """

    ledgers: Longs
    scopes: Longs
    answered: Longs
    bookies: CodedColumn
    groups: CodedColumn
    states: CodedColumn

    def take_rows(self, rows: Longs | NDArray[np.bool_]) -> ReplicaBatch:
        """Return the batch with only the given rows."""
        column_subsets = (column.take_rows(rows) for column in (self.bookies, self.groups, self.states))
        return ReplicaBatch(self.ledgers[rows], self.scopes[rows], self.answered[rows], *column_subsets)


def to_blocks(replicas: ReplicaBatch, evidence: Evidence, bucket_count: int) -> pa.RecordBatch:
    """Pack replicas into blocks, one block for each bucket that has ledgers.

    A bucket has the ledgers with the same `ledger_buckets` number. ``evidence`` is the replicas' source.
    """
    bucket_column = ledger_buckets(replicas.ledgers, bucket_count)
    sorted_positions = np.argsort(bucket_column, kind="stable")
    replica_counts = np.bincount(bucket_column, minlength=bucket_count)
    bucket_ends = np.cumsum(replica_counts)
    ordered_replicas = replicas.take_rows(sorted_positions)
    bucket_numbers = np.flatnonzero(replica_counts).tolist()
    blocks = [
        _pack_block(
            ordered_replicas,
            slice(bucket_ends[bucket_number] - replica_counts[bucket_number], bucket_ends[bucket_number]),
        )
        for bucket_number in bucket_numbers
    ]
    block_columns = [
        pa.array(bucket_numbers, pa.int32()),
        pa.repeat(pa.scalar(evidence, pa.int8()), len(bucket_numbers)),
    ]
    block_columns += [
        pa.array([block[column_index] for block in blocks], pa.binary())
        for column_index in range(len(BLOCK_SCHEMA) - 2)
    ]
    return pa.RecordBatch.from_arrays(block_columns, schema=BLOCK_SCHEMA)


def ledger_buckets(ledgers: Longs, bucket_count: int) -> NDArray[np.uint16]:
    """Return the bucket of each ledger. A hash spreads evenly spaced ids over all buckets.

    >>> np.bincount(ledger_buckets(np.arange(0, 8000, 8), 4)).min() > 200
    np.True_
    """
    hashed_ids = ledgers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((hashed_ids >> np.uint64(33)) % np.uint64(bucket_count)).astype(np.uint16)


def from_blocks(blocks: Iterable[pa.RecordBatch]) -> tuple[ReplicaBatch, NDArray[np.int8]]:
    """Return the replicas of all blocks, and the source (`Evidence`) of each replica."""
    batches = list(blocks)
    block_rows = [
        {name: batch.column(name)[row].as_buffer() for name in BLOCK_SCHEMA.names[2:]}
        for batch in batches
        for row in range(batch.num_rows)
    ]
    replica_counts = [len(row["ledgers"]) // 8 for row in block_rows]
    evidence_codes = [
        evidence_code for batch in batches for evidence_code in batch.column("account").to_pylist()
    ]
    replicas = ReplicaBatch(
        _join_numbers(block_rows, "ledgers", replica_counts, 0),
        _join_numbers(block_rows, "scopes", replica_counts, 0),
        _join_numbers(block_rows, "answered", replica_counts, NO_ANSWER_TIME),
        *(_join_coded(block_rows, name) for name in _CODED_FIELDS),
    )
    return replicas, np.repeat(np.array(evidence_codes, np.int8), replica_counts)


def _pack_block(replicas: ReplicaBatch, rows: slice) -> list[bytes]:
    ledger_scopes, answer_times = replicas.scopes[rows], replicas.answered[rows]
    return [
        replicas.ledgers[rows].tobytes(),
        ledger_scopes.tobytes() if ledger_scopes.any() else b"",
        answer_times.tobytes() if (answer_times != NO_ANSWER_TIME).any() else b"",
        *(
            buffer
            for column in replicas[3:]
            for buffer in _pack_coded_column(column.codes[rows], column.values)
        ),
    ]


def _pack_coded_column(codes: CodeArray, values: pa.Array) -> tuple[bytes, bytes, bytes]:
    """Return codes that number only the values that occur, and the end offsets and bytes of these values."""
    is_used = np.zeros(len(values) + 1, bool)
    is_used[codes] = True  # null has the last position
    used_codes = np.cumsum(is_used, dtype=np.int32) - 1
    used_codes[-1] = -1
    used_values = values.filter(pa.array(is_used[:-1]))
    _, offsets, value_bytes = used_values.buffers()
    end_offsets = np.frombuffer(offsets, np.int32)[
        used_values.offset : used_values.offset + len(used_values) + 1
    ]
    code_type = np.min_scalar_type(-max(1, len(used_values)))  # signed, because null is -1
    return (
        used_codes[codes].astype(code_type).tobytes(),
        (end_offsets[1:] - end_offsets[0]).tobytes(),
        value_bytes[end_offsets[0] : end_offsets[-1]].to_pybytes(),
    )


def _join_numbers(
    block_rows: Sequence[dict[str, pa.Buffer]],
    field_name: str,
    replica_counts: Sequence[int],
    null_value: int,
) -> Longs:
    return _join_arrays(
        [
            np.frombuffer(row[field_name], np.int64) if len(row[field_name]) else np.full(count, null_value)
            for row, count in zip(block_rows, replica_counts, strict=True)
        ]
    )


def _join_coded(block_rows: Sequence[dict[str, pa.Buffer]], field_name: str) -> CodedColumn:
    value_ends, value_bytes = (
        [np.frombuffer(row[f"{field_name}_{buffer_name}"], number_type) for row in block_rows]
        for buffer_name, number_type in (("ends", np.int32), ("octets", np.uint8))
    )
    codes_by_block = [
        np.frombuffer(packed_codes, f"i{len(packed_codes) // count}")
        for packed_codes, count in (
            (row[f"{field_name}_codes"], len(row["ledgers"]) // 8) for row in block_rows
        )
    ]
    value_counts = [len(row_ends) for row_ends in value_ends]
    values_starts = np.cumsum([0, *(len(row_bytes) for row_bytes in value_bytes)])
    value_offsets = _join_arrays(
        [row_ends + values_start for row_ends, values_start in zip(value_ends, values_starts, strict=False)]
    )
    # 64-bit offsets: the groups of a bucket may take more than 2 GiB if ledgers have many gaps.
    joined_values = pa.Array.from_buffers(
        pa.large_binary(),
        len(value_offsets),
        [
            None,
            pa.py_buffer(np.append(0, value_offsets).astype(np.int64)),
            pa.py_buffer(_join_arrays(value_bytes)),
        ],
    )
    unique_values = joined_values.dictionary_encode()
    unified_codes = np.append(unique_values.indices.to_numpy(), -1).astype(np.int32)
    first_codes = np.cumsum([0, *value_counts])
    joined_codes = _join_arrays(codes_by_block)
    code_offsets = np.repeat(first_codes[:-1], [len(row_codes) for row_codes in codes_by_block])
    return CodedColumn(
        unified_codes[np.where(joined_codes < 0, len(joined_values), joined_codes + code_offsets)],
        unique_values.dictionary,
    )


def _join_arrays(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
