"""Rehearsal of a decommission. It simulates the removal of bookies, both together and one by one.

One pass over the ledgers is enough. The rehearsal also reads the state of AutoRecovery from the run:
auditor, workers and waiting ledgers.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.decommission.ledger_blockers import ledger_blockers
from auditor.decommission.permission import (
    decommission_commands,
    gate_blockers,
    notices_of,
    permit_decommission,
)
from auditor.decommission.targets import SpareBookies
from auditor.decommission.trial import TrialSums, flag_ledgers_naming, segments_of
from auditor.model import decommission as model
from auditor.model.amounts import age, plural
from auditor.model.decommission import (
    LASTING_CAUSES,
    UNPROVED_CAUSES,
    Answer,
    Blocker,
    CandidateCounts,
    Cause,
    CopyLoad,
    CopyWork,
    DoubtCount,
    RegisteredBookie,
    Rehearsal,
)
from auditor.model.replacements import refuses_by_location
from auditor.model.states import WRITABLE_MODES, MarkRowKind
from auditor.runs.load_bookie import whole_bookie_id
from auditor.runs.reader import RunReader, load_placement
from auditor.simulate.copy_states import CopyStates
from auditor.simulate.run_windows import decided_ledgers
from auditor.simulate.windows import BookieNumbers, make_windows
from auditor.simulate.writes import IsolationNumbers

IDLE_MARK_AGE_MS = 24 * 60 * 60 * 1000
"""Age (ms) from which an under-replication mark counts as stuck, if no worker has locked a ledger."""

_AUDITOR_FACTS = ("auditor", "auditor-candidate")


@dataclass(frozen=True, slots=True)
class AutoRecoveryState:
    """State of AutoRecovery after the removal of bookies.

    ``workers`` is the number of AutoRecovery processes that remain. ``blockers`` has the causes that
    prevent AutoRecovery from copying any ledger. ``doubts`` has the facts about AutoRecovery that are
    unknown.
    """

    workers: int
    blockers: tuple[Blocker, ...]
    doubts: tuple[DoubtCount, ...]


def read_auto_recovery(run: RunReader, leaving_bookies: Collection[str]) -> AutoRecoveryState:
    """Return the state of AutoRecovery once ``leaving_bookies`` and their AutoRecovery processes stop."""
    cluster_facts = run.table("cluster", ["fact", "value", "damage"]).to_pylist()
    staying_auditors = [
        row["value"]
        for row in cluster_facts
        if row["fact"] in _AUDITOR_FACTS and row["value"] not in leaving_bookies
    ]
    blockers, doubts = [], []
    does_store_marks, are_marks_listed = run.report.run.keeps_marks, run.report.run.marks_listed
    if does_store_marks is False:
        blockers.append(Blocker(Cause.NO_MARKS))
    else:
        if any(row["fact"] == "replication-disabled" for row in cluster_facts):
            blockers.append(Blocker(Cause.REPLICATION_OFF))
        if not staying_auditors:
            leaving_auditors = sorted(
                str(row["value"]) for row in cluster_facts if row["fact"] in _AUDITOR_FACTS
            )
            blockers.append(Blocker(Cause.NO_AUDITOR, detail=", ".join(leaving_auditors)))
        blockers += _find_idle_workers(run)
        if not (does_store_marks and are_marks_listed):
            doubts.append(DoubtCount("under-replication marks that were not read", 0))
    return AutoRecoveryState(len(staying_auditors), tuple(blockers), tuple(doubts))


def _find_idle_workers(run: RunReader) -> Iterator[Blocker]:
    """Yield a blocker if workers seem idle: there are old under-replication marks and no locked ledger."""
    scan_time, oldest_mark_time, old_mark_count, locked_ledger_count = run.report.run.scan_time, None, 0, 0
    for batch in run.batches("tables/marks", ["kind", "ctime", "mtime"]):
        locked_ledger_count += int(pc.sum(pc.equal(batch["kind"], MarkRowKind.LOCK.value)).as_py() or 0)
        marks_of_batch = batch.filter(pc.equal(batch["kind"], MarkRowKind.MARK.value))
        mark_times = pc.coalesce(marks_of_batch["ctime"], marks_of_batch["mtime"]).drop_null()
        old_mark_times = mark_times.filter(pc.less(mark_times, scan_time - IDLE_MARK_AGE_MS))
        old_mark_count += len(old_mark_times)
        if len(old_mark_times):
            oldest_mark_time_of_batch = pc.min(old_mark_times).as_py()
            oldest_mark_time = (
                oldest_mark_time_of_batch
                if oldest_mark_time is None
                else min(oldest_mark_time_of_batch, oldest_mark_time)
            )
    if oldest_mark_time is not None and not locked_ledger_count:
        yield Blocker(
            Cause.IDLE_WORKERS,
            detail=f"{plural(old_mark_count, 'mark')}, the oldest from {age(oldest_mark_time, scan_time)}",
        )


COMMAND_SLEEP_SECONDS = 30
"""Seconds that ``decommissionbookie`` sleeps before its first check."""


def rehearse(
    run: RunReader,
    id_prefixes: Sequence[str],
    bytes_per_second: int | None = None,
    round_trip_ms: float = 1.0,
) -> Rehearsal:
    """Rehearse the removal of bookies, and return whether they may be removed.

    Args:
        run: A finished run.
        id_prefixes: The ids of the bookies, or unique prefixes of the ids.
        bytes_per_second: Bytes per second that one replication worker copies. If None, no duration is
            computed.
        round_trip_ms: Duration of a read or a write of one entry, ms.

    Raises:
        RunUsageError: a prefix matches no bookie of the run, or several.
        RunError: a table of the run is missing or broken.
    """
    return rehearse_by_ledger(run, id_prefixes, bytes_per_second, round_trip_ms)[0]


def rehearse_by_ledger(
    run: RunReader,
    id_prefixes: Sequence[str],
    bytes_per_second: int | None = None,
    round_trip_ms: float = 1.0,
) -> tuple[Rehearsal, TrialSums]:
    """Return the result of `rehearse`, and the sums over ledgers if all bookies are removed together."""
    leaving_bookies = list(dict.fromkeys(whole_bookie_id(run, id_prefix) for id_prefix in id_prefixes))
    bookies = _RunBookies(run, leaving_bookies)
    placement_settings, locations = load_placement(run)
    auto_recovery = read_auto_recovery(run, {*leaving_bookies, *bookies.absent})

    registered_bookies = [name for name in bookies.names if bookies.mode_by_id[name] is not None]
    isolation_numbers = IsolationNumbers(run, placement_settings, locations)
    replacement_targets = SpareBookies(
        bookies.names,
        bookies.is_spare,
        registered_bookies,
        placement_settings,
        locations,
        isolation_numbers.isolations,
    )

    def new_trial(bookie_ids: Sequence[str]) -> TrialSums:
        return TrialSums(
            bookies.find_numbers(bookie_ids), bookies.find_numbers(bookies.absent), replacement_targets
        )

    trials = [new_trial(leaving_bookies)] + [
        new_trial([bookie_id]) for bookie_id in leaving_bookies if len(leaving_bookies) > 1
    ]
    undecided_ledger_count = _run_trials(run, bookies, trials, isolation_numbers)
    unplaced_bookie_count = sum(
        name not in locations.by_bookie or locations.by_bookie[name].path is None
        for name in registered_bookies
    )
    unplaced_bookie_count = unplaced_bookie_count if refuses_by_location(placement_settings) else 0
    doubts = [*auto_recovery.doubts, *_find_doubts(run, undecided_ledger_count, unplaced_bookie_count)]
    joint_trial, *single_trials = (
        _make_outcome(
            run, bookies, trial_sums, bookie_ids, auto_recovery, doubts, bool(unplaced_bookie_count)
        )
        for trial_sums, bookie_ids in zip(
            trials, [leaving_bookies, *([name] for name in leaving_bookies)], strict=False
        )
    )
    rehearsal = Rehearsal(
        run=run.path,
        scan_time=run.report.run.scan_time,
        bookies=tuple(leaving_bookies),
        registered=tuple(
            RegisteredBookie(bookie_id, bookies.mode_by_id[bookie_id]) for bookie_id in leaving_bookies
        ),
        absent=tuple(bookies.absent),
        spares=int(bookies.is_spare.sum()),
        policy=str(placement_settings.policy),
        policy_origin=placement_settings.origin,
        mapping_origin=locations.origin,
        workers=auto_recovery.workers,
        together=joint_trial,
        alone=tuple(single_trials),
        order=_decommission_order(trials[0], single_trials),
        seconds=_copy_seconds(joint_trial.work, auto_recovery.workers, bytes_per_second, round_trip_ms),
    )
    return rehearsal, trials[0]


class _RunBookies:
    """Bookies of a run, each with a number (its index in ``names``).

    ``is_spare`` flags the bookies that can take copies. ``absent`` has all bookies in ensembles that are not
    registered, but not the bookies that leave.
    """

    def __init__(self, run: RunReader, leaving_bookies: Sequence[str]) -> None:
        bookie_rows = run.table("bookies", ["bookie_id", "registered", "named"]).to_pylist()
        self.names = sorted(row["bookie_id"] for row in bookie_rows)
        self.numbers = BookieNumbers(self.names)
        self.mode_by_id: dict[str, str | None] = {row["bookie_id"]: row["registered"] for row in bookie_rows}
        self.absent = sorted(
            row["bookie_id"]
            for row in bookie_rows
            if row["named"] and row["registered"] is None and row["bookie_id"] not in leaving_bookies
        )
        # A bookie that is registered both as writable and as read-only takes writes.
        self.is_spare = np.array(
            [self.mode_by_id[name] in WRITABLE_MODES and name not in leaving_bookies for name in self.names],
            bool,
        )

    def find_numbers(self, bookie_ids: Sequence[str]) -> list[int]:
        """Return the numbers of the bookies with these names."""
        return [self.names.index(name) for name in bookie_ids]


def _run_trials(
    run: RunReader, bookies: _RunBookies, trials: Sequence[TrialSums], isolation_numbers: IsolationNumbers
) -> int:
    """Add each ledger on a removed bookie to all ``trials``. Return how many ledgers have unknown bookies."""
    is_removed_bookie = np.logical_or.reduce([trial.is_removed_bookie for trial in trials])
    copy_states = CopyStates(run.directory, bookies.numbers)
    undecided_ledger_count = 0
    for ledger_rows, undecided_ledgers_of_batch in decided_ledgers(run.directory, isolation_numbers.columns):
        undecided_ledger_count += undecided_ledgers_of_batch
        affected_rows = ledger_rows.filter(
            pa.array(flag_ledgers_naming(ledger_rows, is_removed_bookie, bookies.numbers))
        )
        if len(affected_rows):
            entry_windows = copy_states.add_copy_states(make_windows(affected_rows, bookies.numbers))
            segments = segments_of(
                affected_rows, bookies.numbers, isolation_numbers.number_isolations(affected_rows)
            )
            for trial_sums in trials:
                trial_sums.add(segments, entry_windows)
    return undecided_ledger_count


def _find_doubts(
    run: RunReader, undecided_ledger_count: int, unplaced_bookie_count: int
) -> Iterator[DoubtCount]:
    """Yield each kind of unknown fact that makes all trial removals uncertain, with its count."""
    run_facts = run.report.run
    if unplaced_bookie_count:
        yield DoubtCount(
            "registered bookies without a known location, although the policy needs one",
            unplaced_bookie_count,
        )
    if undecided_ledger_count:
        yield DoubtCount(
            "ledgers whose metadata does not show which bookies hold entries", undecided_ledger_count
        )
    if run_facts.in_doubt:
        yield DoubtCount(
            "ledger ids that may exist in parts of the metadata that were not read",
            int(run_facts.in_doubt["ids"] or 0),
        )
    if run_facts.gaps:
        yield DoubtCount("parts of the metadata that were not read", len(run_facts.gaps))
    bookie_listing = run_facts.bookies_listed
    if bookie_listing is None or bookie_listing["hidden"] or bookie_listing["unclear"]:
        unread_registration_count = len(bookie_listing["unclear"]) if bookie_listing else 0
        yield DoubtCount("bookie registrations that were not read", unread_registration_count)


def _make_outcome(
    run: RunReader,
    bookies: _RunBookies,
    trial_sums: TrialSums,
    removed_bookies: Sequence[str],
    auto_recovery: AutoRecoveryState,
    doubts: Sequence[DoubtCount],
    has_unplaced_bookies: bool,
) -> model.RemovalTrial:
    ids, cause_codes = trial_sums.all_blocked_ledgers()
    work_sums = {name: round(work_sum) for name, work_sum in trial_sums.sums.items()}
    moving_count = work_sums["ledgers"] + len(cause_codes)
    blockers = list(ledger_blockers(run, ids, cause_codes))
    blockers = [
        replace(blocker, detail=", ".join(bookies.absent)) if blocker.cause is model.Cause.ABSENT else blocker
        for blocker in blockers
    ]
    # Without an auditor the command fails and does not delete the cookie, even if no ledger has to move.
    blockers += [
        blocker
        for blocker in auto_recovery.blockers
        if moving_count or blocker.cause is not model.Cause.IDLE_WORKERS
    ]
    registered_names = [name for name in removed_bookies if bookies.mode_by_id[name] is not None]
    permission = permit_decommission(run, removed_bookies, registered_names)
    # Certain causes come before uncertain ones.
    blockers = sorted(
        [*gate_blockers(permission), *blockers], key=lambda blocker: blocker.cause in UNPROVED_CAUSES
    )
    doubt_counts = [
        *doubts,
        *(DoubtCount(doubt_text, count) for doubt_text, count in trial_sums.doubts.items() if count),
    ]
    neighbour_ledger_count = work_sums.pop("along")
    return model.RemovalTrial(
        tuple(removed_bookies),
        _decide_answer(
            [
                blocker
                for blocker in blockers
                if not (has_unplaced_bookies and blocker.cause in _LOCATION_CAUSES)
            ],
            bool(doubt_counts),
        ),
        tuple(blockers),
        CopyWork(**work_sums),
        _copy_loads(bookies, trial_sums),
        _candidate_counts(trial_sums),
        neighbour_ledger_count,
        tuple(doubt_counts),
        notices_of(permission),
        decommission_commands(permission, removed_bookies),
        permission,
    )


_LOCATION_CAUSES = (model.Cause.NO_ALLOWED_SPARE,)
"""Causes that are uncertain while locations of bookies are unknown."""


def _decide_answer(blockers: Sequence[model.Blocker], has_doubts: bool) -> Answer:
    if any(blocker.cause in LASTING_CAUSES for blocker in blockers):
        return Answer.NEVER
    if any(blocker.cause not in UNPROVED_CAUSES for blocker in blockers):
        return Answer.AFTER
    return Answer.UNKNOWN if has_doubts or blockers else Answer.NOW


def _copy_loads(bookies: _RunBookies, trial_sums: TrialSums) -> tuple[CopyLoad, ...]:
    loads_by_bookie = np.rint(np.concatenate([trial_sums.read_load, trial_sums.write_load])).astype(np.int64)
    return tuple(
        CopyLoad(name, *map(int, loads_by_bookie[:, bookie_number]))
        for bookie_number, name in enumerate(bookies.names)
        if loads_by_bookie[:, bookie_number].any()
    )


def _candidate_counts(trial_sums: TrialSums) -> CandidateCounts:
    possible_candidate_counts = np.flatnonzero(trial_sums.candidate_hist)
    if not len(possible_candidate_counts):
        return CandidateCounts(None, 0, 0)
    return CandidateCounts(
        int(possible_candidate_counts[0]),
        int(possible_candidate_counts[-1]),
        int(trial_sums.candidate_hist[possible_candidate_counts[0]]),
    )


def _decommission_order(
    joint_trial_sums: TrialSums, single_trials: Sequence[model.RemovalTrial]
) -> tuple[str, ...]:
    """Return the order in which to remove the bookies one by one: the bookie with the least copying first.

    The result is empty if one of the bookies must not be removed. It is also empty if a ledger has too few
    spare bookies to replace all leaving bookies. The last removal would then fail.
    """
    if joint_trial_sums.ledgers_without_spare or not all(
        trial.answer in (Answer.NOW, Answer.AFTER) for trial in single_trials
    ):
        return ()
    trials_by_cost = sorted(
        single_trials, key=lambda trial: (trial.work.copied_bytes, trial.work.copied, trial.bookies)
    )
    return tuple(trial.bookies[0] for trial in trials_by_cost)


def _copy_seconds(
    copy_work: CopyWork, workers: int, bytes_per_second: int | None, round_trip_ms: float
) -> float | None:
    if bytes_per_second is None or not workers:
        return None
    waiting_seconds = copy_work.batches * 2 * round_trip_ms / 1000
    return COMMAND_SLEEP_SECONDS + (waiting_seconds + copy_work.copied_bytes / bytes_per_second) / workers
