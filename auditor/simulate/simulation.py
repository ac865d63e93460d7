"""``bkaudit simulate``: the losses of one failure of some bookies, or of every possible failure.

Each answer takes one pass over the run's ledgers. To simulate all failures, equal ledgers are merged. To
simulate one failure, each ledger keeps its id, so that its owner can be looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from auditor.errors import UsageError
from auditor.model.placement import Level, Locations, PlacementSettings
from auditor.model.simulation import (
    ConcernedLedger,
    Doubts,
    Failure,
    FailureMatrix,
    OwnerLoss,
    Simulation,
    WriteAnswer,
)
from auditor.model.states import TAKES_WRITES
from auditor.runs.reader import RunReader, load_placement
from auditor.simulate.balance import LoadSums
from auditor.simulate.domains import MTTF_DAYS, MTTR_HOURS, CopysetSums, Domains, SetSums, flag_domain_members
from auditor.simulate.levels import LevelSums, bounds_of, levels_of, pair_loss_matrix
from auditor.simulate.loss import (
    VIEWS,
    SilentBookies,
    WindowOutcome,
    affected_ledgers,
    domain_sets,
    failure_effect,
    owner_losses,
    tally,
)
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import Bools, Longs
from auditor.simulate.writes import IsolationNumbers, write_answers

LEDGERS_SHOWN = 20
"""Largest number of ledgers, of namespaces and of topics in the result for a failure."""

FATE_BY_LOSS = {(1, 0): "lost", (0, 1): "unrecoverable", (1, 1): "lost and unrecoverable"}
"""Words for the fate of a ledger, by two flags: whether it loses an entry, whether it is unrecoverable."""

MAX_MATRIX_DOMAINS = 24
"""Largest number of domains in a matrix. A matrix has the domains with the largest loss."""


@dataclass(frozen=True)
class PlacedRun:
    """A run with the locations and registrations of its bookies."""

    run: RunReader
    settings: PlacementSettings
    locations: Locations
    registered: dict[str, str | None]
    isolation: IsolationNumbers

    @classmethod
    def of(cls, run: RunReader, locations: Locations | None = None) -> PlacedRun:
        """Read locations and registrations of a run. ``locations`` replace those of the run if given."""
        settings, recorded_locations = load_placement(run)
        rows = run.table("bookies", ["bookie_id", "registered"]).to_pylist()
        modes = {row["bookie_id"]: row["registered"] for row in rows}
        run_locations = recorded_locations if locations is None else locations
        return cls(run, settings, run_locations, modes, IsolationNumbers(run, settings, run_locations))

    def windows(self, merge: bool = True) -> RunWindows:
        """Return the windows of the run's ledgers (`auditor.simulate.windows`)."""
        return RunWindows(self.run.directory, merge, isolation=self.isolation)

    def silent_bookies(self, windows: RunWindows) -> SilentBookies:
        """Return the bookies that do not answer.

        If no bookie is registered, the run may have read a dump of a stopped cluster. No bookie then counts
        as certainly silent.
        """
        names = windows.numbers.names
        is_unregistered = np.array([*(self.registered.get(name) is None for name in names), False])
        return SilentBookies(
            is_unregistered if self.has_registrations else np.zeros_like(is_unregistered), is_unregistered
        )

    @property
    def policy_and_origins(self) -> tuple[str, str, str | None]:
        """Return the policy, its origin, and the origin of the locations."""
        return str(self.settings.policy), self.settings.origin, self.locations.origin

    @property
    def has_registrations(self) -> bool:
        """Return whether any bookie is registered."""
        return any(self.registered.values())

    def writable(self, absent_bookies: Sequence[str] = ()) -> list[str]:
        """Return the bookies that would still take entries, except those in ``absent_bookies``.

        A bookie that is registered both as writable and as read-only takes entries.
        """
        modes = TAKES_WRITES
        return [
            name for name, mode in self.registered.items() if mode in modes and name not in absent_bookies
        ]

    def doubts(self, windows: RunWindows) -> Doubts:
        """Return what is unknown about the run. Call this method after a pass over ``windows``."""
        names = windows.numbers.names
        return Doubts(
            windows.read.ledgers,
            windows.read.undecided,
            len(self.run.report.run.gaps),
            self.run.report.run.in_doubt,
            windows.unread_bookies,
            tuple(sorted(name for name in names if self.locations.path(name) is None)),
            windows.read.not_closed,
            self.has_registrations,
        )


def simulate_all(
    run: RunReader,
    locations: Locations | None = None,
    mttf_days: float = MTTF_DAYS,
    mttr_hours: float = MTTR_HOURS,
) -> Simulation:
    """Return the losses of all single failures and of the worst pairs of failures.

    The result also has the distance to data loss, the copysets, and the balance of the bookies.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    placed = PlacedRun.of(run, locations)
    windows = placed.windows()
    names = windows.numbers.names
    levels = levels_of(placed.locations, names)
    sums = [LevelSums(level, placed.locations, names) for level in levels]
    copysets, loads = CopysetSums(len(names)), LoadSums()
    for window_batch in windows:
        silent_bookies = placed.silent_bookies(windows)
        for level in sums:
            level.add(window_batch, windows.numbers, silent_bookies)
        copysets.add(window_batch, windows.numbers)
        loads.add(window_batch, windows.numbers)
    names = windows.numbers.names
    return Simulation(
        run.path,
        *placed.policy_and_origins,
        placed.doubts(windows),
        levels=tuple(level.result(names) for level in sums),
        copysets=copysets.result(mttf_days, mttr_hours),
        balance=loads.result(run, windows.numbers, placed.registered, placed.locations, levels),
        writes=_write_answers(placed, windows, ()),
    )


@dataclass(frozen=True)
class FailureAnswer:
    """One failure with all ledgers and owners that it affects. A `Simulation` has only the first of them.

    ``ledgers`` has rows of scope, id, lost, entries, bytes, unrecoverable. ``namespaces`` and ``topics`` are
    None if the run read no owners.
    """

    simulation: Simulation
    ledgers: Longs
    namespaces: Sequence[OwnerLoss] | None
    topics: Sequence[OwnerLoss] | None


def simulate_any(run: RunReader, number: int, level: Level, locations: Locations | None = None) -> Simulation:
    """Return the worst failures of ``number`` domains of one level, with details of the worst failure.

    Raises: the errors of `answer_any`.
    """
    simulation, _ = answer_any(run, number, level, locations)
    return simulation


def answer_any(
    run: RunReader, number: int, level: Level, locations: Locations | None = None
) -> tuple[Simulation, FailureAnswer | None]:
    """Return the worst failures of ``number`` domains of one level, and all that the worst one affects.

    The second result is None if no failure of ``number`` domains is known to lose an entry.

    Raises:
        UsageError: the run has fewer domains.
        RunError: a table of the run is missing or broken.
    """
    placed = PlacedRun.of(run, locations)
    windows = placed.windows()
    names = windows.numbers.names
    sums = LevelSums(level, placed.locations, names, number)
    if number > len(sums.domains.names):
        domain_count = len(sums.domains.names)
        raise UsageError(f"--any {number} {level}: the run has only {domain_count} of them")
    for window_batch in windows:
        sums.add(window_batch, windows.numbers, placed.silent_bookies(windows))
    level_loss = sums.result(names)
    simulation = Simulation(
        run.path, *placed.policy_and_origins, placed.doubts(windows), levels=(level_loss,)
    )
    if not level_loss.sets:
        return simulation, None
    worst_failure = answer_failure(run, [(level, level_loss.sets[0].names)], locations)
    return replace(worst_failure.simulation, levels=simulation.levels), worst_failure


def failure_matrix(run: RunReader) -> FailureMatrix:
    """Return the losses of each pair of racks, or of bookies if no rack is known. One pass over the ledgers.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    _, locations = load_placement(run)
    windows = RunWindows(run.directory, merge=False)
    level = Level.RACK if locations.has_known_location else Level.BOOKIE
    domains = Domains(level, locations, windows.numbers.names)
    sums = SetSums(2, max(len(domains.names), 1))
    for window_batch in windows:
        rows, sets = domain_sets(window_batch, domains.of(windows.numbers), True, 2)
        sums.add(sets, window_batch.entries[rows], window_batch.bytes[rows])
    heaviest_domains, loss_matrix = pair_loss_matrix(sums, MAX_MATRIX_DOMAINS) if domains.names else ([], [])
    names = tuple(domains.names[number] for number in heaviest_domains)
    return FailureMatrix(str(level), names, tuple(map(tuple, loss_matrix)), len(domains.names) - len(names))


def simulate_failure(
    run: RunReader, failed_domains: Sequence[tuple[Level, Sequence[str]]], locations: Locations | None = None
) -> Simulation:
    """Return the losses if all domains in ``failed_domains`` fail together.

    Raises: the errors of `answer_failure`.
    """
    return answer_failure(run, failed_domains, locations).simulation


def answer_failure(
    run: RunReader, failed_domains: Sequence[tuple[Level, Sequence[str]]], locations: Locations | None = None
) -> FailureAnswer:
    """Return the losses if all domains in ``failed_domains`` fail together, with every ledger and owner.

    Raises:
        UsageError: there is no such domain.
        RunError: a table of the run is missing or broken.
    """
    placed = PlacedRun.of(run, locations)
    windows = placed.windows(merge=False)
    failing_domains = [Domains(level, placed.locations, windows.numbers.names) for level, _ in failed_domains]
    failing_numbers = [
        domains.named(names) for domains, (_, names) in zip(failing_domains, failed_domains, strict=True)
    ]

    def lost_bookies() -> tuple[Bools, Bools]:
        """Return two flags per bookie number: whether it is certainly lost, and whether it may be."""
        member_flags = [
            flag_domain_members(names, domains, windows.numbers)
            for names, domains in zip(failing_numbers, failing_domains, strict=True)
        ]
        is_down = np.logical_or.reduce([is_member for is_member, _ in member_flags])
        return is_down, np.logical_or.reduce([is_possible for _, is_possible in member_flags]) & ~is_down

    sums = np.zeros((len(VIEWS), 1, len(WindowOutcome), 3), np.int64)
    affected_batches: list[Longs] = []
    for window_batch in windows:
        silent_bookies = placed.silent_bookies(windows)
        effect = failure_effect(window_batch, *lost_bookies())
        sums += tally(window_batch, effect, np.zeros(len(window_batch), np.int64), 1, silent_bookies)
        affected_batches.append(affected_ledgers(window_batch, effect, silent_bookies))
    is_surely_lost, _ = lost_bookies()
    lost_bookie_names = [
        name for name, is_lost in zip(windows.numbers.names, is_surely_lost[:-1], strict=True) if is_lost
    ]
    rows = np.concatenate([np.zeros((0, 6), np.int64), *affected_batches])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    namespaces, topics = owner_losses(run, rows) or (None, None)
    simulation = Simulation(
        run.path,
        *placed.policy_and_origins,
        placed.doubts(windows),
        failure=Failure(
            ", ".join(dict.fromkeys(str(level) for level, _ in failed_domains)),
            tuple(chain.from_iterable(failing_numbers)),
            len(lost_bookie_names),
            *bounds_of(sums[:, 0]),
        ),
        writes=_write_answers(placed, windows, lost_bookie_names),
        ledgers=tuple(
            ConcernedLedger(
                str(scope), str(ledger), FATE_BY_LOSS[is_lost, unrecoverable], entries, loss_matrix
            )
            for scope, ledger, is_lost, entries, loss_matrix, unrecoverable in rows[:LEDGERS_SHOWN].tolist()
        ),
        ledgers_concerned=len(rows),
        namespaces=None if namespaces is None else tuple(namespaces[:LEDGERS_SHOWN]),
        topics=None if topics is None else tuple(topics[:LEDGERS_SHOWN]),
        topics_concerned=len(topics or ()),
        namespaces_concerned=len(namespaces or ()),
    )
    return FailureAnswer(simulation, rows, namespaces, topics)


def _write_answers(
    placed: PlacedRun, windows: RunWindows, lost_bookies: Sequence[str]
) -> tuple[WriteAnswer, ...]:
    writable = placed.writable(lost_bookies)
    return write_answers(
        windows.read.shapes, placed.isolation.isolations, writable, placed.settings, placed.locations
    )
