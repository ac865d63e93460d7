"""A simple greedy encoder and other slow reference functions to compare the array code with."""

from __future__ import annotations

import struct
from collections.abc import Iterable

Group = tuple[int, int, int, int]
LONGEST = 2**31 - 1


def greedy(runs: Iterable[tuple[int, int]]) -> list[Group]:
    """Fold ascending (start, size) runs, one at a time, as the proposal describes."""
    joined: list[list[int]] = []
    for start, size in runs:
        if joined and joined[-1][0] + joined[-1][1] == start:
            joined[-1][1] += size
        else:
            joined.append([start, size])
    groups: list[list[int]] = []
    for start, size in joined:
        while size > 0:
            piece = min(size, LONGEST)
            _append_run(groups, start, piece)
            start, size = start + piece, size - piece
    return [(first, last, size, period) for first, last, size, period in groups]


def _append_run(groups: list[list[int]], start: int, size: int) -> None:
    if groups:
        first, last, of_size, period = groups[-1]
        distance = start - last
        if size == of_size and size < distance <= LONGEST and (first == last or distance == period):
            groups[-1] = [first, start, size, distance]
            return
    groups.append([start, start, size, 0])


def runs_of_entries(entries: Iterable[int]) -> list[tuple[int, int]]:
    return [(entry, 1) for entry in sorted(set(entries))]


def runs_of_groups(groups: Iterable[Group]) -> list[tuple[int, int]]:
    return [
        (start, size) for first, last, size, period in groups for start in range(first, last + 1, period or 1)
    ]


def entries_of(groups: Iterable[Group]) -> list[int]:
    return [entry for start, size in runs_of_groups(groups) for entry in range(start, start + size)]


def packed(groups: Iterable[Group]) -> bytes:
    return b"".join(struct.pack(">qqii", *group) for group in groups)


def write_set(entry: int, ensemble: int, quorum: int) -> set[int]:
    return {(entry + copy) % ensemble for copy in range(quorum)}
