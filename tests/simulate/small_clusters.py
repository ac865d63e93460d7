"""Small made-up clusters and what they lose, entry by entry: the plain truth that simulate is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from auditor.codecs.availability.fold import fold_entries
from auditor.runs.directory import RunDirectory
from auditor.simulate.loss import Fate
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import Windows
from tests.made_runs import write_tables

BOOKIES = tuple("abcdefgh")
LAST = 40


@dataclass(frozen=True)
class Ledger:
    """A ledger, and which entries its bookies lack (``missing``) or may lack (``doubted``, ``unknown``)."""

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
        """Each entry that is known to be, and its bookies, one position after the other."""
        for number, (first, ensemble) in enumerate(self.segments):
            final = number + 1 == len(self.segments)
            if final and not self.closed:
                return
            end = self.last + 1 if final else self.segments[number + 1][0]
            for entry in range(first, min(end, self.last + 1) if self.closed else end):
                yield entry, [ensemble[(entry + i) % self.size] for i in range(self.write)]

    def striped(self, bookie: str) -> set[int]:
        """What the bookie should hold."""
        return {entry for entry, bookies in self.entries() if bookie in bookies}

    def metadata(self) -> dict[str, Any]:
        """Its row of the table ledgers."""
        return {
            "scope_id": self.scope, "ledger_id": self.id, "status": "ok", "undecidable": False,
            "state": self.state, "ensemble_size": self.size, "write_quorum": self.write,
            "ack_quorum": self.ack, "last_entry_id": self.last if self.closed else -1,
            "length": 10 * (self.last + 1) if self.closed else None,
            "segments": [{"first_entry_id": first, "ensemble": list(e)} for first, e in self.segments],
        }  # fmt: skip

    def judged(self) -> list[dict[str, Any]]:
        """Its row of the table judged, if it has one."""
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
    """Any ledger: E up to 7, segments, holes, open ones, bookies that lack some, all or an unknown part."""
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


SEVERAL = st.lists(ledgers(), min_size=1, max_size=8)


def numbered(found: list[Ledger]) -> list[Ledger]:
    """Ids of their own, in no order."""
    places = {id: number * 37 % 11 for number, id in enumerate(range(len(found)))}
    return [
        Ledger(**{**each.__dict__, "id": places[number], "scope": number % 2})
        for number, each in enumerate(found)
    ]


def run_of(drawn_run: Path, found: list[Ledger], unread: set[str]) -> RunDirectory:
    """The run ``drawn_run``, which is of these ledgers until the next example."""
    write_tables(
        drawn_run,
        ledgers=[each.metadata() for each in found],
        judged=[row for each in found for row in each.judged()],
        bookies=[{"bookie_id": name, "read": "unread" if name in unread else "read"} for name in BOOKIES],
    )
    return RunDirectory(str(drawn_run))


def windows_of_run(
    drawn_run: Path, found: list[Ledger], unread: set[str], merge: bool
) -> tuple[RunWindows, list[Windows]]:
    run = RunWindows(run_of(drawn_run, found, unread), merge)
    return run, list(run)


def plain_fates(
    ledger: Ledger,
    lost: set[str],
    perhaps: set[str],
    unread: set[str],
    down: set[str],
    view: str,
    surely: bool = False,
) -> Counter[tuple[Fate, str]]:
    """What a failure of ``lost``, and at worst of ``perhaps`` too, does to one ledger: by fate and unit.

    ``surely``: only what has a copy on a bookie of ``lost`` counts.
    """
    possible, today = view.endswith("possible"), view.startswith("today")
    gone = lost | perhaps if possible else lost
    counts: Counter[tuple[Fate, str]] = Counter()
    for entry, bookies in ledger.entries():
        lacking = {name: entry in ledger.missing.get(name, ()) for name in bookies} if today else {}
        absent = {name for name, lacks in lacking.items() if lacks and not ledger.doubted}
        unclear = {name for name, lacks in lacking.items() if lacks and ledger.doubted}
        unclear |= ({*ledger.unknown} | unread) & {*bookies} if today else set()
        unclear -= absent
        if not ({*bookies} & gone) - absent or (surely and not {*bookies} & lost):
            continue
        out = gone | absent | (unclear if possible else set())
        left = sum(name not in out for name in bookies)
        fate = (
            Fate.LOST if left == 0
            else Fate.BELOW_ACK_QUORUM if left < ledger.ack
            else Fate.BELOW_WRITE_QUORUM
        )  # fmt: skip
        counts[fate, "entries"] += 1
    if counts:
        counts[max(fate for fate, _ in counts), "ledgers"] = 1
    if not ledger.closed:
        _, ensemble = ledger.segments[-1]
        silent = gone | down if today else gone
        for start in range(ledger.size):
            window = [ensemble[(start + i) % ledger.size] for i in range(ledger.write)]
            if {*window} & (lost if surely else gone) and sum(
                name in silent for name in window
            ) >= ledger.ack:
                counts[Fate.OPEN_END, "ledgers"] = 1
    return counts
