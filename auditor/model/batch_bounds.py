"""Limits on the rows and bytes that one batch holds in memory.

A limit on rows alone would not limit memory. The BP-34 groups (ranges of entry ids) of a healthy replica
take 24 bytes. The groups of a replica that lacks entries in many places can take a megabyte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

MAX_BATCH_BYTES = 16 << 20
"""Largest size of the columns of one batch, in bytes; processing makes two copies of the batch.

A larger row makes a batch by itself. With 2,200 replicas of 1 MB a Python process took 540 MiB with a bound
of 32 MB, and 760 MiB with one of 64 MB.
"""


def column_bytes(file: pq.FileMetaData, group_number: int, columns: Sequence[str]) -> int:
    """Return the number of bytes that some columns of a row group take in memory.

    In a dictionary-encoded column, each distinct value counts once. This is the size in memory if the
    column is read as dictionary codes. Pass only files that this run wrote: if the footer's data about a
    column is damaged, Arrow ends the process.

    Args:
        file: the file's metadata.
        group_number: number of the row group.
        columns: names in the form that `pyarrow.parquet` accepts. Each names a column or a part of a
            column.
    """
    row_group = file.row_group(group_number)
    chunks = map(row_group.column, range(row_group.num_columns))
    names_and_prefixes = tuple(columns), tuple(f"{name}." for name in columns)
    return sum(
        int(chunk.total_uncompressed_size)
        for chunk in chunks
        if chunk.path_in_schema in names_and_prefixes[0]
        or chunk.path_in_schema.startswith(names_and_prefixes[1])
    )


def batch_row_groups(
    file: pq.FileMetaData, group_numbers: Iterable[int], columns: Sequence[str], max_rows: int
) -> Iterator[list[int]]:
    """Yield batches of row groups. A batch is a list of the numbers of its row groups.

    A batch ends when it has at least ``max_rows`` rows. It also ends if the next row group would make its
    ``columns`` larger than `MAX_BATCH_BYTES`.
    """
    batch: list[int] = []
    batch_row_count = batch_bytes = 0
    for group_number in group_numbers:
        group_bytes = column_bytes(file, group_number, columns)
        if batch and batch_bytes + group_bytes > MAX_BATCH_BYTES:
            yield batch
            batch, batch_row_count, batch_bytes = [], 0, 0
        batch.append(group_number)
        batch_row_count, batch_bytes = (
            batch_row_count + file.row_group(group_number).num_rows,
            batch_bytes + group_bytes,
        )
        if batch_row_count >= max_rows:
            yield batch
            batch, batch_row_count, batch_bytes = [], 0, 0
    if batch:
        yield batch


def batch_rows(row_count: int, byte_count: int, max_rows: int) -> int:
    """Return how many rows to put in one batch, if ``row_count`` rows take ``byte_count`` bytes in total."""
    return max(1, min(max_rows, MAX_BATCH_BYTES * row_count // max(1, byte_count)))


def whole_batch_rows(file: pq.FileMetaData, group_number: int, max_rows: int) -> int:
    """Return how many rows of a row group to put in one batch (`batch_rows`), with all columns.

    The file may be damaged. The function does not read the footer's data about single columns, because
    Arrow ends the process if such data is damaged.
    """
    row_group = file.row_group(group_number)
    return batch_rows(row_group.num_rows, row_group.total_byte_size, max_rows)


def byte_slices(row_sizes: NDArray[np.int64], max_rows: int) -> Iterator[slice]:
    """Yield slices of consecutive rows, each with at most ``max_rows`` rows and `MAX_BATCH_BYTES` bytes.

    ``row_sizes`` are the sizes of the rows in bytes. A row that is larger than the limit is a slice of its
    own.

    >>> import numpy as np
    >>> list(byte_slices(np.array([12 << 20, 4 << 20, 1, 90 << 20]), max_rows=100))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    end_bytes = row_sizes.cumsum()
    start, bytes_before = 0, 0
    while start < len(end_bytes):
        fitting_end = int(end_bytes.searchsorted(bytes_before + MAX_BATCH_BYTES, "right"))
        stop = max(start + 1, min(fitting_end, start + max_rows))
        yield slice(start, stop)
        start, bytes_before = stop, int(end_bytes[stop - 1])
