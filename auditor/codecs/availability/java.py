"""Reimplementation of the server's decoder of BP-34 values.

The server's class is ``AvailabilityOfEntriesOfLedger`` (4.17.2 and 4.18.0).

The audit bases no result on this module. The module shows what BookKeeper's own tools would answer. The
class has these oddities:

    accepts     a negative version, a negative count, bytes after the last group; groups that are out of
                order (it sorts them), groups with the same start (it keeps the last one), groups of size 0
                or below, groups that end before they start
    rejects     fewer than 64 bytes, a version above 0, fewer groups than the count, a group that would
                cause a division by a period of 0

To decide whether an entry is present, the class uses one group. This is the group with the greatest start at
or before the entry. After the first gap of two entries or more, ``unavailable`` reports every later entry as
unavailable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from auditor.codecs.availability.groups import GROUP, HEADER_STRUCT
from auditor.errors import CoverageLimitError, DecodeError

_FORMAT_NAME = "availability"
_MAX_LONG = 2**63 - 1
Group = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class JavaAvailability:
    """An availability value that gives the same results as the server's ``AvailabilityOfEntriesOfLedger``.

    ``groups`` are tuples (first, last, size, period), sorted by first.

    >>> JavaAvailability.from_entries([1, 2, 4, 5]).groups
    ((1, 1, 2, 0), (4, 4, 2, 0))
    """

    groups: tuple[Group, ...]

    @classmethod
    def from_entries(cls, entries: Iterable[int]) -> JavaAvailability:
        """Return the value that the server's constructor builds from entries: one group per run.

        The entries may be in any order. The server's constructor drops entry -1.

        >>> JavaAvailability.from_entries([5, 3, -1, 3]).groups
        ((3, 3, 1, 0), (5, 5, 1, 0))
        """
        groups: dict[int, Group] = {}
        # The class takes a start of -1 for "no run yet", so that a run from -1 on is lost.
        start, size = -1, 0
        for entry in entries:
            if start == -1:
                start, size = entry, 1
            elif start <= entry < start + size:
                continue
            elif entry == start + size:
                size += 1
            else:
                groups[start] = (start, start, size, 0)
                start, size = entry, 1
        if start != -1:
            groups[start] = (start, start, size, 0)
        return cls(tuple(sorted(groups.values())))

    @classmethod
    def parse(cls, data: bytes) -> JavaAvailability:
        """Read a value. Raises `DecodeError` where ``AvailabilityOfEntriesOfLedger`` raises an exception.

        >>> JavaAvailability.parse(bytes(64)).total
        0
        """
        if len(data) < HEADER_STRUCT.size:
            raise DecodeError(
                _FORMAT_NAME, len(data), f"only {len(data)} of {HEADER_STRUCT.size} header bytes"
            )
        version, count = HEADER_STRUCT.unpack_from(data)
        if version > 0:
            raise DecodeError(_FORMAT_NAME, 0, f"version {version} is newer than 0")
        count = max(count, 0)
        if HEADER_STRUCT.size + count * GROUP.itemsize > len(data):
            raise DecodeError(_FORMAT_NAME, len(data), f"{count} groups declared, but the data ends earlier")
        declared_groups: list[Group] = np.frombuffer(data, GROUP, count, HEADER_STRUCT.size).tolist()
        for group_number, (first, last, _, period) in enumerate(declared_groups):
            if first != last and not period:
                group_offset = HEADER_STRUCT.size + group_number * GROUP.itemsize
                raise DecodeError(_FORMAT_NAME, group_offset, "a group that repeats with a period of 0")
        # The class keeps a TreeMap by first entry: sorted, and of equal keys the last one stays.
        return cls(tuple(sorted({group[0]: group for group in declared_groups}.values())))

    @property
    def total(self) -> int:
        """Return the number of entries that ``AvailabilityOfEntriesOfLedger`` reports.

        The server counts overlapping entries twice, and counts invalid groups negatively.
        """
        return _wrap_to_long(sum(map(_entries_in, self.groups)))

    def contains(self, entry: int) -> bool:
        """Return the answer of ``isEntryAvailable``.

        >>> JavaAvailability(((0, 10, 4, 2),)).contains(14)
        True
        """
        group_number = self._last_group_before(entry)
        return group_number >= 0 and _group_contains(self.groups[group_number], entry)

    def entries(self, max_entries: int) -> list[int]:
        """Return every entry for which ``isEntryAvailable`` is true, in ascending order.

        Raises `CoverageLimitError` if there are more than ``max_entries`` entries, or if one group has more
        than ``max_entries`` runs.

        >>> JavaAvailability(((0, 10, 4, 5), (7, 7, 2, 0))).entries(100)
        [0, 1, 2, 3, 5, 6, 7, 8]
        """
        available_entries: list[int] = []
        next_firsts = [*(group[0] for group in self.groups), _MAX_LONG + 1][1:]
        for group, next_group_first in zip(self.groups, next_firsts, strict=True):
            first, _, size, period = group
            end_entry = min(_group_end(group) + 1, next_group_first)
            # Without a period there is one run. The class's remainder does not see a period's sign.
            run_distance = abs(period) or max(end_entry - first, 1)
            runs = range(first, end_entry, run_distance)
            if len(runs) > max_entries:
                raise CoverageLimitError(f"too many runs of entries to list: more than {max_entries}")
            for start in runs:
                run = range(start, min(start + min(size, run_distance), end_entry))
                if len(available_entries) + len(run) > max_entries:
                    raise CoverageLimitError(f"too many entries to list: more than {max_entries}")
                available_entries += run
        return available_entries

    def unavailable(self, start: int, last: int, entries: Iterable[int]) -> list[int]:
        """Return the answer of ``getUnavailableEntries`` for those ``entries`` that are in ``start..last``.

        >>> JavaAvailability.from_entries([1, 5]).unavailable(0, 6, range(7))
        [0, 2, 3, 4, 5, 6]
        """
        entries = set(entries)
        missing_entries: list[int] = []
        current_group: Group | None = None
        is_exhausted = False
        for entry in range(start, last + 1):
            is_available = False
            if not is_exhausted:
                if current_group is None or entry > _group_end(current_group):
                    group_number = self._last_group_before(entry)
                    current_group = self.groups[group_number] if group_number >= 0 else None
                    # The class stops looking here, although later groups may hold what is wanted.
                    is_exhausted = (
                        not self.groups if current_group is None else entry > _group_end(current_group)
                    )
                is_available = (
                    not is_exhausted and current_group is not None and _group_contains(current_group, entry)
                )
            if entry in entries and not is_available:
                missing_entries.append(entry)
        return missing_entries

    def tobytes(self) -> bytes:
        """Return the bytes of ``serializeStateOfEntriesOfLedger``: version 0, then the unchanged groups.

        >>> JavaAvailability.from_entries([]).tobytes() == bytes(64)
        True
        """
        return HEADER_STRUCT.pack(0, len(self.groups)) + np.array(list(self.groups), GROUP).tobytes()

    def _last_group_before(self, entry: int) -> int:
        return bisect_right(self.groups, entry, key=lambda group: group[0]) - 1


def _entries_in(group: Group) -> int:
    first, last, size, period = group
    if first == last:
        return size
    distance_to_last = _wrap_to_long(last - first)
    repeat_count = abs(distance_to_last) // abs(period)
    return _wrap_to_long(
        ((repeat_count if (distance_to_last < 0) == (period < 0) else -repeat_count) + 1) * size
    )


def _group_contains(group: Group, entry: int) -> bool:
    first, _, size, period = group
    if not first <= entry <= _group_end(group):
        return False
    distance = _wrap_to_long(entry - first)
    if not period:
        return distance < size
    # Java's remainder has the sign of what is divided.
    remainder = abs(distance) % abs(period)
    return (remainder if distance >= 0 else -remainder) < size


def _group_end(group: Group) -> int:
    """Return the end of a group as the server computes it: start of its last run plus the group's size.

    The server's class is ``AvailabilityOfEntriesOfLedger``.
    """
    return _wrap_to_long(group[1] + group[2])


def _wrap_to_long(number: int) -> int:
    """Wrap a number around as a Java long does."""
    return (number + 2**63) % 2**64 - 2**63
