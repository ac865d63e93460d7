"""Rehearsal of a decommission: one pass over a finished run's ledgers, for each combination of bookies.

The rehearsal begins with the state of AutoRecovery in the metadata store: auditor, workers and waiting
ledgers. For each cause it reports the first blocked ledgers, and the topics of all of them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.decommission.permission import (
    decommission_commands,
    gate_blockers,
    notices_of,
    permit_decommission,
)
from auditor.decommission.targets import Targets
from auditor.decommission.trial import CAUSES, TrialSums, flag_ledgers_naming, segments_of
from auditor.model import decommission as model
from auditor.model.amounts import age, plural
from auditor.model.columns import LEDGER
from auditor.model.decommission import (
    LASTING_CAUSES,
    UNSURE,
    Answer,
    Blocker,
    Candidates,
    Cause,
    CopyLoad,
    DoubtCount,
    LedgerName,
    Registered,
    Rehearsal,
    TopicCount,
    Work,
)
from auditor.model.replacements import refuses_by_location
from auditor.model.states import TAKES_WRITES, MarkRow
from auditor.runs.load_bookie import whole_bookie_id
from auditor.runs.owners import NAME_COLUMNS, has_owners, owned
from auditor.runs.reader import RunReader, load_placement
from auditor.simulate.run_windows import CopyStates, decided_ledgers
from auditor.simulate.windows import BookieNumbers, Longs, windows_of
from auditor.simulate.writes import IsolationNumbers

IDLE_MARK_AGE_MS = 24 * 60 * 60 * 1000
"""Age in ms at which an under-replication mark is stuck if no ledger is locked (as in `mark-stuck`)."""

_AUDITORS = ("auditor", "auditor-candidate")


@dataclass(frozen=True, slots=True)
class AutoRecoveryState:
    """State of AutoRecovery, with the causes for which it can move no ledger.

    ``workers`` is the number of AutoRecovery processes that remain when the bookies are removed.
    """

    workers: int
    blockers: tuple[Blocker, ...]
    doubts: tuple[DoubtCount, ...]


def read_auto_recovery(run: RunReader, leaving_bookies: Collection[str]) -> AutoRecoveryState:
    """Return the state of AutoRecovery after ``leaving_bookies`` have stopped with their processes."""
    facts = run.table("cluster", ["fact", "value", "damage"]).to_pylist()
    staying_auditors = [
        row["value"] for row in facts if row["fact"] in _AUDITORS and row["value"] not in leaving_bookies
    ]
    blockers, doubts = [], []
    stores_marks, are_marks_listed = run.report.run.keeps_marks, run.report.run.marks_listed
    if stores_marks is False:
        blockers.append(Blocker(Cause.NO_MARKS))
    else:
        if any(row["fact"] == "replication-disabled" for row in facts):
            blockers.append(Blocker(Cause.REPLICATION_OFF))
        if not staying_auditors:
            leaving_auditors = sorted(str(row["value"]) for row in facts if row["fact"] in _AUDITORS)
            blockers.append(Blocker(Cause.NO_AUDITOR, detail=", ".join(leaving_auditors)))
        blockers += _find_idle_workers(run)
        if not (stores_marks and are_marks_listed):
            doubts.append(DoubtCount("marks of under-replication that were not read", 0))
    return AutoRecoveryState(len(staying_auditors), tuple(blockers), tuple(doubts))


def _find_idle_workers(run: RunReader) -> Iterator[Blocker]:
    """Yield a blocker if there are old marks and no locks, so that no worker seems to copy."""
    scan_time, oldest_time, old_mark_count, lock_count = run.report.run.scan_time, None, 0, 0
    for batch in run.batches("tables/marks", ["kind", "ctime", "mtime"]):
        lock_count += int(pc.sum(pc.equal(batch["kind"], MarkRow.LOCK.value)).as_py() or 0)
        mark_rows = batch.filter(pc.equal(batch["kind"], MarkRow.MARK.value))
        mark_times = pc.coalesce(mark_rows["ctime"], mark_rows["mtime"]).drop_null()
        late_mark_times = mark_times.filter(pc.less(mark_times, scan_time - IDLE_MARK_AGE_MS))
        old_mark_count += len(late_mark_times)
        if len(late_mark_times):
            late_time = pc.min(late_mark_times).as_py()
            oldest_time = late_time if oldest_time is None else min(late_time, oldest_time)
    if oldest_time is not None and not lock_count:
        yield Blocker(
            Cause.IDLE_WORKERS,
            detail=f"{plural(old_mark_count, 'mark')}, the oldest of {age(oldest_time, scan_time)}",
        )


MAX_NAMED_LEDGERS = 5
"""Largest number of ledgers that are named for each cause: those with the lowest ids."""
MAX_NAMED_TOPICS = 10
"""Largest number of topics that are named for each cause: those with the most ledgers."""


def ledger_blockers(run: RunReader, ids: Longs, codes: NDArray[np.int8]) -> tuple[Blocker, ...]:
    """Return one blocker for each cause of blocked ledgers, the worst first.

    ``ids`` has scope and id of each blocked ledger; ``codes`` are positions of their causes in `CAUSES`.
    """
    id_order = np.lexsort((ids[:, 1], ids[:, 0]))
    ids, codes = ids[id_order], codes[id_order]
    topics: dict[int, Counter[str]] = defaultdict(Counter)
    samples_by_code = {code: ids[codes == code][:MAX_NAMED_LEDGERS] for code in np.unique(codes).tolist()}
    ledger_keys = {(int(scope), int(ledger)) for rows in samples_by_code.values() for scope, ledger in rows}
    names: dict[tuple[int, int], str] = {}
    for owned_ledgers in _owned_ledgers(run, ids, codes):
        counts = owned_ledgers.group_by(["code", "name"]).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            topics[row["code"]][row["name"]] += row["count_all"]
        names |= _topic_names(owned_ledgers, ledger_keys)
    return tuple(
        Blocker(
            Cause(str(CAUSES[code])),
            int((codes == code).sum()),
            tuple(
                TopicCount(*topic)
                for topic in sorted(topics[code].items(), key=lambda topic: (-topic[1], topic[0]))[
                    :MAX_NAMED_TOPICS
                ]
            ),
            tuple(
                LedgerName(str(scope), str(ledger), names.get((scope, ledger)))
                for scope, ledger in rows.tolist()
            ),
        )
        for code, rows in sorted(samples_by_code.items())
    )


def _owned_ledgers(run: RunReader, ids: Longs, codes: NDArray[np.int8]) -> Iterator[pa.Table]:
    """Yield the blocked ledgers that have an owner: ids, code of the cause, and full name of the topic."""
    if not len(ids) or not has_owners(run):
        return
    blocked_rows = pa.table(
        {**{name: ids[:, position] for position, name in enumerate(LEDGER)}, "code": codes}
    )
    for batch in run.batches("tables/ownership", [*LEDGER, *NAME_COLUMNS, "standing", "borrowed"]):
        is_affected = pc.is_in(batch["ledger_id"], blocked_rows["ledger_id"].combine_chunks())
        ownership = batch.filter(pc.and_(owned(batch), is_affected))
        topic_names = pc.binary_join_element_wise(*(ownership[column] for column in NAME_COLUMNS), "/")
        owned_ledgers = pa.table({**{column: ownership[column] for column in LEDGER}, "name": topic_names})
        yield owned_ledgers.filter(topic_names.is_valid()).join(blocked_rows, [*LEDGER], join_type="inner")


def _topic_names(owned_ledgers: pa.Table, ledger_keys: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    ledgers = owned_ledgers.filter(
        pc.is_in(owned_ledgers["ledger_id"], pa.array([ledger for _, ledger in ledger_keys], pa.int64()))
    )
    return {
        (row["scope_id"], row["ledger_id"]): row["name"]
        for row in ledgers.to_pylist()
        if (row["scope_id"], row["ledger_id"]) in ledger_keys
    }


COMMAND_SLEEP_SECONDS = 30
"""Seconds that ``decommissionbookie`` sleeps before its first check."""


def rehearse(
    run: RunReader, id_prefixes: Sequence[str], rate: int | None = None, round_trip_ms: float = 1.0
) -> Rehearsal:
    """Return whether bookies may be removed; ``id_prefixes`` are their ids, or unique prefixes of ids.

    ``rate`` is the number of bytes a second that one replication worker copies. Without it the duration is
    None. ``round_trip_ms`` is the duration of a read or write of an entry.

    Raises:
        RunUsageError: the run names no bookie with such a prefix, or several.
        RunError: a table of the run is missing or broken.
    """
    return rehearse_by_ledger(run, id_prefixes, rate, round_trip_ms)[0]


def rehearse_by_ledger(
    run: RunReader, id_prefixes: Sequence[str], rate: int | None = None, round_trip_ms: float = 1.0
) -> tuple[Rehearsal, TrialSums]:
    """Return the result of `rehearse`, and the sums over ledgers for the removal of all the bookies."""
    leaving_bookies = list(dict.fromkeys(whole_bookie_id(run, prefix) for prefix in id_prefixes))
    bookies = _Bookies(run, leaving_bookies)
    settings, locations = load_placement(run)
    auto_recovery = read_auto_recovery(run, {*leaving_bookies, *bookies.absent})

    registered = [name for name in bookies.names if bookies.registered[name] is not None]
    isolation = IsolationNumbers(run, settings, locations)
    targets = Targets(bookies.names, bookies.spares, registered, settings, locations, isolation.isolations)

    def trial(bookie_ids: Sequence[str]) -> TrialSums:
        return TrialSums(bookies.places(bookie_ids), bookies.places(bookies.absent), targets)

    trials = [trial(leaving_bookies)] + [
        trial([bookie_id]) for bookie_id in leaving_bookies if len(leaving_bookies) > 1
    ]
    undecided_total = _run_trials(run, bookies, trials, isolation)
    unplaced_count = sum(
        name not in locations.by_bookie or locations.by_bookie[name].path is None for name in registered
    )
    unplaced_count = unplaced_count if refuses_by_location(settings) else 0
    doubts = [*auto_recovery.doubts, *_find_doubts(run, undecided_total, unplaced_count)]
    joint_trial, *single_trials = (
        _make_outcome(run, bookies, sums, names, auto_recovery, doubts, bool(unplaced_count))
        for sums, names in zip(trials, [leaving_bookies, *([name] for name in leaving_bookies)], strict=False)
    )
    rehearsal = Rehearsal(
        run=run.path,
        scan_time=run.report.run.scan_time,
        bookies=tuple(leaving_bookies),
        registered=tuple(
            Registered(bookie_id, bookies.registered[bookie_id]) for bookie_id in leaving_bookies
        ),
        absent=tuple(bookies.absent),
        spares=int(bookies.spares.sum()),
        policy=str(settings.policy),
        policy_origin=settings.origin,
        mapping_origin=locations.origin,
        workers=auto_recovery.workers,
        together=joint_trial,
        alone=tuple(single_trials),
        order=_decommission_order(trials[0], single_trials),
        seconds=_copy_seconds(joint_trial.work, auto_recovery.workers, rate, round_trip_ms),
    )
    return rehearsal, trials[0]


class _Bookies:
    """Bookies of a run, numbered as in ``names``; its absent bookies, and spares that can take copies."""

    def __init__(self, run: RunReader, leaving_bookies: Sequence[str]) -> None:
        rows = run.table("bookies", ["bookie_id", "registered", "named"]).to_pylist()
        self.names = sorted(row["bookie_id"] for row in rows)
        self.numbers = BookieNumbers(self.names)
        self.registered: dict[str, str | None] = {row["bookie_id"]: row["registered"] for row in rows}
        self.absent = sorted(
            row["bookie_id"]
            for row in rows
            if row["named"] and row["registered"] is None and row["bookie_id"] not in leaving_bookies
        )
        # A bookie that is registered as both is writable to clients.
        self.spares = np.array(
            [self.registered[name] in TAKES_WRITES and name not in leaving_bookies for name in self.names],
            bool,
        )

    def places(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of these bookies."""
        return [self.names.index(name) for name in names]


def _run_trials(
    run: RunReader, bookies: _Bookies, trials: Sequence[TrialSums], isolation: IsolationNumbers
) -> int:
    """Add every ledger with one of these bookies to all trials; return the number of undecidable ledgers."""
    is_affected = np.logical_or.reduce([sums.is_removed_bookie for sums in trials])
    current_copies = CopyStates(run.directory, bookies.numbers)
    undecided_total = 0
    for rows, undecided_count in decided_ledgers(run.directory, isolation.columns):
        undecided_total += undecided_count
        affected_rows = rows.filter(pa.array(flag_ledgers_naming(rows, is_affected, bookies.numbers)))
        if len(affected_rows):
            windows = current_copies.of(windows_of(affected_rows, bookies.numbers))
            segments = segments_of(affected_rows, bookies.numbers, isolation.of(affected_rows))
            for trial in trials:
                trial.add(segments, windows)
    return undecided_total


def _find_doubts(run: RunReader, undecided_count: int, unplaced_count: int) -> Iterator[DoubtCount]:
    """Yield the unknown facts that concern all trials."""
    run_facts = run.report.run
    if unplaced_count:
        yield DoubtCount(
            "registered bookies without a known location, which the policy needs", unplaced_count
        )
    if undecided_count:
        yield DoubtCount("ledgers whose metadata does not show the holders of entries", undecided_count)
    if run_facts.in_doubt:
        yield DoubtCount("ledger ids that may exist unseen", int(run_facts.in_doubt["ids"] or 0))
    if run_facts.gaps:
        yield DoubtCount("parts of the metadata that were not read", len(run_facts.gaps))
    listing = run_facts.bookies_listed
    if listing is None or listing["hidden"] or listing["unclear"]:
        unclear_count = len(listing["unclear"]) if listing else 0
        yield DoubtCount("registrations of bookies that were not read", unclear_count)


def _make_outcome(
    run: RunReader,
    bookies: _Bookies,
    trial: TrialSums,
    names: Sequence[str],
    auto_recovery: AutoRecoveryState,
    doubts: Sequence[DoubtCount],
    has_unplaced: bool,
) -> model.Trial:
    ids, codes = trial.all_blocked_ledgers()
    sums = {name: round(value) for name, value in trial.sums.items()}
    moving_count = sums["ledgers"] + len(codes)
    blockers = list(ledger_blockers(run, ids, codes))
    blockers = [
        replace(blocker, detail=", ".join(bookies.absent)) if blocker.cause is model.Cause.ABSENT else blocker
        for blocker in blockers
    ]
    # With nobody to audit the command fails, and leaves the cookie, even where nothing has to move.
    blockers += [
        blocker
        for blocker in auto_recovery.blockers
        if moving_count or blocker.cause is not model.Cause.IDLE_WORKERS
    ]
    registered_names = [name for name in names if bookies.registered[name] is not None]
    permission = permit_decommission(run, names, registered_names)
    # What is not known comes after what is certain.
    blockers = sorted([*gate_blockers(permission), *blockers], key=lambda blocker: blocker.cause in UNSURE)
    all_doubts = [*doubts, *(DoubtCount(doubt, count) for doubt, count in trial.doubts.items() if count)]
    neighbour_ledger_count = sums.pop("along")
    return model.Trial(
        tuple(names),
        _decide_answer(
            [blocker for blocker in blockers if not (has_unplaced and blocker.cause in _LOCATION_CAUSES)],
            bool(all_doubts),
        ),
        tuple(blockers),
        Work(**sums),
        _copy_loads(bookies, trial),
        _candidate_counts(trial),
        neighbour_ledger_count,
        tuple(all_doubts),
        notices_of(permission),
        decommission_commands(permission, names),
        permission,
    )


_LOCATION_CAUSES = (model.Cause.NO_ADMISSIBLE,)
"""Causes that are uncertain while locations of bookies are unknown."""


def _decide_answer(blockers: Sequence[model.Blocker], has_doubts: bool) -> Answer:
    if any(blocker.cause in LASTING_CAUSES for blocker in blockers):
        return Answer.NEVER
    if any(blocker.cause not in UNSURE for blocker in blockers):
        return Answer.AFTER
    return Answer.UNKNOWN if has_doubts or blockers else Answer.NOW


def _copy_loads(bookies: _Bookies, trial: TrialSums) -> tuple[CopyLoad, ...]:
    load_columns = np.rint(np.concatenate([trial.read, trial.written])).astype(np.int64)
    return tuple(
        CopyLoad(name, *map(int, load_columns[:, position]))
        for position, name in enumerate(bookies.names)
        if load_columns[:, position].any()
    )


def _candidate_counts(trial: TrialSums) -> Candidates:
    counts = np.flatnonzero(trial.candidates)
    if not len(counts):
        return Candidates(None, 0, 0)
    return Candidates(int(counts[0]), int(counts[-1]), int(trial.candidates[counts[0]]))


def _decommission_order(joint_sums: TrialSums, single_trials: Sequence[model.Trial]) -> tuple[str, ...]:
    """Return the bookies in the order in which to remove them one by one, the least copying first.

    Returns an empty tuple if one of them must not be removed, or if a ledger has too few spares to replace
    all of them at once. Removing them one by one would then fail at the last one.
    """
    if joint_sums.ledgers_without_spare or not all(
        trial.answer in (Answer.NOW, Answer.AFTER) for trial in single_trials
    ):
        return ()
    trials_by_cost = sorted(
        single_trials, key=lambda trial: (trial.work.copied_bytes, trial.work.copied, trial.bookies)
    )
    return tuple(trial.bookies[0] for trial in trials_by_cost)


def _copy_seconds(work: Work, workers: int, rate: int | None, round_trip_ms: float) -> float | None:
    if rate is None or not workers:
        return None
    waiting_seconds = work.batches * 2 * round_trip_ms / 1000
    return COMMAND_SLEEP_SECONDS + (waiting_seconds + work.copied_bytes / rate) / workers
