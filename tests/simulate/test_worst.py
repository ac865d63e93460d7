"""Worst sets, distance to loss, copysets and scatter width, against each entry and each subset of domains."""

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
from tests.simulate.small_clusters import BOOKIES, SEVERAL, Ledger, numbered, run_of

RACKS = st.lists(st.sampled_from(["/r0", "/r1", "/r2", "/r3", None]), min_size=8, max_size=8)
SOME = st.sets(st.sampled_from(BOOKIES), max_size=2)
Place = str | None


class Entry:
    """Where one entry lies: bookies that may have it, those that surely have it, and its bytes."""

    def __init__(self, ledger: Ledger, entry: int, bookies: list[str], unread: set[str]) -> None:
        lacks = {name for name in bookies if entry in ledger.missing.get(name, ())}
        self.ledger = ledger.id
        self.promised = {*bookies}
        self.may_have = {*bookies} - ({*()} if ledger.doubted else lacks)
        self.surely = {*bookies} - lacks - ledger.unknown - unread
        self.bytes = 10 if ledger.closed else 0


def entries(found: list[Ledger], unread: set[str]) -> list[Entry]:
    return [Entry(each, entry, names, unread) for each in found for entry, names in each.entries()]


def distances(entry: Entry, of: dict[str, Place]) -> Iterator[int]:
    """How many domains have to fail to lose the entry, whatever is unknown of copies and places."""
    unclear = sorted(entry.may_have - entry.surely)
    known = sorted({place for place in of.values() if place is not None})
    for there in product((False, True), repeat=len(unclear)):
        copies = entry.surely | {name for name, is_there in zip(unclear, there, strict=True) if is_there}
        homeless = [name for name in copies if of[name] is None]
        placed = {of[name] for name in copies} - {None}
        for guess in product([*known, *homeless], repeat=len(homeless)):
            yield len(placed | {*guess})


def losses(
    every: Iterable[Entry], of: dict[str, Place], today: bool, size: int
) -> dict[tuple[str, ...], list[int]]:
    """Entries and bytes that each set of so many domains surely takes the last copies of."""
    names = sorted({place for place in of.values() if place is not None})
    sums = {tuple(each): [0, 0] for each in combinations(names, size)}
    for entry in every:
        places = {of[name] for name in (entry.may_have if today else entry.promised)}
        for members, total in sums.items():
            if places and places <= {*members}:
                total[0] += 1
                total[1] += entry.bytes
    return sums


# One copy of each entry, each on a bookie and a rack of its own, and nothing of it in doubt.
ONE_COPY = Ledger(0, "CLOSED", 2, 1, 1, 5, ((0, ("a", "b")),))


@settings(max_examples=examples(80), deadline=None)
@given(several=SEVERAL, unread=SOME, racks=RACKS)
@example(several=[ONE_COPY], unread=set(), racks=["/r0", "/r1", "/r2", "/r3"] * 2)
def test_what_is_near_loss_and_the_worst_sets_are_those_of_all_entries_and_subsets(
    drawn_run: Path, several: list[Ledger], unread: set[str], racks: list[Place]
) -> None:
    found = numbered(several)
    every = entries(found, unread)
    mapping = {name: Location(rack) for name, rack in zip(BOOKIES, racks, strict=True) if rack}
    locations = Locations(mapping, "made")
    directory = run_of(drawn_run, found, unread)
    near = find_near_losses(directory, locations)
    levels = {}
    for level, size in product((Level.BOOKIE, Level.RACK), (1, 2, 3)):
        run = RunWindows(directory)
        sums = LevelSums(level, locations, list(BOOKIES), size)
        none = np.zeros(len(BOOKIES) + 1, bool)
        for windows in run:
            sums.add(windows, run.numbers, UnresponsiveBookies(none, none))
        levels[level, size] = sums.result(list(BOOKIES))
    for (level, size), result in levels.items():
        of = {name: locations.domain(name, level) for name in BOOKIES}
        best = [(entry, max(distances(entry, of))) for entry in every]
        assert result.distance == Counter(_least(best).values())
        [said] = [each for each in near if each.level == level] or [result.near]
        assert said == result.near
        alone = [entry for entry, distance in best if distance == 1]
        ledgers = {entry.ledger for entry in alone}
        assert (said.found.ledgers, said.found.entries) == (len(ledgers), len(alone))
        assert said.found.bytes == sum(entry.bytes for entry in alone)
        maybe = {entry.ledger for entry, distance in best if distance > 1 and min(distances(entry, of)) <= 1}
        assert said.perhaps == len(maybe - ledgers)
        today, promised = (losses(every, of, view, size) for view in (True, False))
        worst = sorted((-total[1], -total[0], members) for members, total in today.items() if total[0])
        shown = [(-each.bytes, -each.entries, each.names) for each in result.sets]
        assert shown == worst[: len(shown)]
        assert len(shown) == min(len(worst), 10)
        assert [[each.promise_entries, each.promise_bytes] for each in result.sets] == [
            promised[each.names] for each in result.sets
        ]
        assert (result.losing, result.of, result.proved) == (len(worst), len(today), True)
        if size == 1:
            assert list(said.names) == [names[0] for _, _, names in worst]


def _least(best: list[tuple[Entry, int]]) -> dict[int, int]:
    """The nearest entry of each ledger."""
    least: dict[int, int] = {}
    for entry, distance in best:
        least[entry.ledger] = min(distance, least.get(entry.ledger, distance))
    return least


@settings(max_examples=examples(40), deadline=None)
@given(several=SEVERAL)
def test_copysets_and_scatter_width_are_those_of_all_entries(drawn_run: Path, several: list[Ledger]) -> None:
    found = numbered(several)
    run = RunWindows(run_of(drawn_run, found, set()))
    sums = CopysetSums(len(BOOKIES))
    for windows in run:
        sums.add(windows, run.numbers)
    result = sums.result()
    copysets = {frozenset(names) for each in found for _, names in each.entries()}
    for each in found:
        if not each.closed:
            _, ensemble = each.segments[-1]
            turns = [[*ensemble[start:], *ensemble[:start]] for start in range(each.size)]
            copysets |= {frozenset(turn[: each.write]) for turn in turns}
    assert result.sizes == Counter(map(len, copysets))
    partners = {
        name: {other for each in copysets if name in each for other in each} - {name} for name in BOOKIES
    }
    widths = [len(others) for others in partners.values() if others]
    assert result.bookies == len(BOOKIES)
    wanted = (min(widths), sum(widths) / len(widths), max(widths)) if widths else (0, 0.0, 0)
    assert (result.scatter_least, result.scatter_mean, result.scatter_most) == wanted


WEIGHTS = st.dictionaries(
    st.frozensets(st.integers(0, 7), min_size=1, max_size=3), st.integers(1, 99), min_size=1, max_size=30
)


@given(WEIGHTS, st.integers(1, 3))
def test_what_is_proved_is_the_worst_and_what_is_not_says_so(
    weights: dict[frozenset[int], int], size: int
) -> None:
    held = {members: weight for members, weight in weights.items() if len(members) <= size}
    sums = SetSums(size, domain_count=8)
    rows = np.array([[*sorted(members), *[-1] * (size - len(members))] for members in held])
    counts = np.array(list(held.values()), np.int64)
    sums.add(rows.reshape(-1, size).astype(np.int64), counts, counts * 10)
    every = {
        each: sum(weight for members, weight in held.items() if members <= {*each})
        for each in combinations(range(8), size)
    }
    worst = sorted((weight for weight in every.values() if weight), reverse=True)
    for most in (56, 55):  # sets of three of eight domains
        found = find_worst_sets(sums, size, max_sets=3, max_pairs=most)
        assert [every[each.members] for each in found.sets] == [each.entries for each in found.sets]
        assert found.is_proved == (size < 3 or most == 56)
        if found.is_proved:
            assert [each.entries for each in found.sets] == worst[:3]
            assert found.losing_count == len(worst)
        else:
            assert found.losing_count is None
            assert bool(found.sets) == bool(worst)
