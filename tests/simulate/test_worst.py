"""Tests of worst sets, distance to loss, copysets and scatter width, against each entry and domain subset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.model.placement import Level, Location, Locations
from auditor.simulate.domains import CopysetSums, SetSums
from auditor.simulate.levels import LevelSums, find_worst_sets
from auditor.simulate.loss import UnresponsiveBookies
from auditor.simulate.near_loss import find_near_losses
from auditor.simulate.run_windows import RunWindows
from tests.examples import examples
from tests.simulate.small_clusters import BOOKIES, LEDGERS, Ledger, numbered, run_of

RACKS = st.lists(st.sampled_from(["/r0", "/r1", "/r2", "/r3", None]), min_size=8, max_size=8)
IDS = st.sets(st.sampled_from(BOOKIES), max_size=2)
Place = str | None


class Entry:
    """The bookies that may have an entry, those that surely have it, and its bytes."""

    def __init__(self, ledger: Ledger, entry: int, bookies: list[str], unread: set[str]) -> None:
        lacks = {name for name in bookies if entry in ledger.missing.get(name, ())}
        self.ledger = ledger.id
        self.promised = {*bookies}
        self.may_have = {*bookies} - ({*()} if ledger.doubted else lacks)
        self.surely = {*bookies} - lacks - ledger.unknown - unread
        self.bytes = 10 if ledger.closed else 0


def entries(ledgers: list[Ledger], unread: set[str]) -> list[Entry]:
    return [Entry(ledger, entry, names, unread) for ledger in ledgers for entry, names in ledger.entries()]


def distances(entry: Entry, domain_of: dict[str, Place]) -> Iterator[int]:
    """Yield how many domains must fail to lose the entry, for all values of unknown copies and places."""
    unclear = sorted(entry.may_have - entry.surely)
    places = sorted({place for place in domain_of.values() if place is not None})
    for presence in product((False, True), repeat=len(unclear)):
        copies = entry.surely | {name for name, is_there in zip(unclear, presence, strict=True) if is_there}
        homeless = [name for name in copies if domain_of[name] is None]
        placed = {domain_of[name] for name in copies} - {None}
        for guess in product([*places, *homeless], repeat=len(homeless)):
            yield len(placed | {*guess})


def losses(
    all_entries: Iterable[Entry], domain_of: dict[str, Place], today: bool, size: int
) -> dict[tuple[str, ...], list[int]]:
    """Return the entries and bytes of which each set of ``size`` domains surely takes the last copies."""
    names = sorted({place for place in domain_of.values() if place is not None})
    sums = {tuple(domain_set): [0, 0] for domain_set in combinations(names, size)}
    for entry in all_entries:
        places = {domain_of[name] for name in (entry.may_have if today else entry.promised)}
        for members, total in sums.items():
            if places and places <= {*members}:
                total[0] += 1
                total[1] += entry.bytes
    return sums


# One copy of each entry, each on a bookie and a rack of its own, and nothing of it in doubt.
ONE_COPY = Ledger(0, "CLOSED", 2, 1, 1, 5, ((0, ("a", "b")),))


@settings(max_examples=examples(80), deadline=None)
@given(several=LEDGERS, unread=IDS, racks=RACKS)
@example(several=[ONE_COPY], unread=set(), racks=["/r0", "/r1", "/r2", "/r3"] * 2)
def test_near_losses_and_worst_sets_equal_those_of_all_entries_and_subsets(
    drawn_run: Path, several: list[Ledger], unread: set[str], racks: list[Place]
) -> None:
    drawn = numbered(several)
    all_entries = entries(drawn, unread)
    mapping = {name: Location(rack) for name, rack in zip(BOOKIES, racks, strict=True) if rack}
    locations = Locations(mapping, "made")
    directory = run_of(drawn_run, drawn, unread)
    near = find_near_losses(directory, locations)
    levels = {}
    for level, size in product((Level.BOOKIE, Level.RACK), (1, 2, 3)):
        run = RunWindows(directory)
        sums = LevelSums(level, locations, list(BOOKIES), size)
        no_bookies = np.zeros(len(BOOKIES) + 1, bool)
        for windows in run:
            sums.add(windows, run.numbers, UnresponsiveBookies(no_bookies, no_bookies))
        levels[level, size] = sums.result(list(BOOKIES))
    for (level, size), result in levels.items():
        domain_of = {name: locations.domain(name, level) for name in BOOKIES}
        best = [(entry, max(distances(entry, domain_of))) for entry in all_entries]
        assert result.distance == Counter(_least(best).values())
        [reported] = [row for row in near if row.level == level] or [result.near]
        assert reported == result.near
        near_entries = [entry for entry, distance in best if distance == 1]
        ledgers = {entry.ledger for entry in near_entries}
        assert (reported.found.ledgers, reported.found.entries) == (len(ledgers), len(near_entries))
        assert reported.found.bytes == sum(entry.bytes for entry in near_entries)
        maybe = {
            entry.ledger for entry, distance in best if distance > 1 and min(distances(entry, domain_of)) <= 1
        }
        assert reported.perhaps == len(maybe - ledgers)
        today, promised = (losses(all_entries, domain_of, view, size) for view in (True, False))
        worst = sorted((-total[1], -total[0], members) for members, total in today.items() if total[0])
        shown = [(-row.bytes, -row.entries, row.names) for row in result.sets]
        assert shown == worst[: len(shown)]
        assert len(shown) == min(len(worst), 10)
        assert [[row.promise_entries, row.promise_bytes] for row in result.sets] == [
            promised[row.names] for row in result.sets
        ]
        assert (result.losing, result.of, result.proved) == (len(worst), len(today), True)
        if size == 1:
            assert list(reported.names) == [names[0] for _, _, names in worst]


def _least(best: list[tuple[Entry, int]]) -> dict[int, int]:
    """Return the smallest distance to loss of the entries of each ledger."""
    least: dict[int, int] = {}
    for entry, distance in best:
        least[entry.ledger] = min(distance, least.get(entry.ledger, distance))
    return least


@settings(max_examples=examples(40), deadline=None)
@given(several=LEDGERS)
def test_copysets_and_scatter_width_match_all_entries(drawn_run: Path, several: list[Ledger]) -> None:
    ledgers = numbered(several)
    run = RunWindows(run_of(drawn_run, ledgers, set()))
    sums = CopysetSums(len(BOOKIES))
    for windows in run:
        sums.add(windows, run.numbers)
    result = sums.result()
    copysets = {frozenset(names) for part in ledgers for _, names in part.entries()}
    for part in ledgers:
        if not part.closed:
            _, ensemble = part.segments[-1]
            turns = [[*ensemble[start:], *ensemble[:start]] for start in range(part.size)]
            copysets |= {frozenset(turn[: part.write]) for turn in turns}
    assert result.sizes == Counter(map(len, copysets))
    partners = {
        name: {partner for part in copysets if name in part for partner in part} - {name} for name in BOOKIES
    }
    widths = [len(partner_set) for partner_set in partners.values() if partner_set]
    assert result.bookies == len(BOOKIES)
    expected = (min(widths), sum(widths) / len(widths), max(widths)) if widths else (0, 0.0, 0)
    assert (result.scatter_least, result.scatter_mean, result.scatter_most) == expected


WEIGHTS = st.dictionaries(
    st.frozensets(st.integers(0, 7), min_size=1, max_size=3), st.integers(1, 99), min_size=1, max_size=30
)


@given(WEIGHTS, st.integers(1, 3))
def test_proved_sets_are_the_worst_and_unproved_sets_are_marked(
    weights: dict[frozenset[int], int], size: int
) -> None:
    counted = {members: weight for members, weight in weights.items() if len(members) <= size}
    sums = SetSums(size, domain_count=8)
    rows = np.array([[*sorted(members), *[-1] * (size - len(members))] for members in counted])
    counts = np.array(list(counted.values()), np.int64)
    sums.add(rows.reshape(-1, size).astype(np.int64), counts, counts * 10)
    totals = {
        group: sum(weight for members, weight in counted.items() if members <= {*group})
        for group in combinations(range(8), size)
    }
    worst = sorted((weight for weight in totals.values() if weight), reverse=True)
    for most in (56, 55):  # sets of three of eight domains
        result = find_worst_sets(sums, size, max_sets=3, max_pairs=most)
        assert [totals[group.members] for group in result.sets] == [group.entries for group in result.sets]
        assert result.is_proved == (size < 3 or most == 56)
        if result.is_proved:
            assert [group.entries for group in result.sets] == worst[:3]
            assert result.losing_set_count == len(worst)
        else:
            assert result.losing_set_count is None
            assert bool(result.sets) == bool(worst)
