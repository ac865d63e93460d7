"""Which entries of a ledger a bookie holds: the condensed encoding of BP-34.

    byte  0        4       8            64           88
          version  groups  zeros ...    group 0      group 1 ...
          int32    int32                24 bytes     24 bytes

All numbers are big-endian; `auditor.codecs.availability.groups` draws a group. The proposal's text calls the
second number that of entries; the server writes and reads the number of groups.

The proposal folds equal runs into one group. The server's own writer (``AvailabilityOfEntriesOfLedger``, seen
in 4.17.2) never does: it emits one group a run. `decode` reads both.

`JavaAvailability` is what the server's own class makes of such a value, oddities included; no verdict rests
on it. Seen in 4.17.2 and 4.18.0:

    accepted    a negative version, a negative count, bytes after the last group, groups out of order (they
                are sorted), of equal start (the last one stays), of no or negative size, that end before
                they start
    refused     fewer than 64 bytes, a version above 0, fewer groups than promised, a group that would divide
                by a period of 0

Membership looks at the group with the greatest start at or before the entry and at no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GROUP, HEADER, GroupBatch, Groups, Longs
from auditor.errors import CoverageLimitError, DecodeError

_WHAT = "availability"
_MAX_LONG = 2**63 - 1
Group = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class JavaAvailability:
    """The answers of the server's class; ``groups`` are (first, last, size, period), sorted by first.

    >>> JavaAvailability(((1, 1, 2, 0), (4, 4, 2, 0))).total
    4
    """

    groups: tuple[Group, ...]

    @classmethod
    def parse(cls, data: bytes) -> JavaAvailability:
        """Read a value. Raises `DecodeError` where the class raises an exception.

        >>> JavaAvailability.parse(bytes(64)).total
        0
        """
        if len(data) < HEADER.size:
            raise DecodeError(_WHAT, len(data), f"{len(data)} of {HEADER.size} header bytes")
        version, count = HEADER.unpack_from(data)
        if version > 0:
            raise DecodeError(_WHAT, 0, f"version {version} is newer than 0")
        count = max(count, 0)
        if HEADER.size + count * GROUP.itemsize > len(data):
            raise DecodeError(_WHAT, len(data), f"{count} groups promised, the data ends before")
        listed: list[Group] = np.frombuffer(data, GROUP, count, HEADER.size).tolist()
        for row, (first, last, _, period) in enumerate(listed):
            if first != last and not period:
                where = HEADER.size + row * GROUP.itemsize
                raise DecodeError(_WHAT, where, "a group that repeats with a period of 0")
        # The class keeps a TreeMap by first entry: sorted, and of equal keys the last one stays.
        return cls(tuple(sorted({group[0]: group for group in listed}.values())))

    @property
    def total(self) -> int:
        """How many entries the class says there are: overlaps count twice, bad groups count below nothing."""
        return _long(sum(map(_entries_in, self.groups)))

    def entries(self, limit: int) -> list[int]:
        """Every entry for which ``isEntryAvailable`` is true, ascending.

        Raises `CoverageLimitError` for more than ``limit`` of them, or of the runs that they are in.

        >>> JavaAvailability(((0, 10, 4, 5), (7, 7, 2, 0))).entries(100)
        [0, 1, 2, 3, 5, 6, 7, 8]
        """
        found: list[int] = []
        ends = [*(group[0] for group in self.groups), _MAX_LONG + 1][1:]
        for group, next_first in zip(self.groups, ends, strict=True):
            first, _, size, period = group
            # One past the last run's last entry: where the class believes that a group ends.
            end = min(_long(group[1] + group[2]) + 1, next_first)
            # Without a period there is one run. The class's remainder does not see a period's sign.
            step = abs(period) or max(end - first, 1)
            runs = range(first, end, step)
            if len(runs) > limit:
                raise CoverageLimitError(f"more than {limit} runs to list")
            for start in runs:
                run = range(start, min(start + min(size, step), end))
                if len(found) + len(run) > limit:
                    raise CoverageLimitError(f"more than {limit} entries to list")
                found += run
        return found


def _entries_in(group: Group) -> int:
    first, last, size, period = group
    if first == last:
        return size
    span = _long(last - first)
    runs = abs(span) // abs(period)
    return _long(((runs if (span < 0) == (period < 0) else -runs) + 1) * size)


def _long(number: int) -> int:
    """Wrap around as a Java long does."""
    return (number + 2**63) % 2**64 - 2**63


VERSION = 0
MOST_EXPANDED = 2**24
"""How many runs or entries are written out one by one, before that is refused."""


def decode(data: bytes) -> Groups:
    """Read the groups of an encoded availability, as they are written, folded or not.

    Raises `DecodeError` at the header field, or at the first group, that cannot be expanded or is out of
    order.

    >>> decode(HEADER.pack(0, 1) + np.array([(1, 4, 2, 3)], GROUP).tobytes()).tolist()
    [(1, 4, 2, 3)]
    """
    if len(data) < HEADER.size:
        raise DecodeError(_WHAT, len(data), f"{len(data)} of {HEADER.size} header bytes")
    version, count = HEADER.unpack_from(data)
    if version != VERSION:
        raise DecodeError(_WHAT, 0, f"version {version}, not {VERSION}")
    present, rest = divmod(len(data) - HEADER.size, GROUP.itemsize)
    if rest or present != count:
        raise DecodeError(_WHAT, 4, f"{count} groups promised, {present} and {rest} bytes present")
    groups = np.frombuffer(data, GROUP, offset=HEADER.size)
    first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
    span = last - first
    repeats = last > first
    order = np.zeros(len(groups), np.bool_)
    # Ends are compared as the last id held, which fits an int64 where one past it may not.
    order[1:] = first[1:] <= last[:-1] + (size[:-1] - 1)
    wrong = {
        "ends before it starts": last < first,
        "holds nothing": size < 1,
        "passes the largest entry id": last > _MAX_LONG - (np.maximum(size, 1) - 1),
        "spans more than there are ids": repeats & (span < 0),
        "has a period without a second run": ~repeats & (period != 0),
        "repeats sooner than its runs end": repeats & (period < size),
        "does not end on a run": repeats & (span % np.maximum(period, 1) != 0),
        "begins before the last one ended": order,
        "begins below entry 0": first < 0,
    }
    broken = np.logical_or.reduce(list(wrong.values()))
    if broken.any():
        # Of several faults the offset is the first bad group's, whatever that one fails on.
        row = int(broken.argmax())
        reason = next(reason for reason, rows in wrong.items() if rows[row])
        raise DecodeError(_WHAT, HEADER.size + row * GROUP.itemsize, f"a group that {reason}")
    return groups


def expand(groups: Groups) -> NDArray[np.int64]:
    """List every entry the groups stand for, group after group: for small things.

    Raises `CoverageLimitError` for more than `MOST_EXPANDED` entries.

    >>> expand(np.array([(1, 10, 2, 3)], GROUP)).tolist()
    [1, 2, 4, 5, 7, 8, 10, 11]
    """
    batch = GroupBatch.one(groups)
    start, row = _starts(batch)
    size = batch.size[row]
    _check_count(float(size.sum(dtype=np.float64)), "entries")
    ends = np.cumsum(size)
    entries: Longs = np.repeat(start - (ends - size), size)
    entries += np.arange(len(entries))
    return entries


def _starts(batch: GroupBatch) -> tuple[Longs, Longs]:
    """Where every run starts, and the group that it is from."""
    count = (batch.last - batch.first) // np.maximum(batch.period, 1) + 1
    _check_count(float(count.sum(dtype=np.float64)), "runs")
    row = np.repeat(np.arange(len(count)), count)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return batch.first[row] + rank * batch.period[row], row


def _check_count(count: float, what: str) -> None:
    if count > MOST_EXPANDED:
        raise CoverageLimitError(f"{count:.0f} {what} to write out one by one, more than {MOST_EXPANDED}")
