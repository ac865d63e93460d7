"""Tests of loss by windows, against a count entry by entry."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.simulate.loss import (
    ENTRIES_INDEX,
    LEDGERS_INDEX,
    TALLY_BOUNDS,
    UnresponsiveBookies,
    WindowOutcome,
    failures_by_domain,
    find_effect,
    tally,
)
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import Bools, Longs
from tests.examples import examples
from tests.simulate.small_clusters import (
    BOOKIES,
    LEDGERS,
    Ledger,
    numbered,
    plain_fates,
    windows_of_run,
)

IDS = st.sets(st.sampled_from(BOOKIES), max_size=5)


def by_number(run: RunWindows, names: set[str]) -> Bools:
    return np.array([*(name in names for name in run.numbers.names), False])


def plain_sums(
    ledgers: list[Ledger],
    lost: set[str],
    perhaps: set[str],
    unread: set[str],
    down: set[str],
    view: str,
    surely: bool = False,
) -> Counter[tuple[WindowOutcome, str]]:
    sums: Counter[tuple[WindowOutcome, str]] = Counter()
    for ledger in ledgers:
        sums += plain_fates(ledger, lost, perhaps, unread, down, view, surely)
    return sums


def as_counter(sums: Longs) -> Counter[tuple[WindowOutcome, str]]:
    units = {"ledgers": LEDGERS_INDEX, "entries": ENTRIES_INDEX}
    return Counter(
        {(f, u): int(sums[f, place]) for f in WindowOutcome for u, place in units.items() if sums[f, place]}
    )


@given(several=LEDGERS, lost=IDS, perhaps=IDS, unread=IDS, down=IDS, merge=st.booleans())
def test_failure_tally_equals_the_sum_entry_by_entry(
    drawn_run: Path,
    several: list[Ledger],
    lost: set[str],
    perhaps: set[str],
    unread: set[str],
    down: set[str],
    merge: bool,
) -> None:
    ledgers = numbered(several)
    run, parts = windows_of_run(drawn_run, ledgers, unread, merge)
    cluster = UnresponsiveBookies(by_number(run, down), by_number(run, down))
    sums = np.zeros((len(TALLY_BOUNDS), len(WindowOutcome), 3), np.int64)
    for windows in parts:
        effect = find_effect(windows, by_number(run, lost), by_number(run, perhaps))
        sums += tally(windows, effect, np.zeros(len(windows), np.int64), 1, cluster)[:, 0]
    for number, view in enumerate(TALLY_BOUNDS):
        assert as_counter(sums[number]) == plain_sums(ledgers, lost, perhaps, unread, down, view), view


@settings(max_examples=examples(40), deadline=None)
@given(
    several=LEDGERS,
    unread=IDS,
    racks=st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=8, max_size=8),
)
def test_all_single_domain_failures_equal_each_failure_alone(
    drawn_run: Path, several: list[Ledger], unread: set[str], racks: list[int]
) -> None:
    ledgers = numbered(several)
    run, parts = windows_of_run(drawn_run, ledgers, unread, merge=True)
    no_bookies = by_number(run, set())
    rack_of = dict(zip(BOOKIES, racks, strict=True))
    domain = np.array([*(rack_of[name] for name in run.numbers.names), -2])
    sums = np.zeros((len(TALLY_BOUNDS), 3, len(WindowOutcome), 3), np.int64)
    for windows in parts:
        rows, effect, group = failures_by_domain(windows, domain)
        sums += tally(rows, effect, group, 3, UnresponsiveBookies(no_bookies, no_bookies))
    for place in range(3):
        lost, perhaps = ({name for name in BOOKIES if rack_of[name] == rack} for rack in (place, -1))
        for number, view in enumerate(TALLY_BOUNDS):
            expected = plain_sums(ledgers, lost, perhaps, unread, set(), view, surely=True)
            assert as_counter(sums[number, place]) == expected, view
