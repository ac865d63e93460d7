"""The class of a ledger: how many copies its worst entry lacks, and which entries are as bad.

`measure` compares sets of entries and serves every ledger. `measure_whole` gives the same result for many
ledgers at a time if their unequal replicas hold nothing. A bookie that is unread, down or empty lacks its
replica of each of its ledgers. If most bookies are unread, most ledgers of the cluster lack several replicas.
The places of the bookies in the ensembles are then enough to find the worst entry. docs/architecture.md has
the time that this saves.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.striping import entries_short_of_copies, most_missing_copies
from auditor.errors import CoverageLimitError
from auditor.tables.judge_replicas import (
    NOTHING,
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
    measure(ledger, answer)
    return answer


def measure(ledger: LedgerFacts, answer: Judgement) -> None:
    """Set the class of a classified ledger: ``m``, ``mu`` and the entries of the class.

    Raises `CoverageLimitError` as `judge` does.
    """
    missing, unknown = (
        [missing_set[1] for missing_set in answer.missing],
        [groups for _, groups, _ in answer.unknown],
    )
    if missing or unknown:
        answer.m, answer.mu = coverage.worst_copy_counts(missing, unknown)
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
        return missing[0] if missing else NOTHING
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


def measure_whole(ledgers: Sequence[tuple[LedgerFacts, Judgement]]) -> None:
    """Set the class of classified ledgers for which `lacks_whole_replicas` is true.

    The result is that of `measure`.
    """
    answers = [answer for _, answer in ledgers]
    owner: list[int] = []
    seats: list[tuple[int, int, int, int]] = []
    missing_members: list[list[bool]] = []
    doubtful: list[list[bool]] = []
    for number, (ledger, answer) in enumerate(ledgers):
        lost = {bookie for bookie, _ in answer.missing}
        unsure = {bookie for bookie, _, _ in answer.unknown}
        for (first, last), (_, ensemble) in zip(ledger.ranges, ledger.segments, strict=True):
            owner.append(number)
            seats.append((first, last, ledger.ensemble_size, ledger.write_quorum))
            missing_members.append([member in lost for member in ensemble])
            doubtful.append([member in unsure for member in ensemble])
    if not seats:
        return
    first_entry, last_entry, size, quorum = np.array(seats, np.int64).T
    absent = _square(missing_members)
    m, mu = most_missing_copies(first_entry, last_entry, size, quorum, absent, _square(doubtful))
    for number, worst, potential in zip(owner, m.tolist(), mu.tolist(), strict=True):
        # One seat per segment; a ledger is as bad as the worst of its segments.
        answers[number].m = max(answers[number].m, worst)
        answers[number].mu = max(answers[number].mu, potential)
    least = [least_missing(ledgers[number][0], answers[number].m) for number in owner]
    sets, exact = entries_short_of_copies(
        first_entry, last_entry, size, quorum, absent, np.array(least, np.int64)
    )
    inexact_ledgers = {number for number, single in zip(owner, exact.tolist(), strict=True) if not single}
    try:
        folded = fold(sets.merge(np.array(owner, np.int64), len(answers))).values()
    except CoverageLimitError:
        inexact_ledgers, folded = set(owner), [b""] * len(answers)
    for number, ((ledger, answer), groups) in enumerate(zip(ledgers, folded, strict=True)):
        answer.class_entries = (
            entries_of_class(ledger, answer) if number in inexact_ledgers else groups_of(groups)
        )


def _square(rows: Sequence[Sequence[bool]]) -> NDArray[np.bool_]:
    """Return rows of different lengths as one array, padded with False."""
    width = max(len(row) for row in rows)
    # A seat that is not there can be neither gone nor doubtful.
    return np.array([[*row, *[False] * (width - len(row))] for row in rows], bool)
