"""Tests of sure and possible loss against every world that agrees with a run's facts, entry by entry.

A world decides for each unknown copy whether it exists. It also decides for each bookie without a location
whether the failure takes it. A failure harms an entry if it takes a copy that exists.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.model.placement import Level, Location, Locations
from auditor.simulate.levels import LevelSums
from auditor.simulate.loss import (
    ENTRIES_INDEX,
    LEDGERS_INDEX,
    TALLY_BOUNDS,
    UnresponsiveBookies,
    WindowOutcome,
    find_effect,
    tally,
)
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import Bools, Longs
from tests.examples import examples
from tests.simulate.small_clusters import (
    BOOKIES,
    HARM,
    LEDGERS,
    Bound,
    Ledger,
    amounts_of,
    loss_outcome,
    numbered,
    run_of,
    subsets,
    windows_of_run,
    worlds,
)

IDS = st.sets(st.sampled_from(BOOKIES), max_size=5)


def amounts(
    ledgers: list[Ledger], lost: set[str], unread: set[str], bound: Bound
) -> Counter[tuple[WindowOutcome, str]]:
    """Return the counts of entries and ledgers by outcome, in all worlds (``bound`` all) or in some (any)."""
    counts: Counter[tuple[WindowOutcome, str]] = Counter()
    for ledger in ledgers:
        fates = (
            {loss_outcome(copies, lost, ledger) for copies in worlds(ledger, entry, {*names}, unread)}
            for entry, names in ledger.entries()
        )
        counts += amounts_of(fates, bound)
    return counts


def as_amounts(sums: Longs) -> Counter[tuple[WindowOutcome, str]]:
    """Return the numbers of entries and ledgers by outcome, from the sums of one view."""
    units = {"entries": ENTRIES_INDEX, "ledgers": LEDGERS_INDEX}
    return +Counter({(fate, unit): int(sums[fate, place]) for fate in HARM for unit, place in units.items()})


# One copy is missing, the other on a bookie that was not read: it may have been lost before.
LAST_COPY_UNREAD = Ledger(
    0, "CLOSED", 2, 2, 2, 3, ((0, ("a", "b")),), {"a": frozenset({0, 1, 2, 3})}
)  # fmt: skip


@settings(max_examples=examples(310), deadline=None)
@given(several=LEDGERS, lost=IDS, perhaps=IDS, unread=IDS, merge=st.booleans())
@example(several=[LAST_COPY_UNREAD], lost={"b"}, perhaps=set(), unread={"b"}, merge=False)
@example(several=[LAST_COPY_UNREAD], lost=set(), perhaps={"b"}, unread={"b"}, merge=True)
def test_losses_are_bounded_by_all_worlds_that_agree_with_the_run(
    drawn_run: Path, several: list[Ledger], lost: set[str], perhaps: set[str], unread: set[str], merge: bool
) -> None:
    ledgers = numbered(several)
    run, parts = windows_of_run(drawn_run, ledgers, unread, merge)

    def flags(names: set[str]) -> Bools:
        return np.array([*(name in names for name in run.numbers.names), False])

    cluster = UnresponsiveBookies(flags(set()), flags(set()))
    sums = np.zeros((len(TALLY_BOUNDS), len(WindowOutcome), 3), np.int64)
    for windows in parts:
        effect = find_effect(windows, flags(lost), flags(perhaps))
        sums += tally(windows, effect, np.zeros(len(windows), np.int64), 1, cluster)[:, 0]
    sure, possible = (as_amounts(sums[TALLY_BOUNDS.index(view)]) for view in ("today", "today_possible"))
    for extra in subsets(perhaps - lost):
        least, most = (amounts(ledgers, lost | extra, unread, bound) for bound in (all, any))
        assert all(sure[key] <= least[key] for key in sure), (sure, least)
        assert all(possible[key] >= most[key] for key in most), (possible, most)
    if not perhaps - lost:
        assert sure == amounts(ledgers, lost, unread, all)
        assert possible == amounts(ledgers, lost, unread, any)


@settings(max_examples=examples(80), deadline=None)
@given(several=LEDGERS, unread=IDS, racks=st.lists(st.sampled_from(["/r0", "/r1"]), min_size=8, max_size=8))
@example(several=[LAST_COPY_UNREAD], unread={"b"}, racks=["/r0", "/r1"] * 4)
def test_single_failure_bounds_equal_the_least_and_most_loss_of_all_worlds(
    drawn_run: Path, several: list[Ledger], unread: set[str], racks: list[str]
) -> None:
    ledgers = numbered(several)
    rack_of = dict(zip(BOOKIES, racks, strict=True))
    locations = Locations({name: Location(rack) for name, rack in rack_of.items()}, "made")
    run = RunWindows(run_of(drawn_run, ledgers, unread))
    no_bookies = np.zeros(len(BOOKIES) + 1, bool)
    sums = LevelSums(Level.RACK, locations, list(BOOKIES))
    for windows in run:
        sums.add(windows, run.numbers, UnresponsiveBookies(no_bookies, no_bookies))
    for single in sums.result(list(BOOKIES)).singles:
        lost = {name for name in BOOKIES if rack_of[name] in single.names}
        for outcome, bound in ((single.today.sure, all), (single.today.possible, any)):
            truth = amounts(ledgers, lost, unread, bound)
            for fate, amount in zip(
                HARM, (outcome.below_write, outcome.below_ack, outcome.lost), strict=True
            ):
                assert (amount.entries, amount.ledgers) == (truth[fate, "entries"], truth[fate, "ledgers"])
