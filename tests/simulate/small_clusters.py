"""Small invented clusters and their losses, computed entry by entry as the reference for simulate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from auditor.codecs.availability.fold import fold_entries
from auditor.runs.directory import RunDirectory
from auditor.simulate.loss import WindowOutcome
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import Windows
from tests.made_runs import write_tables

BOOKIES = tuple("abcdefgh")
LAST = 40


@dataclass(frozen=True)
class Ledger:
    """A ledger and the entries that its bookies lack (``missing``) or may lack (``doubted``, ``unknown``)."""

    id: int
    state: str
    size: int
    write: int
    ack: int
    last: int
    segments: tuple[tuple[int, tuple[str, ...]], ...]
    missing: Mapping[str, frozenset[int]] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    doubted: bool = False
    scope: int = 0

    @property
    def closed(self) -> bool:
        return self.state == "CLOSED"

    def entries(self) -> Iterable[tuple[int, list[str]]]:
        """Yield each entry known to exist and the bookies of its write set, by position."""
        for number, (first, ensemble) in enumerate(self.segments):
            final = number + 1 == len(self.segments)
            if final and not self.closed:
                return
            end = self.last + 1 if final else self.segments[number + 1][0]
            for entry in range(first, min(end, self.last + 1) if self.closed else end):
                yield entry, [ensemble[(entry + i) % self.size] for i in range(self.write)]

    def striped(self, bookie: str) -> set[int]:
        """Return the entries that striping assigns to the bookie."""
        return {entry for entry, bookies in self.entries() if bookie in bookies}

    def metadata(self) -> dict[str, Any]:
        """Return its row of the table ledgers."""
        return {
            "scope_id": self.scope, "ledger_id": self.id, "status": "ok", "undecidable": False,
            "state": self.state, "ensemble_size": self.size, "write_quorum": self.write,
            "ack_quorum": self.ack, "last_entry_id": self.last if self.closed else -1,
            "length": 10 * (self.last + 1) if self.closed else None,
            "segments": [{"first_entry_id": first, "ensemble": list(e)} for first, e in self.segments],
        }  # fmt: skip

    def judged(self) -> list[dict[str, Any]]:
        """Return its row of the table judged, if it has one."""
        sets = [
            {"bookie_id": name, "groups": packed(lacks), "count": len(lacks)}
            for name, lacks in sorted(self.missing.items())
            if lacks
        ]
        unknown = [{"bookie_id": name, "count": 1, "why": "unreadable"} for name in sorted(self.unknown)]
        row = {"missing": sets, "unknown": unknown, "doubts": ["young"] if self.doubted else []}
        return [{"scope_id": self.scope, "ledger_id": self.id, **row}] if sets or unknown else []


def packed(entries: Iterable[int]) -> bytes:
    ids = np.array(sorted(entries), np.int64)
    return fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes()


@st.composite
def ledgers(draw: st.DrawFn, id: int = 0) -> Ledger:
    """Draw any ledger: E up to 7, segments, holes, open; bookies that lack some, all or an unknown part."""
    size = draw(st.integers(1, 7))
    write = draw(st.integers(1, size))
    state = draw(st.sampled_from(("CLOSED", "CLOSED", "OPEN", "IN_RECOVERY")))
    last = draw(st.integers(-1, LAST))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, LAST), max_size=3)))]
    ensembles = draw(st.lists(st.permutations(BOOKIES), min_size=len(firsts), max_size=len(firsts)))
    plain = Ledger(
        id, state, size, write, draw(st.integers(1, write)), last,
        tuple((first, tuple(e[:size])) for first, e in zip(firsts, ensembles, strict=True)),
    )  # fmt: skip
    missing = {}
    for name in draw(st.sets(st.sampled_from(BOOKIES), max_size=3)):
        striped = sorted(plain.striped(name))
        lacks = draw(st.one_of(st.just(set(striped)), st.sets(st.sampled_from(striped or [0]), max_size=5)))
        missing[name] = frozenset(lacks & set(striped))
    unknown = draw(st.sets(st.sampled_from(BOOKIES), max_size=1)) - missing.keys()
    return Ledger(
        id, state, size, write, plain.ack, last, plain.segments, missing,
        frozenset(name for name in unknown if plain.striped(name)), draw(st.booleans()),
    )  # fmt: skip


LEDGERS = st.lists(ledgers(), min_size=1, max_size=8)


def numbered(ledger_list: list[Ledger]) -> list[Ledger]:
    """Return the ledgers with distinct ids in no order."""
    places = {id: number * 37 % 11 for number, id in enumerate(range(len(ledger_list)))}
    return [
        Ledger(**{**ledger.__dict__, "id": places[number], "scope": number % 2})
        for number, ledger in enumerate(ledger_list)
    ]


def run_of(drawn_run: Path, ledger_list: list[Ledger], unread: set[str]) -> RunDirectory:
    """Write these ledgers into the run ``drawn_run``, which has them until the next example."""
    write_tables(
        drawn_run,
        ledgers=[ledger.metadata() for ledger in ledger_list],
        judged=[row for ledger in ledger_list for row in ledger.judged()],
        bookies=[{"bookie_id": name, "read": "unread" if name in unread else "read"} for name in BOOKIES],
    )
    return RunDirectory(str(drawn_run))


def windows_of_run(
    drawn_run: Path, ledger_list: list[Ledger], unread: set[str], merge: bool
) -> tuple[RunWindows, list[Windows]]:
    run = RunWindows(run_of(drawn_run, ledger_list, unread), merge)
    return run, list(run)


HARM = (WindowOutcome.BELOW_WRITE_QUORUM, WindowOutcome.BELOW_ACK_QUORUM, WindowOutcome.LOST)


def subsets(names: Set[str]) -> Iterator[frozenset[str]]:
    """Return all subsets, the empty one first."""
    ordered = sorted(names)
    sizes = range(len(ordered) + 1)
    return map(frozenset, chain.from_iterable(combinations(ordered, size) for size in sizes))


def worlds(ledger: Ledger, entry: int, members: set[str], unread: set[str]) -> Iterator[set[str]]:
    """Yield the members that store an entry before the failure, in each world that agrees with the run."""
    lacking = {name for name in members if entry in ledger.missing.get(name, ())}
    absent = set() if ledger.doubted else lacking
    unclear = ((ledger.unknown | unread) & members | lacking) - absent
    for present in subsets(unclear):
        yield members - absent - unclear | present


def loss_outcome(copies: set[str], lost: Set[str], ledger: Ledger) -> WindowOutcome:
    """Return the effect of the loss of some bookies on an entry that the bookies ``copies`` store."""
    if not copies & lost:
        return WindowOutcome.UNHARMED
    remaining = len(copies - lost)
    if remaining == 0:
        return WindowOutcome.LOST
    return WindowOutcome.BELOW_ACK_QUORUM if remaining < ledger.ack else WindowOutcome.BELOW_WRITE_QUORUM


Bound = Callable[[Iterable[bool]], bool]


def amounts_of(fates: Iterable[set[WindowOutcome]], bound: Bound) -> Counter[tuple[WindowOutcome, str]]:
    """Return the counts of a ledger whose entries may have these outcomes, independent of each other.

    ``bound`` is ``all`` to count what is true in every world, or ``any`` for some world.
    """
    counts: Counter[tuple[WindowOutcome, str]] = Counter()
    worst = {WindowOutcome.UNHARMED}
    for of_entry in fates:
        worst = {max(before, fate) for before in worst for fate in of_entry}
        for fate in HARM:
            counts[fate, "entries"] += bound(outcome == fate for outcome in of_entry)
    for fate in HARM:
        counts[fate, "ledgers"] += bound(outcome == fate for outcome in worst)
    return +counts


def plain_fates(
    ledger: Ledger,
    lost: set[str],
    perhaps: set[str],
    unread: set[str],
    down: set[str],
    view: str,
    surely: bool = False,
) -> Counter[tuple[WindowOutcome, str]]:
    """Return the effect on a ledger of losing ``lost``, and perhaps some of ``perhaps``, by outcome and unit.

    With ``surely``, only entries and open ends with a copy on a bookie of ``lost`` count.
    """
    possible, today = view.endswith("possible"), view.startswith("today")
    fates = []
    for entry, names in ledger.entries():
        members = {*names}
        if surely and not members & lost:
            continue
        copy_sets = [*worlds(ledger, entry, members, unread)] if today else [members]
        loss_sets = [lost | subset for subset in subsets((perhaps - lost) & members)]
        fates.append(
            {loss_outcome(copies, lost_set, ledger) for copies in copy_sets for lost_set in loss_sets}
        )
    counts = amounts_of(fates, any if possible else all)
    if not ledger.closed:
        _, ensemble = ledger.segments[-1]
        gone_at_most = lost | perhaps if possible else lost
        silent = gone_at_most | down if today else gone_at_most
        for start in range(ledger.size):
            window = {ensemble[(start + i) % ledger.size] for i in range(ledger.write)}
            lost_set = window & (lost if surely else gone_at_most)
            if lost_set and len(window & silent) >= ledger.ack:
                counts[WindowOutcome.OPEN_END, "ledgers"] = 1
    return counts
