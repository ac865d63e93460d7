"""Rehearsal of a decommission: one pass over a finished run's ledgers, for each combination of bookies.

It begins with AutoRecovery as the metadata store shows it: auditor, workers and waiting ledgers. For each
cause it reports the first blocked ledgers, and the topics of all of them.
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
from auditor.decommission.trial import CAUSES, TrialSums, name_any, segments_of
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
from auditor.model.replacements import refuses_by_place
from auditor.model.states import TAKES_WRITES, MarkRow
from auditor.runs.load_bookie import whole_bookie_id
from auditor.runs.owners import NAME_COLUMNS, has_owners, owned
from auditor.runs.reader import RunReader, load_placement
from auditor.simulate.run_windows import CopiesToday, decided_ledgers
from auditor.simulate.windows import BookieNumbers, Longs, windows_of
from auditor.simulate.writes import IsolationNumbers

IDLE_MS = 24 * 60 * 60 * 1000
"""Age in ms from which marks count as waiting for a worker, if there is no lock (as in `mark-stuck`)."""

_AUDITORS = ("auditor", "auditor-candidate")


@dataclass(frozen=True, slots=True)
class Queue:
    """State of AutoRecovery; its blockers keep all ledgers from moving.

    ``workers`` is the number of its processes that stay.
    """

    workers: int
    blockers: tuple[Blocker, ...]
    doubts: tuple[DoubtCount, ...]


def read_queue(run: RunReader, leaving_bookies: Collection[str]) -> Queue:
    """Return the state of AutoRecovery after ``leaving_bookies`` have stopped with their processes."""
    facts = run.table("cluster", ["fact", "value", "damage"]).to_pylist()
    staying_auditors = [
        row["value"] for row in facts if row["fact"] in _AUDITORS and row["value"] not in leaving_bookies
    ]
    blockers, doubts = [], []
    keeps_marks, marks_listed = run.report.run.keeps_marks, run.report.run.marks_listed
    if keeps_marks is False:
        blockers.append(Blocker(Cause.NO_MARKS))
    else:
        if any(row["fact"] == "replication-disabled" for row in facts):
            blockers.append(Blocker(Cause.REPLICATION_OFF))
        if not staying_auditors:
            leaving_auditors = sorted(str(row["value"]) for row in facts if row["fact"] in _AUDITORS)
            blockers.append(Blocker(Cause.NO_AUDITOR, detail=", ".join(leaving_auditors)))
        blockers += _find_idle_workers(run)
        if not (keeps_marks and marks_listed):
            doubts.append(DoubtCount("marks of under-replication that were not read", 0))
    return Queue(len(staying_auditors), tuple(blockers), tuple(doubts))


def _find_idle_workers(run: RunReader) -> Iterator[Blocker]:
    """Yield a blocker if there are old marks and no locks, so that no worker seems to copy."""
    scan_time, oldest_time, old_count, locks = run.report.run.scan_time, None, 0, 0
    for batch in run.batches("tables/marks", ["kind", "ctime", "mtime"]):
        locks += int(pc.sum(pc.equal(batch["kind"], MarkRow.LOCK.value)).as_py() or 0)
        mark_rows = batch.filter(pc.equal(batch["kind"], MarkRow.MARK.value))
        mark_times = pc.coalesce(mark_rows["ctime"], mark_rows["mtime"]).drop_null()
        late_times = mark_times.filter(pc.less(mark_times, scan_time - IDLE_MS))
        old_count += len(late_times)
        if len(late_times):
            first_late = pc.min(late_times).as_py()
            oldest_time = first_late if oldest_time is None else min(first_late, oldest_time)
    if oldest_time is not None and not locks:
        yield Blocker(
            Cause.IDLE_WORKERS,
            detail=f"{plural(old_count, 'mark')}, the oldest of {age(oldest_time, scan_time)}",
        )


SAMPLES = 5
"""Largest number of ledgers that are named for each cause: those with the lowest ids."""
TOPICS = 10
"""Largest number of topics that are named for each cause: those with the most ledgers."""


def blockers_of(run: RunReader, ids: Longs, codes: NDArray[np.int8]) -> tuple[Blocker, ...]:
    """Return one blocker for each cause of blocked ledgers, the worst first.

    ``ids`` has scope and id of each blocked ledger; ``codes`` are positions of their causes in `CAUSES`.
    """
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ids, codes = ids[order], codes[order]
    topics: dict[int, Counter[str]] = defaultdict(Counter)
    samples_by_code = {code: ids[codes == code][:SAMPLES] for code in np.unique(codes).tolist()}
    ledger_keys = {(int(scope), int(ledger)) for rows in samples_by_code.values() for scope, ledger in rows}
    names: dict[tuple[int, int], str] = {}
    for table in _read_owned(run, ids, codes):
        counts = table.group_by(["code", "name"]).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            topics[row["code"]][row["name"]] += row["count_all"]
        names |= _read_names(table, ledger_keys)
    return tuple(
        Blocker(
            Cause(str(CAUSES[code])),
            int((codes == code).sum()),
            tuple(
                TopicCount(*topic_count)
                for topic_count in sorted(
                    topics[code].items(), key=lambda topic_count: (-topic_count[1], topic_count[0])
                )[:TOPICS]
            ),
            tuple(
                LedgerName(str(scope), str(ledger), names.get((scope, ledger)))
                for scope, ledger in rows.tolist()
            ),
        )
        for code, rows in sorted(samples_by_code.items())
    )


def _read_owned(run: RunReader, ids: Longs, codes: NDArray[np.int8]) -> Iterator[pa.Table]:
    """Yield the blocked ledgers that have an owner: ids, code of the cause, and full name of the topic."""
    if not len(ids) or not has_owners(run):
        return
    blocked = pa.table({**{name: ids[:, position] for position, name in enumerate(LEDGER)}, "code": codes})
    for batch in run.batches("tables/ownership", [*LEDGER, *NAME_COLUMNS, "standing", "borrowed"]):
        is_concerned = pc.is_in(batch["ledger_id"], blocked["ledger_id"].combine_chunks())
        ownership = batch.filter(pc.and_(owned(batch), is_concerned))
        name = pc.binary_join_element_wise(*(ownership[column] for column in NAME_COLUMNS), "/")
        table = pa.table({**{column: ownership[column] for column in LEDGER}, "name": name})
        yield table.filter(name.is_valid()).join(blocked, [*LEDGER], join_type="inner")


def _read_names(table: pa.Table, ledger_keys: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    ledgers = table.filter(
        pc.is_in(table["ledger_id"], pa.array([ledger for _, ledger in ledger_keys], pa.int64()))
    )
    return {
        (row["scope_id"], row["ledger_id"]): row["name"]
        for row in ledgers.to_pylist()
        if (row["scope_id"], row["ledger_id"]) in ledger_keys
    }


COMMAND_S = 30
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
    queue = read_queue(run, {*leaving_bookies, *bookies.absent})

    registered = [name for name in bookies.names if bookies.registered[name] is not None]
    isolation = IsolationNumbers(run, settings, locations)
    targets = Targets(bookies.names, bookies.spares, registered, settings, locations, isolation.kinds)

    def trial(bookie_ids: Sequence[str]) -> TrialSums:
        return TrialSums(bookies.places(bookie_ids), bookies.places(bookies.absent), targets)

    trials = [trial(leaving_bookies)] + [
        trial([bookie_id]) for bookie_id in leaving_bookies if len(leaving_bookies) > 1
    ]
    undecided_total = _run_trials(run, bookies, trials, isolation)
    unplaced_count = sum(name not in locations.of or locations.of[name].path is None for name in registered)
    unplaced_count = unplaced_count if refuses_by_place(settings) else 0
    doubts = [*queue.doubts, *_find_doubts(run, undecided_total, unplaced_count)]
    joint_trial, *single_trials = (
        _make_outcome(run, bookies, sums, names, queue, doubts, bool(unplaced_count))
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
        workers=queue.workers,
        together=joint_trial,
        alone=tuple(single_trials),
        order=_decommission_order(trials[0], single_trials),
        seconds=_copy_seconds(joint_trial.work, queue.workers, rate, round_trip_ms),
    )
    return rehearsal, trials[0]


class _Bookies:
    """The bookies of a run, numbered as in ``names``; absent ones; and spares that could take copies."""

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
    """Add every ledger with one of the bookies to all trials; return the number of undecidable ledgers."""
    is_concerned = np.logical_or.reduce([sums.concerned for sums in trials])
    current_copies = CopiesToday(run.directory, bookies.numbers)
    undecided_total = 0
    for rows, undecided_count in decided_ledgers(run.directory, isolation.columns):
        undecided_total += undecided_count
        concerned_rows = rows.filter(pa.array(name_any(rows, is_concerned, bookies.numbers)))
        if len(concerned_rows):
            windows = current_copies.of(windows_of(concerned_rows, bookies.numbers))
            segments = segments_of(concerned_rows, bookies.numbers, isolation.of(concerned_rows))
            for trial in trials:
                trial.add(segments, windows)
    return undecided_total


def _find_doubts(run: RunReader, undecided_count: int, unplaced_count: int) -> Iterator[DoubtCount]:
    """Yield the unknown facts that concern all trials."""
    facts = run.report.run
    if unplaced_count:
        yield DoubtCount(
            "registered bookies without a known location, which the policy needs", unplaced_count
        )
    if undecided_count:
        yield DoubtCount("ledgers whose metadata does not show the holders of entries", undecided_count)
    if facts.in_doubt:
        yield DoubtCount("ledger ids that may exist unseen", int(facts.in_doubt["ids"] or 0))
    if facts.gaps:
        yield DoubtCount("parts of the metadata that were not read", len(facts.gaps))
    listing = facts.bookies_listed
    if listing is None or listing["hidden"] or listing["unclear"]:
        number = len(listing["unclear"]) if listing else 0
        yield DoubtCount("registrations of bookies that were not read", number)


def _make_outcome(
    run: RunReader,
    bookies: _Bookies,
    trial: TrialSums,
    names: Sequence[str],
    queue: Queue,
    doubts: Sequence[DoubtCount],
    has_unplaced: bool,
) -> model.Trial:
    ids, codes = trial.all_blocked()
    sums = {name: round(value) for name, value in trial.sums.items()}
    moving_count = sums["ledgers"] + len(codes)
    blockers = list(blockers_of(run, ids, codes))
    blockers = [
        replace(blocker, detail=", ".join(bookies.absent)) if blocker.cause is model.Cause.ABSENT else blocker
        for blocker in blockers
    ]
    # With nobody to audit the command fails, and leaves the cookie, even where nothing has to move.
    blockers += [
        blocker for blocker in queue.blockers if moving_count or blocker.cause is not model.Cause.IDLE_WORKERS
    ]
    registered_names = [name for name in names if bookies.registered[name] is not None]
    permission = permit_decommission(run, names, registered_names)
    # What is not known comes after what is certain.
    blockers = sorted([*gate_blockers(permission), *blockers], key=lambda blocker: blocker.cause in UNSURE)
    all_doubts = [*doubts, *(DoubtCount(word, number) for word, number in trial.doubts.items() if number)]
    neighbour_count = sums.pop("along")
    return model.Trial(
        tuple(names),
        _decide_answer(
            [blocker for blocker in blockers if not (has_unplaced and blocker.cause in _PLACE_CAUSES)],
            bool(all_doubts),
        ),
        tuple(blockers),
        Work(**sums),
        _copy_loads(bookies, trial),
        _candidate_counts(trial),
        neighbour_count,
        tuple(all_doubts),
        notices_of(permission),
        decommission_commands(permission, names),
        permission,
    )


_PLACE_CAUSES = (model.Cause.NO_ADMISSIBLE,)
"""Causes that are uncertain while locations of bookies are unknown."""


def _decide_answer(blockers: Sequence[model.Blocker], has_doubts: bool) -> Answer:
    if any(blocker.cause in LASTING_CAUSES for blocker in blockers):
        return Answer.NEVER
    if any(blocker.cause not in UNSURE for blocker in blockers):
        return Answer.AFTER
    return Answer.UNKNOWN if has_doubts or blockers else Answer.NOW


def _copy_loads(bookies: _Bookies, trial: TrialSums) -> tuple[CopyLoad, ...]:
    rows = np.rint(np.concatenate([trial.read, trial.written])).astype(np.int64)
    return tuple(
        CopyLoad(name, *map(int, rows[:, position]))
        for position, name in enumerate(bookies.names)
        if rows[:, position].any()
    )


def _candidate_counts(trial: TrialSums) -> Candidates:
    counts = np.flatnonzero(trial.candidates)
    if not len(counts):
        return Candidates(None, 0, 0)
    return Candidates(int(counts[0]), int(counts[-1]), int(trial.candidates[counts[0]]))


def _decommission_order(joint_sums: TrialSums, single_trials: Sequence[model.Trial]) -> tuple[str, ...]:
    """Return the bookies in the order in which to remove them one by one, the least copying first.

    Returns an empty tuple if one of them must not be removed. A ledger that has too few spares to replace all
    of them at once has too few to replace the last one, too.
    """
    if joint_sums.without_spare or not all(
        trial.answer in (Answer.NOW, Answer.AFTER) for trial in single_trials
    ):
        return ()
    by_cost = sorted(
        single_trials, key=lambda trial: (trial.work.copied_bytes, trial.work.copied, trial.bookies)
    )
    return tuple(trial.bookies[0] for trial in by_cost)


def _copy_seconds(work: Work, workers: int, rate: int | None, round_trip_ms: float) -> float | None:
    if rate is None or not workers:
        return None
    waiting_seconds = work.batches * 2 * round_trip_ms / 1000
    return COMMAND_S + (waiting_seconds + work.copied_bytes / rate) / workers
