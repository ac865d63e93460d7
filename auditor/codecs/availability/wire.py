"""Decoder and encoder of BP-34's compact list of the entries of one ledger that a bookie has.

    byte  0        4       8            64           88
          version  groups  zeros ...    group 0      group 1 ...
          int32    int32                24 bytes     24 bytes

All numbers are big-endian. `auditor.codecs.availability.groups` shows the layout of a group. According to
the proposal's text, the second number is the number of entries. The server, however, writes and reads the
number of groups there.

The proposal folds equal runs into one group, and so does `encode`. The server's own writer
(``AvailabilityOfEntriesOfLedger``, seen in 4.17.2) never folds. It writes one group per run, like
`encode_unfolded`. `decode` reads both forms. `auditor.codecs.availability.java` gives the same answers as
the server's class.
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auditor.codecs.availability.coverage import difference
from auditor.codecs.availability.fold import fold, fold_entries
from auditor.codecs.availability.groups import GROUP, HEADER_STRUCT, GroupBatch, Groups, Longs
from auditor.codecs.availability.java import JavaAvailability
from auditor.errors import CoverageLimitError, DecodeError

_FORMAT_NAME = "availability"
_MAX_LONG = 2**63 - 1

VERSION = 0
MAX_EXPANDED_RUNS = 2**24
"""Largest number of runs or entries that `expand` and `encode_unfolded` write out one by one."""


@overload
def decode(data: bytes, mode: Literal["strict"] = "strict") -> Groups: ...
@overload
def decode(data: bytes, mode: Literal["java"]) -> JavaAvailability: ...
def decode(data: bytes, mode: Literal["strict", "java"] = "strict") -> Groups | JavaAvailability:
    """Read an encoded set of entries, folded or not.

    Args:
        data: The whole value, with its 64-byte header.
        mode: ``strict`` returns the groups as they are written. ``java`` accepts everything that the
            server's ``AvailabilityOfEntriesOfLedger`` accepts, and returns a `JavaAvailability`.

    Raises:
        DecodeError: A header field or a group is wrong. The error names the offset of the first one.
            ``strict`` also rejects groups that cannot be expanded or are out of order.

    >>> decode(encode(np.array([(1, 4, 2, 3), (7, 7, 1, 0)], GROUP))).tolist()
    [(1, 4, 2, 3), (7, 7, 1, 0)]
    """
    if mode == "java":
        return JavaAvailability.parse(data)
    if len(data) < HEADER_STRUCT.size:
        raise DecodeError(_FORMAT_NAME, len(data), f"only {len(data)} of {HEADER_STRUCT.size} header bytes")
    version, count = HEADER_STRUCT.unpack_from(data)
    if version != VERSION:
        raise DecodeError(_FORMAT_NAME, 0, f"version {version}, not {VERSION}")
    group_count, remainder = divmod(len(data) - HEADER_STRUCT.size, GROUP.itemsize)
    if remainder or group_count != count:
        raise DecodeError(
            _FORMAT_NAME, 4, f"{count} groups declared, {group_count} groups and {remainder} bytes present"
        )
    groups = np.frombuffer(data, GROUP, offset=HEADER_STRUCT.size)
    first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
    id_span = last - first
    is_repeated = last > first
    is_out_of_order = np.zeros(len(groups), np.bool_)
    # Ends are compared as the last id held, which fits an int64 where one past it may not.
    is_out_of_order[1:] = first[1:] <= last[:-1] + (size[:-1] - 1)
    mask_by_fault = {
        "ends before it starts": last < first,
        "holds nothing": size < 1,
        "ends beyond the largest entry id": last > _MAX_LONG - (np.maximum(size, 1) - 1),
        "spans more entry ids than exist": is_repeated & (id_span < 0),
        "has a period, but only one run": ~is_repeated & (period != 0),
        "has a period shorter than its run": is_repeated & (period < size),
        "has a last run that is not a whole number of periods after the first": (
            is_repeated & (id_span % np.maximum(period, 1) != 0)
        ),
        "begins before the previous group ends": is_out_of_order,
        "begins below entry 0": first < 0,
    }
    is_broken = np.logical_or.reduce(list(mask_by_fault.values()))
    if is_broken.any():
        # Of several faults the offset is the first bad group's, whatever that one fails on.
        group_row = int(is_broken.argmax())
        reason = next(reason for reason, rows in mask_by_fault.items() if rows[group_row])
        raise DecodeError(
            _FORMAT_NAME, HEADER_STRUCT.size + group_row * GROUP.itemsize, f"a group that {reason}"
        )
    return groups


def groups_of_entries(entries: ArrayLike) -> Groups:
    """Fold entry ids into groups that can be passed to `encode`.

    The ids may be in any order and may contain duplicates.

    >>> groups_of_entries(np.array([5, 1, 2, 4, 2])).tolist()
    [(1, 4, 2, 3)]
    """
    distinct_entries = np.unique(np.asarray(entries, np.int64))
    return fold_entries(distinct_entries, np.array([0, len(distinct_entries)])).groups()


def encode(groups: Groups) -> bytes:
    """Encode entries in the form that BP-34 proposes: a 64-byte header, followed by folded groups.

    Equal sets of entries give equal bytes, even if their groups differ. A run longer than 2^31 - 1 is cut
    into pieces of that size and a remainder. Apart from these pieces, no groups of the value touch.

    Args:
        groups: Ascending groups that do not overlap, of dtype `GROUP`. They need not be folded.

    Raises:
        CoverageLimitError: The pieces of cut runs would fill the memory.

    >>> encode(np.array([(1, 1, 2, 0), (4, 4, 2, 0)], GROUP))[64:].hex()
    '000000000000000100000000000000040000000200000003'
    """
    folded_groups = fold(GroupBatch.from_groups(groups))
    return HEADER_STRUCT.pack(VERSION, len(folded_groups.first)) + folded_groups.tobytes()


def encode_unfolded(groups: Groups) -> bytes:
    """Encode entries byte for byte as the server does: one group per run, each with a period of 0.

    Args:
        groups: Ascending groups that do not overlap, of dtype `GROUP`. They need not be folded.

    Raises:
        CoverageLimitError: There are more than `MAX_EXPANDED_RUNS` runs.

    >>> len(encode_unfolded(np.array([(1, 10, 2, 3)], GROUP)))
    160
    """
    # Folded first, so that runs that touch are one run, as the server's are.
    folded_groups = fold(GroupBatch.from_groups(groups))
    start, group_rows = _run_starts(folded_groups)
    no_periods = np.zeros_like(start)
    runs = GroupBatch(start, start, folded_groups.size[group_rows], no_periods, np.array([0, len(start)]))
    return HEADER_STRUCT.pack(VERSION, len(start)) + runs.tobytes()


def holds_entries(groups: Groups, entries: ArrayLike) -> NDArray[np.bool_]:
    """Return, for each entry, whether it is in the set that the groups describe.

    Args:
        groups: Ascending groups that do not overlap, of dtype `GROUP`.
        entries: Entry ids, in any order.

    Returns:
        One bool per entry, in the order of ``entries``.

    >>> holds_entries(np.array([(1, 10, 2, 3)], GROUP), np.array([0, 1, 3, 11, 12])).tolist()
    [False, True, False, True, False]
    """
    batch, entry_ids = GroupBatch.from_groups(groups), np.asarray(entries, np.int64)
    group_rows = np.searchsorted(batch.first, entry_ids, side="right") - 1
    is_in_set = np.zeros(len(entry_ids), np.bool_)
    rows_in_run = np.flatnonzero(group_rows >= 0)
    group_rows = group_rows[rows_in_run]
    distance, id_span = (
        entry_ids[rows_in_run] - batch.first[group_rows],
        batch.last[group_rows] - batch.first[group_rows],
    )
    # Behind the last run's start nothing repeats: what counts there is the distance from that start.
    run_offset = np.where(
        distance > id_span, distance - id_span, distance % np.maximum(batch.period[group_rows], 1)
    )
    is_in_set[rows_in_run] = run_offset < batch.size[group_rows]
    return is_in_set


def missing_entries(held_groups: Groups, expected_groups: Groups) -> Groups:
    """Return the entries of ``expected_groups`` that are not in ``held_groups``, as folded groups.

    The result is exact, unlike the result of the server's ``getUnavailableEntries``
    (`JavaAvailability.unavailable`). The cost depends on the number of groups, never on the number of
    entries.

    >>> missing_entries(np.array([(0, 6, 2, 3)], GROUP), np.array([(0, 0, 9, 0)], GROUP)).tolist()
    [(2, 8, 1, 3)]
    """
    return difference(expected_groups, held_groups)


def expand(groups: Groups) -> NDArray[np.int64]:
    """Return every entry of the groups, group after group. Use it for small sets only.

    Raises `CoverageLimitError` if there are more than `MAX_EXPANDED_RUNS` entries or runs.

    >>> expand(np.array([(1, 10, 2, 3)], GROUP)).tolist()
    [1, 2, 4, 5, 7, 8, 10, 11]
    """
    batch = GroupBatch.from_groups(groups)
    start, group_rows = _run_starts(batch)
    size = batch.size[group_rows]
    _check_count(float(size.sum(dtype=np.float64)), "entries")
    ends = np.cumsum(size)
    entries: Longs = np.repeat(start - (ends - size), size)
    entries += np.arange(len(entries))
    return entries


def _run_starts(batch: GroupBatch) -> tuple[Longs, Longs]:
    """Return the start of every run, and the index of the group that the run comes from."""
    count = (batch.last - batch.first) // np.maximum(batch.period, 1) + 1
    _check_count(float(count.sum(dtype=np.float64)), "runs")
    group_rows = np.repeat(np.arange(len(count)), count)
    run_number = np.arange(len(group_rows)) - np.repeat(np.cumsum(count) - count, count)
    return batch.first[group_rows] + run_number * batch.period[group_rows], group_rows


def _check_count(count: float, counted_noun: str) -> None:
    if count > MAX_EXPANDED_RUNS:
        raise CoverageLimitError(
            f"{count:.0f} {counted_noun} to list one by one; the limit is {MAX_EXPANDED_RUNS}"
        )
