"""The runs of a directory, the run to compare a new one with, and the difference of two runs.

The module works without Spark. It keeps only narrow columns of the findings of both runs in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.checks import check_order
from auditor.checks.needs import AvailableInputs
from auditor.errors import RunError, RunUsageError
from auditor.findings.basis import pick_rows
from auditor.findings.pairs import CONFIDENCES, KINDS, FindingPairs, pair_findings
from auditor.model.amounts import first_names, format_time
from auditor.model.finding import Severity, Urgency
from auditor.model.history import (
    NOT_COMPARED,
    ChangedFinding,
    ChangeGroup,
    ChangesSince,
    ChangeTally,
    Difference,
    RunSummary,
)
from auditor.model.report import Cluster, Report
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.model.states import GONE, Change
from auditor.runs.reader import RunReader
from auditor.runs.run_index import is_file, run_summaries
from auditor.runs.run_inputs import checks_without_sight, inputs_of_run
from auditor.runs.siblings import oldest_first, runs_before, same_cluster, siblings
from auditor.sources.file_systems import parent_of, run_files
from auditor.tables.changes import CHANGED

_CHANGES_MARKER = f"{CHANGED}/_SUCCESS"


class RunHistory(NamedTuple):
    """The finished runs of a directory, the oldest first, and the errors of unreadable reports."""

    runs: tuple[RunSummary, ...]
    unreadable: tuple[RunError, ...]

    def require_runs(self) -> None:
        """Raise the first `RunError` if there are unreadable reports and no readable one."""
        if self.unreadable and not self.runs:
            raise self.unreadable[0]


def history(directory: str | Path) -> RunHistory:
    """Return the finished runs directly below ``directory``, a path or a URI.

    A report is read only if the index of runs (`auditor.runs.run_index`) has no summary of it.

    Raises:
        RunError: the directory does not exist or cannot be listed.
    """
    summaries = [summary for _, summary in run_summaries(directory)]
    return RunHistory(
        oldest_first(summary for summary in summaries if isinstance(summary, RunSummary)),
        tuple(error for error in summaries if isinstance(error, RunError)),
    )


def comparable_run(path: str | Path) -> RunReader:
    """Open a finished run that has the table ``changes``, which a comparison needs.

    Raises:
        RunError: there is no finished run, an older version of this program wrote it, or the table is
            missing.
    """
    run = RunReader(path)
    files, base_path = run_files(str(path))
    if not is_file(files, f"{base_path}/{_CHANGES_MARKER}"):
        raise RunUsageError(f"{path}: it has no {CHANGED}, so it cannot be compared; audit again")
    return run


@dataclass(frozen=True, slots=True)
class Previous:
    """Earlier run to compare a new run with, and notes for the report. ``run`` is None if there is none."""

    run: RunSummary | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsBeside:
    """Finished runs of a run's cluster in the same directory, the oldest first, and notes for the report."""

    runs: tuple[RunSummary, ...]
    notes: tuple[str, ...]

    def notes_of_future(self, finished: int) -> tuple[str, ...]:
        """Return a note on each run that ended after ``finished``, in ms since 1970: a clock was wrong."""
        return tuple(
            f"{NOT_COMPARED} with {run.name}: it ended at {format_time(run.finished)}, after this run; a "
            "clock was wrong. Move it away once the clocks are right"
            for run in self.runs
            if run.finished > finished + MAX_CLOCK_AHEAD_MS
        )

    def newest(self, finished: int) -> Previous:
        """Return the newest comparable run that ended by ``finished``, in ms since 1970."""
        notes = list(self.notes)
        for run in reversed([run for run in self.runs if run.finished <= finished]):
            try:
                comparable_run(run.path)
            except RunError as error:
                notes.append(f"{NOT_COMPARED} with a run in the same directory: {error}")
            else:
                return Previous(run, tuple(notes))
        return Previous(None, tuple(notes))


def runs_beside(run_path: str, cluster: Cluster, renew_index: bool = False) -> RunsBeside:
    """Return the finished runs of ``cluster`` in the directory of the run ``run_path``, without that run.

    ``renew_index`` is that of `run_summaries`. A problem does not end an audit: a note reports it.
    """
    if parent_of(run_path) is None:
        return RunsBeside((), (f"{NOT_COMPARED}: the run is at the top of a file system",))
    notes = []
    summaries = []
    try:
        for path, summary in siblings(run_path, cluster, renew_index):
            if isinstance(summary, RunError):
                notes.append(f"{NOT_COMPARED} with a run in the same directory: {summary}")
            elif path != run_path:
                summaries.append(summary)
    except RunError as error:
        return RunsBeside((), (f"{NOT_COMPARED} with any earlier run: {error}",))
    return RunsBeside(oldest_first(summaries), tuple(notes))


_BOOKIES_NAMED = 3
MAX_FIRST_FINDINGS = 3
"""Largest number of findings that are kept of each group of changes."""
_COLUMNS = (
    "fingerprint", "id", "severity", "confidence", "scope_id", "ledger_id", "bookie_id", "missing",
    "first_seen", "last_seen", "suppressed",
)  # fmt: skip
_SEVERITIES = [str(severity) for severity in Severity]

Longs = NDArray[np.int64]


class RunDifference:
    """The changes of findings from one finished run to another. Each run is given by a path or a URI.

    Raises:
        RunError: a path has no finished run, a broken run, or a run that an older version of this program
            wrote.
    """

    def __init__(self, old: str | Path, new: str | Path) -> None:
        self.old, self.new = comparable_run(old), comparable_run(new)

    @cached_property
    def summary(self) -> Difference:
        """Return the counts of changes, and warnings about them."""
        tallies, urgencies = Counter(self._finding_kinds()), self._urgencies_by_severity()
        severity_order = {
            tally: (KINDS.index(tally[0]), check_order(urgencies.get(tally[1:], Urgency.REST), *tally[1:]))
            for tally in tallies
        }
        sorted_tallies = sorted(tallies.items(), key=lambda tally: severity_order[tally[0]])
        return Difference(
            RunSummary.of(str(self.old.path), self.old.report),
            RunSummary.of(str(self.new.path), self.new.report),
            self._finding_pairs.counts(),
            tuple(
                ChangeTally(change, id, severity, count) for (change, severity, id), count in sorted_tallies
            ),
            tuple(self.warnings()),
        )

    def changes(self) -> Iterator[ChangedFinding]:
        """Yield every changed finding: those of the new run in its order, then those only in the old run."""
        for run, rows, kinds, severity_order in self._changed_findings():
            picked_batches = pick_rows(_batch_reader(run), rows, _COLUMNS)
            for position, row in enumerate(row for batch in picked_batches for row in batch.to_pylist()):
                change = KINDS[kinds[position]]
                row |= {"suppressed": None} if change in GONE else {}
                yield ChangedFinding(change=change, **self._old_row(int(severity_order[position])), **row)

    def _changed_findings(self) -> Iterator[tuple[RunReader, Longs, NDArray[np.int8], Longs]]:
        """Yield one tuple for the new run, then one for the old run, about the changed findings of that run.

        A tuple has the run, the row numbers in its findings, the changes, and the places among the old
        findings.
        """
        pairs = self._finding_pairs
        changed_rows = np.flatnonzero(pairs.change != KINDS.index(Change.SAME))
        yield self.new, pairs.new.row[changed_rows], pairs.change[changed_rows], pairs.pair[changed_rows]
        yield self.old, pairs.old.row[pairs.gone_rows], pairs.gone_change, pairs.gone_rows

    def _old_row(self, position: int) -> dict[str, Any]:
        """Return the old run's facts about the finding at ``position``. The place of a new finding is -1."""
        old, is_new = self._finding_pairs.old, position < 0
        return {
            "previous_severity": None if is_new else _SEVERITIES[old.rank[position]],
            "previous_missing": None if is_new else int(old.missing[position]),
            "previous_confidence": None if is_new else CONFIDENCES[old.confidence[position]],
        }

    def _finding_kinds(self) -> Iterator[tuple[str, str, str]]:
        """Yield the change, the severity and the check id of each changed finding."""
        names = ("severity", "id")
        for run, rows, kinds, _ in self._changed_findings():
            picked_batches = pick_rows(_batch_reader(run), rows, names)
            pairs = chain.from_iterable(
                zip(*(batch[name].to_pylist() for name in names), strict=True) for batch in picked_batches
            )
            for kind, (severity, id) in zip(kinds, pairs, strict=True):
                yield KINDS[kind], severity, id

    def _urgencies_by_severity(self) -> dict[tuple[str, str], str]:
        """Return the highest urgency that either run has, by severity and check id."""
        tallies = (*self.old.report.run.tally, *self.new.report.run.tally)
        sorted_tallies = sorted(tallies, key=lambda tally: Urgency(tally["urgency"]).rank, reverse=True)
        return {(tally["severity"], tally["id"]): tally["urgency"] for tally in sorted_tallies}

    @cached_property
    def _finding_pairs(self) -> FindingPairs:
        run_facts = self.new.report.run
        has_holes = bool(run_facts.gaps or run_facts.in_doubt)
        try:
            inputs, _ = inputs_of_run(self.new)
            earlier, carried_inputs = inputs_of_run(self.old)
            unseen_checks = {
                *checks_without_sight(AvailableInputs.from_report(self.new.report)),
                *inputs.reasons_unseen(earlier),
            }
            lost_carried = inputs.reasons_unseen(carried_inputs)
            return pair_findings(
                _batch_reader(self.old),
                _batch_reader(self.new),
                has_holes,
                {*run_facts.not_run, *unseen_checks},
                lost_carried,
            )
        except RunError as error:
            raise RunError(f"{self.old.path} and {self.new.path}: {error}") from error

    def warnings(self) -> Iterator[str]:
        """Yield warnings against a wrong reading of the counts, such as an unread bookie or two clusters."""
        old, new = self.old.report, self.new.report
        if not same_cluster(old.cluster, new.cluster):
            yield (
                f"these are runs of two clusters, {old.cluster.name} and {new.cluster.name}: new "
                f"findings are of the second, fixed ones of the first, and nothing was repaired"
            )
        elif old.run.finished > new.run.finished:
            yield "the first run is the newer one: read fixed as new, and new as fixed"
        unread_bookies = [set(report.coverage.bookies.unread) for report in (old, new)]
        if newly_unread := sorted(unread_bookies[1] - unread_bookies[0]):
            yield (
                f"{_comma_list(newly_unread)} not read in the newer run: earlier findings there are unseen, "
                f"not fixed"
            )
        if newly_read := sorted(unread_bookies[0] - unread_bookies[1]):
            names = _comma_list(newly_read)
            yield f"{names} not read in the older run: new findings there may be old"
        if new.run.gaps:
            yield "parts of the metadata could not be listed in the newer run: findings there are unseen"
        if old.run.gaps and not new.run.gaps:
            yield "parts of the metadata could not be listed in the older run: new findings there may be old"


def changes_since_complete(path: str, report: Report) -> ChangesSince:
    """Return the changes in the run at ``path`` since the newest complete run before it.

    Only runs of the same cluster count. If none was complete, the newest earlier run is used, with a warning.
    A comparison that fails gives a warning too, and no changes.
    """
    try:
        earlier = runs_before(path, report)
        if not earlier:
            return ChangesSince(None)
        complete = [run for run in earlier if run.complete]
        preceding_run = (complete or earlier)[-1]
        incomplete_warning = () if complete else ("no earlier run was complete: compared with the newest",)
        difference = RunDifference(preceding_run.path, path)
        groups: dict[tuple[str, str, str, str], list[ChangedFinding]] = {}
        counts: Counter[tuple[str, str, str, str]] = Counter()
        for finding in difference.changes():
            if finding.suppressed is None:
                key = finding.change, finding.id, finding.severity, finding.confidence
                counts[key] += 1
                if counts[key] <= MAX_FIRST_FINDINGS:
                    groups.setdefault(key, []).append(finding)
        change_groups = (ChangeGroup(*key, counts[key], tuple(first)) for key, first in groups.items())
        return ChangesSince(
            preceding_run, tuple(change_groups), (*incomplete_warning, *difference.warnings())
        )
    except RunError as error:
        return ChangesSince(None, warnings=(f"{NOT_COMPARED}: {error}",))


def _batch_reader(run: RunReader) -> Any:
    return lambda table_path, columns: run.batches(table_path, list(columns))


def _comma_list(names: list[str]) -> str:
    return f"{first_names(names, _BOOKIES_NAMED)} {'was' if len(names) == 1 else 'were'}"
