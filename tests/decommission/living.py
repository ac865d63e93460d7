"""Scenarios on real bookies, side by side: the forecast for each, and the actual result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Rehearsal
from auditor.runs.reader import RunReader
from tests.clusters.store import Store
from tests.corpora.plain_readers import PlainLedger
from tests.decommission.cluster import RackedBookies, racked_cluster
from tests.decommission.fire import FIRE, FireResult, burn
from tests.decommission.scenarios import FIRST_BURNT, MOVED, RENAMED, WAITING, Case, Scenario

Audit = Callable[[Store, RackedBookies, Path, str], Path]
"""Audits a cluster into a new directory, by a placement policy."""

DISABLED = "/ledgers/underreplication/disable"
WAIT_S, DONE_S = 45, 150
"""So long is waited for a command that should never end (it sleeps 30 s first), and for one that should."""

MOVE_S = 60
"""So long after a command that waits still is waited for what should have moved."""


@dataclass(frozen=True)
class ScenarioResult:
    """The forecast, and the actual result: by case, its metadata and each bookie's number of new entries.

    ``cookies``: letters of bookies with a cookie. ``ends``: how the command ended for each bookie that left.
    """

    scenario: Scenario
    bookies: Mapping[str, str]
    forecast: Rehearsal
    ends: tuple[str, ...]
    ledgers: Mapping[str, PlainLedger]
    new: Mapping[str, Mapping[str, int]]
    cookies: frozenset[str]
    burnt: FireResult | None

    def names(self, case: Case) -> set[str]:
        """Return the letters of the bookies that the case's ensembles name afterwards."""
        letter = {id: letter for letter, id in self.bookies.items()}
        return {letter[id] for _, ensemble in self.ledgers[case.name].segments for id in ensemble}

    def forecast_of(self, case: Case) -> str:
        """Return the forecast cause that keeps the ledger, or `MOVED` if nothing keeps it."""
        number = self.scenario.cases.index(case) + 1
        for blocker in self.forecast.together.blockers:
            if any(sample.ledger_id == str(number) for sample in blocker.samples):
                return str(blocker.cause)
        return MOVED


def run_scenarios(root: Path, audit: Audit, chosen: Mapping[str, Scenario]) -> dict[str, ScenarioResult]:
    """Run every scenario; the clusters start one after the other, and so do the audits."""
    starting, auditing = Lock(), Lock()

    def run_scenario(name: str, scenario: Scenario) -> ScenarioResult:
        cluster = racked_cluster(root / name, list(scenario.racks.values()), scenario.settings)
        with starting:
            bookies, store = cluster.__enter__()
        try:
            ids = dict(zip(scenario.racks, bookies.ids, strict=True))
            _prepare(scenario, bookies, store, ids)
            with auditing:
                # A decommissioning needs the holds of an earlier run.
                audit(store, bookies, root / name / "runs" / "first", scenario.placement)
                run = audit(store, bookies, root / name / "runs" / "second", scenario.placement)
            return _take_out(scenario, bookies, store, ids, run)
        finally:
            cluster.__exit__(None, None, None)

    with ThreadPoolExecutor(len(chosen)) as pool:
        return dict(zip(chosen, pool.map(run_scenario, chosen, chosen.values()), strict=True))


def _prepare(scenario: Scenario, bookies: RackedBookies, store: Store, ids: Mapping[str, str]) -> None:
    for number, case in [*enumerate(scenario.cases, 1), *enumerate(_burning(scenario), FIRST_BURNT)]:
        ensemble = [ids[letter] for letter in case.ensemble]
        if case.lacks:
            bookies.record(number, ensemble, case.write_quorum, case.ack_quorum, case.entries - 1)
            for place, bookie in enumerate(ensemble):
                size, quorum = len(ensemble), case.write_quorum
                stripe = [e for e in range(case.entries) if (place - e) % size < quorum]
                bookies.add(number, bookie, [e for e in stripe if place != 1 or e not in case.lacks])
        else:
            bookies.create(number, ensemble, case.write_quorum, case.ack_quorum)
            bookies.append(number, case.entries)
            if not case.open:
                bookies.close(number)
    bookies.flush()
    for letter in scenario.down:
        bookies.stop(ids[letter])
    if scenario.disabled:
        store.client.create(DISABLED)


def _burning(scenario: Scenario) -> tuple[Case, ...]:
    return FIRE if scenario.burns else ()


def _take_out(
    scenario: Scenario, bookies: RackedBookies, store: Store, ids: Mapping[str, str], run: Path
) -> ScenarioResult:
    number = {case.name: ledger for ledger, case in enumerate(scenario.cases, 1)}
    forecast = rehearse(RunReader(run), [ids[letter] for letter in scenario.going])
    burnt = burn(bookies, ids, run) if scenario.burns else None
    before = bookies.stored_entries()
    ends = []
    if scenario.one_by_one:
        for bookie in forecast.order:
            bookies.stop(bookie)
            ends.append(bookies.decommission(bookie, DONE_S))
    else:
        for letter in scenario.going:
            bookies.stop(ids[letter])
        for name in scenario.deleted:
            bookies.delete(number[name])
        # The audit that the first one asks for marks the ledgers of all that are not registered.
        limits = [WAIT_S if WAITING in scenario.ends else DONE_S, *[5] * len(scenario.going)]
        ends = [
            bookies.decommission(ids[key], limit) for key, limit in zip(scenario.going, limits, strict=False)
        ]
        if WAITING in scenario.ends:
            _await_moves(scenario, store, {ids[key] for key in (*scenario.going, *scenario.down)})
    if scenario.disabled:
        _copy_off(bookies, ids["x"], number["Qw 1"])
    after, metadata = bookies.stored_entries(), store.snapshot().ledgers
    letters = {id: letter for letter, id in ids.items()}
    new = {
        name: {
            letters[bookie]: len(extra)
            for bookie, copies in after.items()
            if (extra := copies.get(ledger, frozenset()) - before.get(bookie, {}).get(ledger, frozenset()))
        }
        for name, ledger in number.items()
    }
    cookies = frozenset(letters[key] for key in store.client.get_children("/ledgers/cookies"))
    ledgers = {name: metadata[ledger] for name, ledger in number.items() if ledger in metadata}
    return ScenarioResult(scenario, ids, forecast, tuple(ends), ledgers, new, cookies, burnt)


def _await_moves(scenario: Scenario, store: Store, bookies: set[str]) -> None:
    """Wait until no ledger that moves names a bookie that is gone, or until the time limit."""
    moving = [ledger for ledger, case in enumerate(scenario.cases, 1) if case.outcome in (MOVED, RENAMED)]
    end = time.monotonic() + MOVE_S
    while time.monotonic() < end:
        ledgers = store.snapshot().ledgers
        if not any({*ensemble} & bookies for ledger in moving for _, ensemble in ledgers[ledger].segments):
            return
        time.sleep(1)


def _copy_off(bookies: RackedBookies, bookie: str, ledger: int) -> None:
    """Copy a ledger with one copy while its bookie runs, as the forecast recommends."""
    bookies.start(bookie)
    bookies.recover(bookie, ledger)
