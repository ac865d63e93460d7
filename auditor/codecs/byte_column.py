"""Columns of many byte values in one buffer, without a Python object per value.

Each value is given by its start and end offset. A batch from a metadata store has twenty thousand values.
Code that reads all values uses the arrays. Code that reads one value uses the column like a list.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs


@dataclass(frozen=True, slots=True, eq=False)
class ByteColumn(Sequence[bytes]):
    """A column of byte values. Value i is ``octets[starts[i]:ends[i]]``.

    >>> column = ByteColumn.from_values([b"ab", b"", b"c"])
    >>> list(column), column[2], column.take_rows(np.array([2, 0])).arrow().to_pylist()
    ([b'ab', b'', b'c'], b'c', [b'c', b'ab'])
    """

    octets: NDArray[np.uint8]
    starts: Longs
    ends: Longs

    @classmethod
    def from_values(cls, values: Sequence[bytes]) -> ByteColumn:
        """Return a column of these values. If ``values`` is already a column, return it without a copy."""
        if isinstance(values, ByteColumn):
            return values
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        ends = np.cumsum(lengths)
        return cls(np.frombuffer(b"".join(values), np.uint8), ends - lengths, ends)

    def take_rows(self, rows: NDArray[np.int64]) -> ByteColumn:
        """Return a column of the values in ``rows``, in that order."""
        return ByteColumn(self.octets, self.starts[rows], self.ends[rows])

    def arrow(self) -> pa.BinaryArray:
        """Return the values as an Arrow column.

        The values are copied, so that the Arrow column does not keep the whole buffer in memory.
        """
        return arrow_column(self.octets, self.starts, self.ends).cast(pa.binary())

    def are_members(self, members: Collection[bytes]) -> NDArray[np.bool_]:
        """Return a mask of the values that are among ``members``."""
        is_member = pc.is_in(self.arrow(), value_set=pa.array(members, pa.binary()))
        return np.asarray(is_member).astype(np.bool_)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> ByteColumn: ...
    def __getitem__(self, index: int | slice) -> bytes | ByteColumn:
        if isinstance(index, slice):
            return ByteColumn(self.octets, self.starts[index], self.ends[index])
        return self.octets[self.starts[index] : self.ends[index]].tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class TextColumn(Sequence[str]):
    """A column of texts in UTF-8. Invalid bytes are replaced when a text is read.

    >>> column = TextColumn.from_values(["/a", "/ä"])
    >>> list(column), column.octets.ends.tolist()
    (['/a', '/ä'], [2, 5])
    """

    octets: ByteColumn

    @classmethod
    def from_values(cls, values: Sequence[str]) -> TextColumn:
        """Return a column of these texts. If ``values`` is already a column, return it without a copy."""
        if isinstance(values, TextColumn):
            return values
        joined_text = "".join(values)
        if not joined_text.isascii():
            return cls(ByteColumn.from_values([value.encode() for value in values]))
        # Of ASCII every character is a byte.
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        starts = np.append(0, ends)[: len(ends)]
        return cls(ByteColumn(np.frombuffer(joined_text.encode(), np.uint8), starts, ends))

    def __len__(self) -> int:
        return len(self.octets)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> TextColumn: ...
    def __getitem__(self, index: int | slice) -> str | TextColumn:
        if isinstance(index, slice):
            return TextColumn(self.octets[index])
        return self.octets[index].decode("utf-8", "replace")


def binary_array(data: bytes, offsets: Longs, data_type: pa.DataType | None = None) -> pa.Array:
    """Return an Arrow column over values that are stored one after another in ``data``.

    Its type is ``data_type``, or binary by default.

    >>> binary_array(b"abc", np.array([0, 1, 1, 3])).to_pylist()
    [b'a', b'', b'bc']
    """
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(data_type or pa.binary(), len(offsets) - 1, buffers)


def arrow_column(octets: NDArray[np.uint8], starts: Longs, ends: Longs) -> pa.LargeBinaryArray:
    """Return an Arrow column that contains a copy of the bytes between each start and its end."""
    count = len(starts)
    if not count:
        return pa.array([], pa.large_binary())
    # Value, gap, value, gap: one array over the bytes where they are, of which each second item is taken.
    value_bounds = np.stack([starts, ends], axis=1).ravel()
    value_gap_column = pa.Array.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(value_bounds), pa.py_buffer(octets)]
    )
    return value_gap_column.take(pa.array(np.arange(0, 2 * count, 2)))


def read_windows(octets: NDArray[np.uint8], offsets: Longs, width: int) -> NDArray[np.void]:
    """Return ``width`` bytes from each offset on, one item per offset. All must lie inside the buffer.

    >>> read_windows(np.frombuffer(b"abcdef", np.uint8), np.array([0, 3]), 3).tolist()
    [b'abc', b'def']
    """
    if not len(offsets):
        return np.empty(0, f"V{width}")
    windows_at_all_offsets = np.ndarray((len(octets) - width + 1,), f"V{width}", octets, strides=(1,))
    window_rows: NDArray[np.void] = windows_at_all_offsets[offsets]
    return window_rows


def have_prefix(octets: NDArray[np.uint8], offsets: Longs, prefix: bytes) -> NDArray[np.bool_]:
    """Return, for each offset, whether the bytes there begin with ``prefix``.

    ``prefix`` must not contain zero bytes.

    >>> have_prefix(np.frombuffer(b"ab-abc", np.uint8), np.array([0, 3, 5]), b"ab").tolist()
    [True, True, False]
    """
    has_prefix = offsets <= len(octets) - len(prefix)
    rows_in_bounds = np.flatnonzero(has_prefix)
    has_prefix[rows_in_bounds] = (
        read_windows(octets, offsets[rows_in_bounds], len(prefix)).view(f"S{len(prefix)}") == prefix
    )
    return has_prefix
