"""``bkaudit simulate``: the losses if some bookies, racks or regions fail, or for each single failure.

Each answer takes one pass over the run's ledgers. To simulate all failures, ledgers with equal windows are
merged. To simulate one failure, each ledger keeps its id, so that its owner can be looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, starmap

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
from auditor.model.states import WRITABLE_MODES
from auditor.runs.reader import RunReader, load_placement
from auditor.simulate.balance import LoadSums
from auditor.simulate.domains import MTTF_DAYS, MTTR_HOURS, CopysetSums, Domains, SetSums, flag_domain_members
from auditor.simulate.levels import LevelSums, find_levels, make_bounds, pair_loss_matrix
from auditor.simulate.loss import (
    TALLY_BOUNDS,
    UnresponsiveBookies,
    WindowOutcome,
    domain_sets,
    find_effect,
    tally,
)
from auditor.simulate.owner_losses import affected_ledgers, owner_losses
from auditor.simulate.run_windows import RunWindows
from auditor.simulate.windows import Bools, Longs
from auditor.simulate.writes import IsolationNumbers, write_answers

MAX_LEDGERS_SHOWN = 20
"""Largest number of ledgers, of namespaces and of topics in the result for a failure."""

FATE_TEXT_BY_LOSS = {(1, 0): "lost", (0, 1): "unrecoverable", (1, 1): "lost and unrecoverable"}
"""Text of a ledger's fate, by two flags: the ledger loses an entry, and recovery cannot close it."""

MAX_MATRIX_DOMAINS = 24
"""Largest number of domains in a `FailureMatrix`: those with most bytes."""


@dataclass(frozen=True)
class PlacedRun:
    """A run with the locations and registrations of its bookies."""

    run: RunReader
    placement_settings: PlacementSettings
    locations: Locations
    mode_by_bookie: dict[str, str | None]
    isolation: IsolationNumbers

    @classmethod
    def from_run(cls, run: RunReader, locations: Locations | None = None) -> PlacedRun:
        """Read the locations and registrations of a run.

        If ``locations`` is given, it replaces the run's locations.
        """
        placement_settings, recorded_locations = load_placement(run)
        bookie_rows = run.table("bookies", ["bookie_id", "registered"]).to_pylist()
        mode_by_bookie = {row["bookie_id"]: row["registered"] for row in bookie_rows}
        run_locations = recorded_locations if locations is None else locations
        return cls(
            run,
            placement_settings,
            run_locations,
            mode_by_bookie,
            IsolationNumbers(run, placement_settings, run_locations),
        )

    def windows(self, merge: bool = True) -> RunWindows:
        """Return the windows (entries on the same bookies). ``merge``: merge ledgers with equal windows."""
        return RunWindows(self.run.directory, merge, isolation=self.isolation)

    def unresponsive_bookies(self, windows: RunWindows) -> UnresponsiveBookies:
        """Return the bookies that do not answer, because they are not registered.

        If no bookie at all is registered, the run may have read a dump of a stopped cluster. In that case,
        every bookie might still answer.
        """
        bookies = windows.numbers.names
        is_unregistered = np.array([*(self.mode_by_bookie.get(bookie) is None for bookie in bookies), False])
        return UnresponsiveBookies(
            is_unregistered if self.has_registrations else np.zeros_like(is_unregistered), is_unregistered
        )

    @property
    def policy_and_setting_origins(self) -> tuple[str, str, str | None]:
        """Return the placement policy, where it was read from, and where the locations were read from."""
        return str(self.placement_settings.policy), self.placement_settings.origin, self.locations.origin

    @property
    def has_registrations(self) -> bool:
        """Return whether any bookie is registered."""
        return any(self.mode_by_bookie.values())

    def find_writable_bookies(self, absent_bookies: Sequence[str] = ()) -> list[str]:
        """Return the registered bookies that take entries, except those in ``absent_bookies``.

        A bookie that is registered both as writable and as read-only takes entries.
        """
        writable_modes = WRITABLE_MODES
        return [
            bookie
            for bookie, registration_mode in self.mode_by_bookie.items()
            if registration_mode in writable_modes and bookie not in absent_bookies
        ]

    def find_doubts(self, windows: RunWindows) -> Doubts:
        """Return the unknown facts about the run. Iterate over ``windows`` before you call this method."""
        bookies = windows.numbers.names
        return Doubts(
            windows.read.ledgers,
            windows.read.undecided_ledgers,
            len(self.run.report.run.gaps),
            self.run.report.run.in_doubt,
            windows.unread_bookies,
            tuple(sorted(bookie for bookie in bookies if self.locations.path(bookie) is None)),
            windows.read.not_closed_ledgers,
            self.has_registrations,
        )


def simulate_all(
    run: RunReader,
    locations: Locations | None = None,
    mttf_days: float = MTTF_DAYS,
    mttr_hours: float = MTTR_HOURS,
) -> Simulation:
    """Return the losses of all single failures and of the worst pairs of failures.

    The result also has the distance to data loss (how many domains must fail), the copysets (sets of bookies
    that have all copies of an entry), and the balance of the bookies.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    placed_run = PlacedRun.from_run(run, locations)
    windows = placed_run.windows()
    bookies = windows.numbers.names
    levels = find_levels(placed_run.locations, bookies)
    failure_sums = [LevelSums(sums_of_level, placed_run.locations, bookies) for sums_of_level in levels]
    copyset_sums, bookie_loads = CopysetSums(len(bookies)), LoadSums()
    for window_batch in windows:
        unresponsive_bookies = placed_run.unresponsive_bookies(windows)
        for level in failure_sums:
            level.add(window_batch, windows.numbers, unresponsive_bookies)
        copyset_sums.add(window_batch, windows.numbers)
        bookie_loads.add(window_batch, windows.numbers)
    bookies = windows.numbers.names
    return Simulation(
        run.path,
        *placed_run.policy_and_setting_origins,
        placed_run.find_doubts(windows),
        levels=tuple(level.result(bookies) for level in failure_sums),
        copysets=copyset_sums.result(mttf_days, mttr_hours),
        balance=bookie_loads.result(
            run, windows.numbers, placed_run.mode_by_bookie, placed_run.locations, levels
        ),
        writes=_write_answers(placed_run, windows, ()),
    )


@dataclass(frozen=True)
class FailureAnswer:
    """One failure, with all ledgers and owners that it affects. A `Simulation` lists only some of them.

    ``ledgers`` has rows of scope, id, lost, entries, bytes, unrecoverable. ``namespaces`` and ``topics`` are
    None if the run read no owners.
    """

    simulation: Simulation
    ledgers: Longs
    namespaces: Sequence[OwnerLoss] | None
    topics: Sequence[OwnerLoss] | None


def simulate_any_domains(
    run: RunReader, failed_count: int, level: Level, locations: Locations | None = None
) -> Simulation:
    """Return the worst failures of ``failed_count`` domains of one level, with details of the worst failure.

    Raises: the errors of `answer_any_domains`.
    """
    simulation, _ = answer_any_domains(run, failed_count, level, locations)
    return simulation


def answer_any_domains(
    run: RunReader, failed_count: int, level: Level, locations: Locations | None = None
) -> tuple[Simulation, FailureAnswer | None]:
    """Return the worst failures of ``failed_count`` domains, and all data that the worst one affects.

    The second result is None if no failure of that many domains is known to lose an entry.

    Raises:
        UsageError: the run has fewer domains.
        RunError: a table of the run is missing or broken.
    """
    placed_run = PlacedRun.from_run(run, locations)
    windows = placed_run.windows()
    bookies = windows.numbers.names
    failure_sums = LevelSums(level, placed_run.locations, bookies, failed_count)
    if failed_count > len(failure_sums.domains.names):
        domain_count = len(failure_sums.domains.names)
        raise UsageError(f"--any {failed_count} {level}: the run has only {domain_count} of them")
    for window_batch in windows:
        failure_sums.add(window_batch, windows.numbers, placed_run.unresponsive_bookies(windows))
    level_loss = failure_sums.result(bookies)
    simulation = Simulation(
        run.path,
        *placed_run.policy_and_setting_origins,
        placed_run.find_doubts(windows),
        levels=(level_loss,),
    )
    if not level_loss.sets:
        return simulation, None
    worst_failure = answer_failure(run, [(level, level_loss.sets[0].names)], locations)
    return replace(worst_failure.simulation, levels=simulation.levels), worst_failure


def failure_matrix(run: RunReader) -> FailureMatrix:
    """Return the losses of each pair of racks, or of each pair of bookies if no rack is known.

    The function makes one pass over the ledgers.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    _, locations = load_placement(run)
    windows = RunWindows(run.directory, must_merge=False)
    level = Level.RACK if locations.has_known_location else Level.BOOKIE
    domains = Domains(level, locations, windows.numbers.names)
    loss_sums = SetSums(2, max(len(domains.names), 1))
    for window_batch in windows:
        window_rows, sets = domain_sets(window_batch, domains.find_domain_numbers(windows.numbers), True, 2)
        loss_sums.add(sets, window_batch.entries[window_rows], window_batch.bytes[window_rows])
    heaviest_domains, loss_matrix = (
        pair_loss_matrix(loss_sums, MAX_MATRIX_DOMAINS) if domains.names else ([], [])
    )
    heaviest_domain_names = tuple(domains.names[domain_number] for domain_number in heaviest_domains)
    return FailureMatrix(
        str(level),
        heaviest_domain_names,
        tuple(map(tuple, loss_matrix)),
        len(domains.names) - len(heaviest_domain_names),
    )


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
    """Return the losses if all domains in ``failed_domains`` fail together: all affected ledgers and owners.

    Raises:
        UsageError: there is no such domain.
        RunError: a table of the run is missing or broken.
    """
    placed_run = PlacedRun.from_run(run, locations)
    windows = placed_run.windows(merge=False)
    domains_by_failure = [
        Domains(level, placed_run.locations, windows.numbers.names) for level, _ in failed_domains
    ]
    failing_domain_names = [
        domains.find_full_names(domain_names)
        for domains, (_, domain_names) in zip(domains_by_failure, failed_domains, strict=True)
    ]

    def lost_bookies() -> tuple[Bools, Bools]:
        """Return two arrays of flags by bookie number: certainly lost bookies, and possibly lost bookies."""
        membership_flags = [
            flag_domain_members(domain_names, domains, windows.numbers)
            for domain_names, domains in zip(failing_domain_names, domains_by_failure, strict=True)
        ]
        is_bookie_lost = np.logical_or.reduce([is_member for is_member, _ in membership_flags])
        return is_bookie_lost, np.logical_or.reduce(
            [may_be_lost for _, may_be_lost in membership_flags]
        ) & ~is_bookie_lost

    failure_sums = np.zeros((len(TALLY_BOUNDS), 1, len(WindowOutcome), 3), np.int64)
    affected_ledger_batches: list[Longs] = []
    for window_batch in windows:
        unresponsive_bookies = placed_run.unresponsive_bookies(windows)
        effect_on_batch = find_effect(window_batch, *lost_bookies())
        failure_sums += tally(
            window_batch, effect_on_batch, np.zeros(len(window_batch), np.int64), 1, unresponsive_bookies
        )
        affected_ledger_batches.append(affected_ledgers(window_batch, effect_on_batch, unresponsive_bookies))
    is_certainly_lost_bookie, _ = lost_bookies()
    lost_bookie_names = [
        bookie
        for bookie, is_lost in zip(windows.numbers.names, is_certainly_lost_bookie[:-1], strict=True)
        if is_lost
    ]
    affected_ledger_rows = np.concatenate([np.zeros((0, 6), np.int64), *affected_ledger_batches])
    affected_ledger_rows = affected_ledger_rows[
        np.lexsort((affected_ledger_rows[:, 1], affected_ledger_rows[:, 0]))
    ]
    namespaces, topics = owner_losses(run, affected_ledger_rows) or (None, None)
    simulation = Simulation(
        run.path,
        *placed_run.policy_and_setting_origins,
        placed_run.find_doubts(windows),
        failure=Failure(
            ", ".join(dict.fromkeys(str(level) for level, _ in failed_domains)),
            tuple(chain.from_iterable(failing_domain_names)),
            len(lost_bookie_names),
            *make_bounds(failure_sums[:, 0]),
        ),
        writes=_write_answers(placed_run, windows, lost_bookie_names),
        ledgers=tuple(starmap(_concerned_ledger, affected_ledger_rows[:MAX_LEDGERS_SHOWN].tolist())),
        ledgers_concerned=len(affected_ledger_rows),
        namespaces=None if namespaces is None else tuple(namespaces[:MAX_LEDGERS_SHOWN]),
        topics=None if topics is None else tuple(topics[:MAX_LEDGERS_SHOWN]),
        topics_concerned=len(topics or ()),
        namespaces_concerned=len(namespaces or ()),
    )
    return FailureAnswer(simulation, affected_ledger_rows, namespaces, topics)


def _concerned_ledger(
    scope_id: int, ledger_id: int, is_lost: int, entry_count: int, byte_count: int, is_unrecoverable: int
) -> ConcernedLedger:
    """Return a ledger from its row of `affected_ledgers`."""
    fate_text = FATE_TEXT_BY_LOSS[is_lost, is_unrecoverable]
    return ConcernedLedger(str(scope_id), str(ledger_id), fate_text, entry_count, byte_count)


def _write_answers(
    placed_run: PlacedRun, windows: RunWindows, lost_bookies: Sequence[str]
) -> tuple[WriteAnswer, ...]:
    writable_bookies = placed_run.find_writable_bookies(lost_bookies)
    return write_answers(
        windows.read.ledgers_by_shape,
        placed_run.isolation.isolations,
        writable_bookies,
        placed_run.placement_settings,
        placed_run.locations,
    )
