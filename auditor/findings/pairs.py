"""Changes of findings between two finished runs, without Spark.

There may be tens of millions of findings, so only a few numbers for each finding are kept in memory
(`FindingArrays`). All other columns are read again, batch by batch, and only for changed findings. An audit
computes the same changes in Spark (`auditor.findings.changes`), by the same rules
(`auditor.findings.rules`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.findings.arrays import (
    find_positions,
    fingerprint_numbers,
    is_among_texts,
    to_codes,
    to_flags,
    to_whole_numbers,
)
from auditor.findings.basis import Batches, FindingObjects, finding_objects, is_covered_by_run, is_of_checks
from auditor.findings.rules import CHANGE_IF_NOT_COVERED, FindingState, is_milder, is_worse
from auditor.model.finding import Confidence, Severity
from auditor.model.states import FOUND_NOW, Change
from auditor.tables.changes import CHANGED

CHANGE_KINDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNCHECKED, Change.SAME)
_NEW, _WORSE, _BETTER, _FIXED, _, _SAME = range(len(CHANGE_KINDS))
_SEVERITY_RANKS = {str(severity): severity.rank for severity in Severity}
CONFIDENCES = [str(confidence) for confidence in Confidence]
_CONFIDENCE_CODES = {confidence: code for code, confidence in enumerate(CONFIDENCES)}
_CONFIRMED = _CONFIDENCE_CODES[Confidence.CONFIRMED]


@dataclass(frozen=True)
class FindingArrays:
    """The findings that one run knows, as arrays in the order of its table ``changes``.

    ``match_key`` identifies the fault. Two runs match their findings by this number. ``severity_ranks`` is
    the rank of the severity, 0 for the worst. ``confidence_numbers`` is a position in `CONFIDENCES`.
    ``row_numbers`` is the position in the table. ``is_not_checked`` is True if the run could not look for the
    finding, or could not tell whether it still has its earlier severity.
    """

    match_key: NDArray[np.uint64]
    severity_ranks: NDArray[np.int8]
    missing_counts: NDArray[np.int64]
    confidence_numbers: NDArray[np.int8]
    row_numbers: NDArray[np.int64]
    is_not_checked: NDArray[np.bool_]


@dataclass(frozen=True)
class FindingPairs:
    """The findings of a new run with their matches in an old run, and the change of each finding.

    ``new_changes`` has the change of each finding of the new run. ``old_positions`` has the position of its
    match in ``old_findings``, or -1 without a match. ``unmatched_old_rows`` has the positions of old findings
    without a match, ascending. ``unmatched_changes`` has their changes.
    """

    old_findings: FindingArrays
    new_findings: FindingArrays
    old_positions: NDArray[np.int64]
    new_changes: NDArray[np.int8]
    unmatched_old_rows: NDArray[np.int64]
    unmatched_changes: NDArray[np.int8]

    def counts(self) -> dict[str, int]:
        """Return the number of findings by change."""
        change_counts = np.bincount(self.new_changes, minlength=len(CHANGE_KINDS)) + np.bincount(
            self.unmatched_changes, minlength=len(CHANGE_KINDS)
        )
        return {kind: int(count) for kind, count in zip(CHANGE_KINDS, change_counts, strict=True)}


def read_finding_arrays(batches: Batches, changes: Sequence[str], column_prefix: str = "") -> FindingArrays:
    """Read severity, missing entries and confidence of the findings that have one of these ``changes``.

    ``column_prefix`` is the prefix of the names of these columns. The prefix "" selects the values that the
    run itself found. The prefix "known_" selects the values that were known at the end of the run.

    Raises `RunError` if no audit can have written the table.
    """
    array_parts: list[tuple[Any, ...]] = []
    batch_start = 0
    severity, missing_column, confidence = (
        f"{column_prefix}{name}" for name in ("severity", "missing", "confidence")
    )
    names = dict.fromkeys(
        ["trouble", "change", severity, missing_column, confidence, "severity", "known_severity"]
    )
    for batch in batches(CHANGED, [*names]):
        rows = np.flatnonzero(is_among_texts(batch["change"], changes))
        array_parts.append(
            (
                fingerprint_numbers(batch["trouble"])[rows],
                to_codes(batch[severity], _SEVERITY_RANKS)[rows],
                to_whole_numbers(batch[missing_column])[rows],
                to_codes(batch[confidence], _CONFIDENCE_CODES)[rows],
                rows + batch_start,
                is_among_texts(batch["change"], [Change.UNCHECKED])[rows]
                | to_flags(pc.not_equal(batch["severity"], batch["known_severity"]))[rows],
            )
        )
        batch_start += batch.num_rows
    column_types = (np.uint64, np.int8, np.int64, np.int8, np.int64, np.bool_)
    columns = zip(*array_parts, strict=True) if array_parts else ([] for _ in column_types)
    match_keys, rank, missing_count, confidence_codes, row, is_unchecked = (
        np.concatenate([np.empty(0, kind), *column])
        for kind, column in zip(column_types, columns, strict=True)
    )
    return FindingArrays(match_keys, rank, missing_count, confidence_codes, row, is_unchecked)


def pair_findings(
    earlier_batches: Batches,
    current_batches: Batches,
    has_gaps: bool,
    skipped_checks: Collection[str] = (),
    lost_carried: Collection[str] = (),
) -> FindingPairs:
    """Compare the findings of two runs. Return the pairs and the changes.

    ``has_gaps`` is whether a part of the new run's metadata could not be listed. ``skipped_checks`` has the
    checks that the new run left out, or that had fewer inputs than in the old run. ``lost_carried`` has the
    checks that had fewer inputs than in at least one earlier run. They matter for earlier findings that the
    old run carried over, because it could not look for them. Such findings are compared with their last known
    severity, missing entries and confidence.
    """
    earlier_findings = read_finding_arrays(earlier_batches, (*FOUND_NOW, Change.UNCHECKED), "known_")
    current_findings = read_finding_arrays(current_batches, FOUND_NOW)
    earlier_order = np.argsort(earlier_findings.match_key, kind="stable")
    match_positions = find_positions(earlier_findings.match_key[earlier_order], current_findings.match_key)
    is_paired = match_positions >= 0
    match_positions[is_paired] = earlier_order[match_positions[is_paired]]
    new_changes = np.full(len(current_findings.match_key), _NEW, np.int8)
    new_changes[is_paired] = _compare_findings(earlier_findings, current_findings, match_positions, is_paired)
    unmatched_old_rows = np.flatnonzero(
        find_positions(np.sort(current_findings.match_key), earlier_findings.match_key) < 0
    )

    def is_covered(findings: FindingObjects, was_not_checked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        is_unchecked = is_of_checks(findings, skipped_checks) | (
            was_not_checked & is_of_checks(findings, lost_carried)
        )
        return is_covered_by_run(current_batches, has_gaps, findings, is_unchecked)

    better_rows = np.flatnonzero(new_changes == _BETTER)
    findings = finding_objects(current_batches, current_findings.row_numbers[better_rows])
    are_rows_covered = is_covered(findings, earlier_findings.is_not_checked[match_positions[better_rows]])
    new_changes[better_rows[~are_rows_covered]] = CHANGE_KINDS.index(CHANGE_IF_NOT_COVERED[Change.BETTER])
    findings = finding_objects(earlier_batches, earlier_findings.row_numbers[unmatched_old_rows])
    are_rows_covered = is_covered(findings, earlier_findings.is_not_checked[unmatched_old_rows])
    unmatched_changes = np.where(
        are_rows_covered, _FIXED, CHANGE_KINDS.index(CHANGE_IF_NOT_COVERED[Change.FIXED])
    ).astype(np.int8)
    return FindingPairs(
        earlier_findings,
        current_findings,
        match_positions,
        new_changes,
        unmatched_old_rows,
        unmatched_changes,
    )


def _compare_findings(
    earlier_findings: FindingArrays,
    current_findings: FindingArrays,
    match_positions: NDArray[np.int64],
    is_paired: NDArray[np.bool_],
) -> NDArray[np.int8]:
    current_state, earlier_state = (
        _finding_state(current_findings, is_paired),
        _finding_state(earlier_findings, match_positions[is_paired]),
    )
    change_flags = [is_worse(current_state, earlier_state), is_milder(current_state, earlier_state)]
    return np.select(change_flags, [_WORSE, _BETTER], _SAME).astype(np.int8)


def _finding_state(finding_arrays: FindingArrays, rows: NDArray[Any]) -> FindingState:
    return FindingState(
        finding_arrays.severity_ranks[rows],
        finding_arrays.missing_counts[rows],
        finding_arrays.confidence_numbers[rows] == _CONFIRMED,
    )
