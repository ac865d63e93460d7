"""Speed of folding sets of entries into BP-34 groups, compared with a plain Python loop.

The loop gets a tenth of the entries of each case, and the benchmark compares rates in processor time. Peak
memory is the memory that this program's code allocates in addition to its input.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold, fold_entries, fold_slots
from auditor.codecs.availability.groups import GroupBatch, offsets_of
from auditor.codecs.availability.striping import stripe
from benchmarks.measure import Line, alternate

Longs = NDArray[np.int64]
ENTRY_COUNT = 1_000_000
LOOP_SAMPLE_FRACTION = 10  # the loop gets one entry in ten, because it is far slower


class Case(NamedTuple):
    name: str
    run_fold: Callable[[], object]
    entries: int
    run_loop: Callable[[], object]
    loop_entry_count: int


def plain_loop(entries: list[int]) -> list[tuple[int, int, int, int]]:
    """Fold entries into groups in the simplest way: find runs, then groups, one entry at a time."""
    groups: list[tuple[int, int, int, int]] = []
    group: tuple[int, int, int, int] | None = None
    run_start = run_size = 0

    def add_run(added_start: int, added_size: int) -> None:
        nonlocal group
        if group is not None:
            first_entry, last_entry, group_size, group_period = group
            run_distance = added_start - last_entry
            if (
                added_size == group_size
                and run_distance < 2**31
                and (first_entry == last_entry or run_distance == group_period)
            ):
                group = (first_entry, added_start, added_size, run_distance)
                return
            groups.append(group)
        group = (added_start, added_start, added_size, 0)

    for entry in entries:
        if run_size and entry == run_start + run_size:
            run_size += 1
        else:
            if run_size:
                add_run(run_start, run_size)
            run_start, run_size = entry, 1
    if run_size:
        add_run(run_start, run_size)
    if group is not None:
        groups.append(group)
    return groups


def one_ledger_cases(name: str, entries: Longs) -> list[Case]:
    offsets = np.array([0, len(entries)])
    entry_slots = np.zeros(int(entries[-1]) + 1, np.int64)
    entry_slots[entries] = 1028
    bounds_of_sets = np.array([0, len(entry_slots)])
    entry_sample = entries[: len(entries) // LOOP_SAMPLE_FRACTION].tolist()
    return [
        Case(
            name,
            lambda: fold_entries(entries, offsets),
            len(entries),
            lambda: plain_loop(entry_sample),
            len(entry_sample),
        ),
        Case(
            f"{name}, from index slots",
            lambda: fold_slots(entry_slots, bounds_of_sets),
            len(entries),
            lambda: plain_loop(entry_sample),
            len(entry_sample),
        ),
    ]


def many_ledger_cases(count: int, ledger_entries: int) -> list[Case]:
    entries_of_ledger = striped_entries(ledger_entries)
    entries, ledger_offsets = (
        np.tile(entries_of_ledger, count),
        offsets_of(np.full(count, len(entries_of_ledger))),
    )
    entry_samples = [entries_of_ledger.tolist()] * (count // LOOP_SAMPLE_FRACTION)
    zero_slots = np.zeros(count, np.int64)
    last_entry = np.full(count, entries_of_ledger[-1])

    def loop() -> None:
        for entry_sample in entry_samples:
            plain_loop(entry_sample)

    loop_arguments = (len(entries), loop, len(entries) // LOOP_SAMPLE_FRACTION)
    return [
        Case(
            f"{count:,} ledgers of {ledger_entries}",
            lambda: fold_entries(entries, ledger_offsets),
            *loop_arguments,
        ),
        Case(
            f"{count:,} ledgers of {ledger_entries}, expected",
            lambda: fold(
                stripe(zero_slots, last_entry, zero_slots + 1, zero_slots + 3, zero_slots + 2)
            ).tobytes(),
            *loop_arguments,
        ),
    ]


def striped_entries(count: int) -> Longs:
    """Return the first ``count`` entries of the bookie at index 1 of an ensemble.

    The ensemble has 3 bookies, and the write quorum is 2.
    """
    entries = np.arange(count * 3 // 2 + 3)
    stored_entries: Longs = entries[entries % 3 != 2][:count]
    return stored_entries


def entries_with_holes(count: int) -> Longs:
    """Return ascending entries, with a random tenth left out. The random seed is fixed."""
    sample_size = count * 10 // 9 + count // 100 + 100  # the expected number, and a margin for chance
    return np.flatnonzero(np.random.default_rng(7).random(sample_size) >= 0.1)[:count]


def peak_memory(run: Callable[[], object]) -> int:
    tracemalloc.start()
    run()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak_bytes


def check_plain_loop() -> None:
    """End the benchmark if `fold_entries` and `plain_loop` give different groups."""
    entries = striped_entries(1000)
    entries = entries[np.random.default_rng(7).random(len(entries)) > 0.1]
    periodic_groups = fold_entries(entries, np.array([0, len(entries)]))
    if periodic_groups.values() != GroupBatch.from_tuples([plain_loop(entries.tolist())]).values():
        sys.exit("the fold and the loop disagree")


def lines() -> Iterator[Line]:
    """Yield one line per case. The unit is entries."""
    check_plain_loop()
    cases = [
        *one_ledger_cases("3M striped, E3 Qw2", striped_entries(3 * ENTRY_COUNT)),
        *one_ledger_cases("3M dense", np.arange(3 * ENTRY_COUNT)),
        *one_ledger_cases("3M with 10 % holes", entries_with_holes(3 * ENTRY_COUNT)),
        *many_ledger_cases(100_000, 50),
    ]
    for case in cases:
        own_seconds, loop_seconds = alternate(case.run_fold, case.run_loop, clock=time.process_time)
        yield Line(
            f"fold {case.name}",
            case.entries,
            "ids",
            own_seconds,
            "a plain loop",
            case.loop_entry_count,
            loop_seconds,
            python_mib=peak_memory(case.run_fold) / 2**20,
        )
