"""The class of a ledger: how many copies its worst entry lacks, and which entries are as bad.

`set_class` compares sets of entries and serves every ledger. `set_classes_of_whole` gives the same result for
many ledgers at a time if their unequal replicas hold nothing. A bookie that is unread, down or empty lacks
its replica of each of its ledgers. If most bookies are unread, most ledgers of the cluster lack several
replicas. The places of the bookies in the ensembles are then enough to find the worst entry.
docs/architecture.md has the time that this saves.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.striping import short_of_whole, worst_of_whole
from auditor.errors import CoverageLimitError
from auditor.tables.judge_replicas import (
    NO_GROUPS,
    BookieState,
    Groups,
    LedgerFacts,
    Pair,
    classify_replicas,
    groups_of,
)
from auditor.tables.judgement import Judgement


def judge(
    ledger: LedgerFacts, pairs: Sequence[Pair], bookies: Mapping[str, BookieState], grace_ms: int
) -> Judgement:
    """Judge one ledger from its unequal replicas.

    Arguments and errors are those of `auditor.tables.judge_replicas.classify_replicas`.
    """
    answer = classify_replicas(ledger, pairs, bookies, grace_ms)
    set_class(ledger, answer)
    return answer


def set_class(ledger: LedgerFacts, answer: Judgement) -> None:
    """Set the class of a classified ledger: ``m``, ``mu`` and the entries of the class.

    Raises `CoverageLimitError` as `judge` does.
    """
    missing, unknown = (
        [missing_set[1] for missing_set in answer.missing],
        [groups for _, groups, _ in answer.unknown],
    )
    if missing or unknown:
        answer.m, answer.mu = coverage.worst(missing, unknown)
        answer.class_entries = entries_of_class(ledger, answer)


def least_missing(ledger: LedgerFacts, m: int) -> int:
    """Return the least number of missing copies that puts an entry in the ledger's class.

    The class depends on ``m``, the number of copies that the ledger's worst entry lacks.

    >>> from dataclasses import replace
    >>> ledger = LedgerFacts(1, True, 3, 3, 2, 9, 0, [(0, ["a", "b", "c"])])
    >>> [least_missing(ledger, m) for m in (1, 2, 3)], least_missing(replace(ledger, closed=False), 3)
    ([1, 2, 3], 2)
    """
    if ledger.closed and m >= ledger.write_quorum:
        return ledger.write_quorum
    below_ack = ledger.write_quorum - ledger.ack_quorum + 1
    return below_ack if m >= below_ack else 1


def entries_of_class(ledger: LedgerFacts, answer: Judgement) -> Groups | None:
    """Return the entries that give a judged ledger its class: no copy left, or below ack or write quorum.

    Only missing copies count; unknown ones are assumed present. None if the sets are too irregular.
    """
    missing = [groups for _, groups in answer.missing]
    if len(missing) < 2:
        return missing[0] if missing else NO_GROUPS
    try:
        return coverage.at_least(missing, least_missing(ledger, answer.m))
    except CoverageLimitError:
        return None


def lacks_whole_replicas(ledger: LedgerFacts, pairs: Sequence[Pair]) -> bool:
    """Return whether the ledger is closed and none of its unequal replicas holds any entry.

    Each of these replicas should hold an entry.
    """
    empty = all(len(pair.expected) and not len(pair.held) and not len(pair.gone) for pair in pairs)
    return ledger.closed and empty


def set_classes_of_whole(ledgers: Sequence[tuple[LedgerFacts, Judgement]]) -> None:
    """Set the class of classified ledgers for which `lacks_whole_replicas` is true.

    The result is that of `set_class`.
    """
    answers = [answer for _, answer in ledgers]
    answer_numbers: list[int] = []
    segment_rows: list[tuple[int, int, int, int]] = []
    missing_members: list[list[bool]] = []
    unknown_members: list[list[bool]] = []
    for number, (ledger, answer) in enumerate(ledgers):
        lost = {bookie for bookie, _ in answer.missing}
        unknown_bookies = {bookie for bookie, _, _ in answer.unknown}
        for (first, last), (_, ensemble) in zip(ledger.ranges, ledger.segments, strict=True):
            answer_numbers.append(number)
            segment_rows.append((first, last, ledger.ensemble_size, ledger.write_quorum))
            missing_members.append([member in lost for member in ensemble])
            unknown_members.append([member in unknown_bookies for member in ensemble])
    if not segment_rows:
        return
    first_entry, last_entry, size, quorum = np.array(segment_rows, np.int64).T
    missing_flags = _to_flags(missing_members)
    m, mu = worst_of_whole(first_entry, last_entry, size, quorum, missing_flags, _to_flags(unknown_members))
    for number, worst_missing, potential_missing in zip(answer_numbers, m.tolist(), mu.tolist(), strict=True):
        # One seat per segment; a ledger is as bad as the worst of its segments.
        answers[number].m = max(answers[number].m, worst_missing)
        answers[number].mu = max(answers[number].mu, potential_missing)
    least_counts = [least_missing(ledgers[number][0], answers[number].m) for number in answer_numbers]
    class_entry_sets, exact_flags = short_of_whole(
        first_entry, last_entry, size, quorum, missing_flags, np.array(least_counts, np.int64)
    )
    inexact_ledgers = {
        number
        for number, has_exact_set in zip(answer_numbers, exact_flags.tolist(), strict=True)
        if not has_exact_set
    }
    try:
        merged_groups = fold(
            class_entry_sets.merge(np.array(answer_numbers, np.int64), len(answers))
        ).values()
    except CoverageLimitError:
        inexact_ledgers, merged_groups = set(answer_numbers), [b""] * len(answers)
    for number, ((ledger, answer), groups) in enumerate(zip(ledgers, merged_groups, strict=True)):
        answer.class_entries = (
            entries_of_class(ledger, answer) if number in inexact_ledgers else groups_of(groups)
        )


def _to_flags(rows: Sequence[Sequence[bool]]) -> NDArray[np.bool_]:
    """Return rows of different lengths as one array, padded with False."""
    row_length = max(len(row) for row in rows)
    # A seat that is not there can be neither gone nor doubtful.
    return np.array([[*row, *[False] * (row_length - len(row))] for row in rows], bool)
