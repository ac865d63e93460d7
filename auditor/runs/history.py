"""The runs of a directory, the run with which a new run is compared, and the difference between two runs.

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
from auditor.findings.pairs import CHANGE_KINDS, CONFIDENCES, FindingPairs, pair_findings
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
from auditor.model.states import OLD_ONLY, Change
from auditor.runs.reader import RunReader
from auditor.runs.run_index import is_file, run_summaries
from auditor.runs.run_inputs import find_checks_without_input, read_run_inputs
from auditor.runs.siblings import are_same_cluster, find_siblings, runs_before, sort_by_finish
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
        sort_by_finish(summary for summary in summaries if isinstance(summary, RunSummary)),
        tuple(error for error in summaries if isinstance(error, RunError)),
    )


def open_comparable(path: str | Path) -> RunReader:
    """Open a finished run that has the table ``changes``, which a comparison needs.

    Raises:
        RunError: there is no finished run, an older version of this program wrote it, or the table is
            missing.
    """
    run = RunReader(path)
    file_system, base_path = run_files(str(path))
    if not is_file(file_system, f"{base_path}/{_CHANGES_MARKER}"):
        raise RunUsageError(f"{path}: has no {CHANGED}, so the run cannot be compared; audit again")
    return run


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """The earlier run with which a new run is compared, and notes on the comparison.

    ``run`` is None if there is no such run.
    """

    run: RunSummary | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiblingRuns:
    """The finished runs of the same cluster in the directory of a given run, the oldest first.

    ``notes`` are notes for the report of the given run.
    """

    runs: tuple[RunSummary, ...]
    notes: tuple[str, ...]

    def notes_on_later_runs(self, end_time: int) -> tuple[str, ...]:
        """Return a note on each sibling that ended after ``end_time``, in ms since 1970.

        Such a sibling means that a clock was wrong. A difference of up to `MAX_CLOCK_AHEAD_MS` is
        tolerated.
        """
        return tuple(
            f"{NOT_COMPARED} with {run.name}: it ended at {format_time(run.finished)}, after this run; a "
            "clock was wrong. Correct the clocks, then move that run to another directory"
            for run in self.runs
            if run.finished > end_time + MAX_CLOCK_AHEAD_MS
        )

    def newest(self, end_time: int) -> PreviousRun:
        """Return the newest comparable run that ended at or before ``end_time``, in ms since 1970."""
        notes = list(self.notes)
        for run in reversed([run for run in self.runs if run.finished <= end_time]):
            try:
                open_comparable(run.path)
            except RunError as error:
                notes.append(f"{NOT_COMPARED} with a run in the same directory: {error}")
            else:
                return PreviousRun(run, tuple(notes))
        return PreviousRun(None, tuple(notes))


def find_sibling_runs(run_path: str, cluster: Cluster, renew_index: bool = False) -> SiblingRuns:
    """Return the other finished runs of ``cluster`` in the directory of the run ``run_path``.

    See `run_summaries` for ``renew_index``. A problem does not end the audit, but is reported in a note.
    """
    if parent_of(run_path) is None:
        return SiblingRuns(
            (), (f"{NOT_COMPARED}: the run is the root of a file system, so no other run is next to it",)
        )
    notes = []
    summaries = []
    try:
        for path, summary in find_siblings(run_path, cluster, renew_index):
            if isinstance(summary, RunError):
                notes.append(f"{NOT_COMPARED} with a run in the same directory: {summary}")
            elif path != run_path:
                summaries.append(summary)
    except RunError as error:
        return SiblingRuns((), (f"{NOT_COMPARED} with any earlier run: {error}",))
    return SiblingRuns(sort_by_finish(summaries), tuple(notes))


_MAX_BOOKIES_NAMED = 3
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
        self.old, self.new = open_comparable(old), open_comparable(new)

    @cached_property
    def summary(self) -> Difference:
        """Return the counts of changes, and warnings about them."""
        change_counts, urgencies = Counter(self._changed_checks()), self._urgencies_by_severity()
        severity_order = {
            change_key: (
                CHANGE_KINDS.index(change_key[0]),
                check_order(urgencies.get(change_key[1:], Urgency.NOT_URGENT), *change_key[1:]),
            )
            for change_key in change_counts
        }
        sorted_counts = sorted(change_counts.items(), key=lambda change_key: severity_order[change_key[0]])
        return Difference(
            RunSummary.from_report(str(self.old.path), self.old.report),
            RunSummary.from_report(str(self.new.path), self.new.report),
            self._finding_pairs.counts(),
            tuple(
                ChangeTally(change, id, severity, count) for (change, severity, id), count in sorted_counts
            ),
            tuple(self.warnings()),
        )

    def changes(self) -> Iterator[ChangedFinding]:
        """Yield the changed findings of the new run in its order, then the findings only in the old run."""
        for run, rows, change_numbers, old_positions in self._changed_findings():
            finding_batches = pick_rows(_batch_reader(run), rows, _COLUMNS)
            for finding_number, row in enumerate(
                row for batch in finding_batches for row in batch.to_pylist()
            ):
                change = CHANGE_KINDS[change_numbers[finding_number]]
                row |= {"suppressed": None} if change in OLD_ONLY else {}
                yield ChangedFinding(
                    change=change, **self._previous_facts(int(old_positions[finding_number])), **row
                )

    def _changed_findings(self) -> Iterator[tuple[RunReader, Longs, NDArray[np.int8], Longs]]:
        """Yield two tuples: on the changed findings of the new run, and on findings only in the old run.

        A tuple has a run and three arrays about its findings: row numbers in this run, changes, and
        positions. A position is an index into the findings of the old run (`_previous_facts`). It is -1 for a
        new finding.
        """
        finding_pairs = self._finding_pairs
        changed_rows = np.flatnonzero(finding_pairs.new_changes != CHANGE_KINDS.index(Change.SAME))
        yield (
            self.new,
            finding_pairs.new_findings.row_numbers[changed_rows],
            finding_pairs.new_changes[changed_rows],
            finding_pairs.old_positions[changed_rows],
        )
        yield (
            self.old,
            finding_pairs.old_findings.row_numbers[finding_pairs.unmatched_old_rows],
            finding_pairs.unmatched_changes,
            finding_pairs.unmatched_old_rows,
        )

    def _previous_facts(self, position: int) -> dict[str, Any]:
        """Return the old run's facts about the finding at ``position``.

        Each fact is None if ``position`` is -1, which stands for a new finding.
        """
        old_findings, is_new = self._finding_pairs.old_findings, position < 0
        return {
            "previous_severity": None if is_new else _SEVERITIES[old_findings.severity_ranks[position]],
            "previous_missing": None if is_new else int(old_findings.missing_counts[position]),
            "previous_confidence": None if is_new else CONFIDENCES[old_findings.confidence_numbers[position]],
        }

    def _changed_checks(self) -> Iterator[tuple[str, str, str]]:
        """Yield the change, the severity and the check id of each changed finding."""
        names = ("severity", "id")
        for run, rows, change_numbers, _ in self._changed_findings():
            finding_batches = pick_rows(_batch_reader(run), rows, names)
            severities_and_ids = chain.from_iterable(
                zip(*(batch[name].to_pylist() for name in names), strict=True) for batch in finding_batches
            )
            for change_number, (severity, id) in zip(change_numbers, severities_and_ids, strict=True):
                yield CHANGE_KINDS[change_number], severity, id

    def _urgencies_by_severity(self) -> dict[tuple[str, str], str]:
        """Return the highest urgency that findings have in either run, by severity and check id."""
        tally_rows = (*self.old.report.run.tally, *self.new.report.run.tally)
        sorted_rows = sorted(
            tally_rows, key=lambda tally_row: Urgency(tally_row["urgency"]).rank, reverse=True
        )
        return {(tally_row["severity"], tally_row["id"]): tally_row["urgency"] for tally_row in sorted_rows}

    @cached_property
    def _finding_pairs(self) -> FindingPairs:
        run_facts = self.new.report.run
        has_metadata_gaps = bool(run_facts.gaps or run_facts.in_doubt)
        try:
            inputs, _ = read_run_inputs(self.new)
            earlier_inputs, inputs_of_all_runs = read_run_inputs(self.old)
            checks_lacking_input = {
                *find_checks_without_input(AvailableInputs.from_report(self.new.report)),
                *inputs.reasons_lacking_input(earlier_inputs),
            }
            reasons_lacking_past_input = inputs.reasons_lacking_input(inputs_of_all_runs)
            return pair_findings(
                _batch_reader(self.old),
                _batch_reader(self.new),
                has_metadata_gaps,
                {*run_facts.checks_not_run, *checks_lacking_input},
                reasons_lacking_past_input,
            )
        except RunError as error:
            raise RunError(f"{self.old.path} and {self.new.path}: {error}") from error

    def warnings(self) -> Iterator[str]:
        """Yield warnings if the counts may mislead a reader, for example because a bookie was not read."""
        old, new = self.old.report, self.new.report
        if not are_same_cluster(old.cluster, new.cluster):
            yield (
                f"these are runs of two clusters, {old.cluster.name} and {new.cluster.name}: findings "
                "shown as new are those of the second. Findings shown as fixed are those of the first, "
                "and are not repaired"
            )
        elif old.run.finished > new.run.finished:
            yield "the first run is the newer one: findings shown as fixed are new, and vice versa"
        unread_bookies = [set(report.coverage.bookies.unread) for report in (old, new)]
        if unread_only_in_new := sorted(unread_bookies[1] - unread_bookies[0]):
            yield (
                f"{_comma_list(unread_only_in_new)} not read in the newer run: "
                "earlier findings there are unseen, not fixed"
            )
        if read_only_in_new := sorted(unread_bookies[0] - unread_bookies[1]):
            names = _comma_list(read_only_in_new)
            yield f"{names} not read in the older run: new findings there may be old"
        if new.run.gaps:
            yield "parts of the metadata could not be listed in the newer run: findings there are unseen"
        if old.run.gaps and not new.run.gaps:
            yield "parts of the metadata could not be listed in the older run: new findings there may be old"


def changes_since_complete(path: str, report: Report) -> ChangesSince:
    """Return the changes in the run at ``path`` since the newest complete run before it.

    Only runs of the same cluster count. If no earlier run was complete, the newest earlier run is used,
    with a warning. If the comparison fails, the result has a warning and no changes.
    """
    try:
        earlier_runs = runs_before(path, report)
        if not earlier_runs:
            return ChangesSince(None)
        complete_runs = [run for run in earlier_runs if run.complete]
        preceding_run = (complete_runs or earlier_runs)[-1]
        incomplete_warning = (
            () if complete_runs else ("no earlier run was complete: compared with the newest earlier run",)
        )
        difference = RunDifference(preceding_run.path, path)
        first_findings_by_key: dict[tuple[str, str, str, str], list[ChangedFinding]] = {}
        counts_by_key: Counter[tuple[str, str, str, str]] = Counter()
        for finding in difference.changes():
            if finding.suppressed is None:
                key = finding.change, finding.id, finding.severity, finding.confidence
                counts_by_key[key] += 1
                if counts_by_key[key] <= MAX_FIRST_FINDINGS:
                    first_findings_by_key.setdefault(key, []).append(finding)
        change_groups = (
            ChangeGroup(*key, counts_by_key[key], tuple(first_findings))
            for key, first_findings in first_findings_by_key.items()
        )
        return ChangesSince(
            preceding_run, tuple(change_groups), (*incomplete_warning, *difference.warnings())
        )
    except RunError as error:
        return ChangesSince(None, warnings=(f"{NOT_COMPARED}: {error}",))


def _batch_reader(run: RunReader) -> Any:
    return lambda table_path, columns: run.batches(table_path, list(columns))


def _comma_list(names: list[str]) -> str:
    return f"{first_names(names, _MAX_BOOKIES_NAMED)} {'was' if len(names) == 1 else 'were'}"
