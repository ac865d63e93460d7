"""Sets of entry ids as BP-34 SequenceGroups. One value can contain many sets.

    byte  0            8           16      20
          first_start  last_start  size    period
          int64        int64       int32   int32       big-endian, 24 bytes per group

A group is a run of ``size`` consecutive entries that is repeated every ``period`` entries. The first run
starts at ``first_start``, the last one at ``last_start``. ``period`` is 0 for a single run. The layout is
that of the server's ``AvailabilityOfEntriesOfLedger``, without its 64-byte header (see
`auditor.codecs.availability.wire`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from auditor.errors import DecodeError

GROUP = np.dtype([("first_start", ">i8"), ("last_start", ">i8"), ("size", ">i4"), ("period", ">i4")])
"""One SequenceGroup, byte for byte."""

HEADER_STRUCT = struct.Struct(">ii56x")
"""The header before the groups in a value outside of this program: version 0, number of groups, zeros."""

Longs = NDArray[np.int64]
Groups = NDArray[np.void]
"""The groups of one set, of dtype `GROUP`."""


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """The groups of many sets of entries, one set after another.

    The fields are native int64 arrays. Set ``i`` consists of the groups ``offsets[i]:offsets[i + 1]``.
    Sizes may exceed int32 here, because a set can be one very long run.
    `auditor.codecs.availability.fold.fold` cuts such runs before they are written.

    >>> batch = GroupBatch.from_tuples([[(1, 10, 2, 3)], []])
    >>> [len(value) for value in batch.values()]
    [24, 0]
    """

    first: Longs
    last: Longs
    size: Longs
    period: Longs
    offsets: Longs

    @classmethod
    def from_tuples(cls, sets: list[list[tuple[int, int, int, int]]]) -> GroupBatch:
        """Build a small batch from tuples (first, last, size, period).

        >>> GroupBatch.from_tuples([[(4, 4, 1, 0)]]).first.tolist()
        [4]
        """
        group_rows = np.array([group for groups in sets for group in groups], np.int64).reshape(-1, 4)
        first, last, size, period = np.ascontiguousarray(group_rows.T)
        return cls(
            first, last, size, period, offsets_of(np.array([len(groups) for groups in sets], np.int64))
        )

    @classmethod
    def frombytes(cls, data: bytes | memoryview, byte_offsets: NDArray[np.int64]) -> GroupBatch:
        """Read sets that are stored one after another.

        Set i is ``data[byte_offsets[i]:byte_offsets[i + 1]]``. Arrow stores a binary column in this form.
        Raises `DecodeError` if the bytes of a set are not a whole number of groups.

        >>> batch = GroupBatch.from_tuples([[(1, 10, 2, 3)], [(4, 4, 1, 0)]])
        >>> GroupBatch.frombytes(batch.tobytes(), np.array([0, 24, 48])).values() == batch.values()
        True
        """
        byte_offsets = np.asarray(byte_offsets, np.int64)
        # A slice of an Arrow column keeps the buffer and the offsets of the whole.
        first_offset = int(byte_offsets[0])
        offsets, remaining_bytes = np.divmod(byte_offsets - first_offset, GROUP.itemsize)
        if remaining_bytes.any():
            offset = int(byte_offsets[remaining_bytes.argmax()])
            raise DecodeError("groups", offset, f"a set that ends inside a group of {GROUP.itemsize} bytes")
        if byte_offsets[-1] > len(data):
            raise DecodeError(
                "groups", len(data), f"{int(byte_offsets[-1])} bytes declared, {len(data)} present"
            )
        groups = np.frombuffer(data, GROUP, count=int(offsets[-1]), offset=first_offset)
        first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
        return cls(first, last, size, period, offsets)

    @classmethod
    def from_groups(cls, groups: Groups) -> GroupBatch:
        """Return a batch with one set, whose groups are ``groups``.

        >>> GroupBatch.from_groups(np.array([(1, 10, 2, 3)], GROUP)).period.tolist()
        [3]
        """
        return cls.frombytes(groups.tobytes(), np.array([0, groups.nbytes]))

    def groups(self) -> Groups:
        """Return the groups of all sets as one array of dtype `GROUP`.

        >>> GroupBatch.from_tuples([[(1, 10, 2, 3)]]).groups().tolist()
        [(1, 10, 2, 3)]
        """
        groups = np.empty(len(self.first), GROUP)
        groups["first_start"] = self.first
        groups["last_start"] = self.last
        groups["size"] = self.size
        groups["period"] = self.period
        return groups

    def tobytes(self) -> bytes:
        """Return all groups as bytes in the layout of `GROUP`. Set i starts at byte ``24 * offsets[i]``.

        >>> GroupBatch.from_tuples([[(1, 10, 2, 3)]]).tobytes().hex()
        '0000000000000001000000000000000a0000000200000003'
        """
        return self.groups().tobytes()

    def entries(self) -> Longs:
        """Return the number of entries in each group.

        >>> GroupBatch.from_tuples([[(0, 9, 2, 3), (20, 20, 5, 0)]]).entries().tolist()
        [8, 5]
        """
        return ((self.last - self.first) // np.maximum(self.period, 1) + 1) * self.size

    def values(self) -> list[bytes]:
        """Return one bytes value per set. For large batches, use `tobytes` and the offsets instead.

        >>> GroupBatch.from_tuples([[], [(4, 4, 1, 0)]]).values()[0]
        b''
        """
        group_bytes = self.tobytes()
        end_bytes = (self.offsets * GROUP.itemsize).tolist()
        return [group_bytes[start:end] for start, end in pairwise(end_bytes)]

    def merge(self, output_sets: NDArray[np.int64], set_count: int) -> GroupBatch:
        """Merge sets: input set i becomes part of output set ``output_sets[i]``.

        The groups of each output set are sorted by first entry. Callers use this to merge the sets of one
        bookie from all segments of a ledger. `auditor.codecs.availability.fold.fold` then joins the groups
        of each set.

        >>> GroupBatch.from_tuples([[(5, 5, 2, 0)], [(0, 0, 3, 0)]]).merge(np.array([1, 1]), 2).first.tolist()
        [0, 5]
        """
        output_set = np.repeat(np.asarray(output_sets, np.int64), np.diff(self.offsets))
        offsets = offsets_of(np.bincount(output_set, minlength=set_count))
        is_out_of_order = (output_set[1:] < output_set[:-1]) | (
            (output_set[1:] == output_set[:-1]) & (self.first[1:] < self.first[:-1])
        )
        # Segments come by their first entry, so most batches are in order, and sorting is what costs.
        if not is_out_of_order.any():
            return GroupBatch(self.first, self.last, self.size, self.period, offsets)
        entry_order = np.lexsort((self.first, output_set))
        return GroupBatch(
            self.first[entry_order],
            self.last[entry_order],
            self.size[entry_order],
            self.period[entry_order],
            offsets,
        )


def offsets_of(counts: NDArray[np.int64]) -> Longs:
    """Return the offsets of sets, computed from the number of groups in each set.

    The offsets are the start of each set, followed by the end of the last set.

    >>> offsets_of(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
