"""The class of a ledger: how many copies its worst entry lacks, and which entries lack the same number.

`set_class` compares sets of entries and works for every ledger. `set_whole_replica_classes` gives the same
result for many ledgers at a time if their unequal replicas hold no entry. A bookie that is unread, down or
empty lacks its replica of every one of its ledgers. If most bookies are unread, most ledgers of the cluster
lack several replicas. The positions of the bookies in the ensembles are then enough to find the worst
entry. docs/architecture.md says how much time this saves.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.striping import entries_short_of_copies, most_missing_copies
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
    """Judge one ledger from its unequal replicas (those whose expected and held entries differ).

    The arguments and errors are those of `auditor.tables.judge_replicas.classify_replicas`.
    """
    judgement = classify_replicas(ledger, pairs, bookies, grace_ms)
    set_class(ledger, judgement)
    return judgement


def set_class(ledger: LedgerFacts, judgement: Judgement) -> None:
    """Set the class of a ledger whose entries are classified: ``m``, ``mu`` and the entries of the class.

    Raises `CoverageLimitError` in the same cases as `judge`.
    """
    missing_sets, unknown_sets = (
        [replica_set[1] for replica_set in judgement.missing],
        [groups for _, groups, _ in judgement.unknown],
    )
    if missing_sets or unknown_sets:
        judgement.m, judgement.mu = coverage.worst_copy_counts(missing_sets, unknown_sets)
        judgement.class_entries = entries_of_class(ledger, judgement)


def min_missing_copies(ledger: LedgerFacts, max_missing: int) -> int:
    """Return the number of copies that an entry must lack, at least, to belong to the ledger's class.

    The class depends on ``max_missing``, the number of copies that the ledger's worst entry lacks.

    >>> from dataclasses import replace
    >>> ledger = LedgerFacts(1, True, 3, 3, 2, 9, 0, [(0, ["a", "b", "c"])])
    >>> [min_missing_copies(ledger, m) for m in (1, 2, 3)]
    [1, 2, 3]
    >>> min_missing_copies(replace(ledger, is_closed=False), 3)
    2
    """
    if ledger.is_closed and max_missing >= ledger.write_quorum:
        return ledger.write_quorum
    min_below_ack = ledger.write_quorum - ledger.ack_quorum + 1
    return min_below_ack if max_missing >= min_below_ack else 1


def entries_of_class(ledger: LedgerFacts, judgement: Judgement) -> Groups | None:
    """Return the entries that determine the class of a judged ledger.

    They have no copy left, or fewer copies than the ack quorum or the write quorum. Only missing copies
    count. Unknown copies are assumed to exist. Returns None if the sets are too irregular.
    """
    missing_sets = [groups for _, groups in judgement.missing]
    if len(missing_sets) < 2:
        return missing_sets[0] if missing_sets else NO_GROUPS
    try:
        return coverage.at_least(missing_sets, min_missing_copies(ledger, judgement.m))
    except CoverageLimitError:
        return None


def lacks_whole_replicas(ledger: LedgerFacts, pairs: Sequence[Pair]) -> bool:
    """Return whether the ledger is closed and no replica in ``pairs`` holds any entry.

    ``pairs`` has the replicas whose expected and held entries differ. Each of them should hold at least one
    entry.
    """
    has_no_held_entries = all(
        len(pair.expected_groups) and not len(pair.held_groups) and not len(pair.gone_groups)
        for pair in pairs
    )
    return ledger.is_closed and has_no_held_entries


def set_whole_replica_classes(ledgers: Sequence[tuple[LedgerFacts, Judgement]]) -> None:
    """Set the class of ledgers whose entries are classified, and for which `lacks_whole_replicas` is True.

    The result is the same as with `set_class`.
    """
    judgements = [judgement for _, judgement in ledgers]
    ledger_numbers: list[int] = []
    segment_rows: list[tuple[int, int, int, int]] = []
    missing_members: list[list[bool]] = []
    unknown_members: list[list[bool]] = []
    for ledger_number, (ledger, judgement) in enumerate(ledgers):
        missing_entry_bookies = {bookie for bookie, _ in judgement.missing}
        unknown_bookies = {bookie for bookie, _, _ in judgement.unknown}
        for (segment_first, segment_last), (_, ensemble) in zip(
            ledger.segment_ranges, ledger.segments, strict=True
        ):
            ledger_numbers.append(ledger_number)
            segment_rows.append((segment_first, segment_last, ledger.ensemble_size, ledger.write_quorum))
            missing_members.append([member in missing_entry_bookies for member in ensemble])
            unknown_members.append([member in unknown_bookies for member in ensemble])
    if not segment_rows:
        return
    first_entry, last_entry, ensemble_size, write_quorum = np.array(segment_rows, np.int64).T
    missing_member_flags = _pad_flags(missing_members)
    max_missing_copies, max_not_present_copies = most_missing_copies(
        first_entry,
        last_entry,
        ensemble_size,
        write_quorum,
        missing_member_flags,
        _pad_flags(unknown_members),
    )
    for ledger_number, missing_count, not_present_count in zip(
        ledger_numbers, max_missing_copies.tolist(), max_not_present_copies.tolist(), strict=True
    ):
        # One row per segment. The numbers of a ledger are those of its worst segment.
        judgements[ledger_number].m = max(judgements[ledger_number].m, missing_count)
        judgements[ledger_number].mu = max(judgements[ledger_number].mu, not_present_count)
    min_missing_counts = [
        min_missing_copies(ledgers[row_ledger_number][0], judgements[row_ledger_number].m)
        for row_ledger_number in ledger_numbers
    ]
    class_entry_sets, set_is_exact_flags = entries_short_of_copies(
        first_entry,
        last_entry,
        ensemble_size,
        write_quorum,
        missing_member_flags,
        np.array(min_missing_counts, np.int64),
    )
    ledgers_without_set = {
        number
        for number, has_exact_set in zip(ledger_numbers, set_is_exact_flags.tolist(), strict=True)
        if not has_exact_set
    }
    try:
        merged_groups = fold(
            class_entry_sets.merge(np.array(ledger_numbers, np.int64), len(judgements))
        ).values()
    except CoverageLimitError:
        ledgers_without_set, merged_groups = set(ledger_numbers), [b""] * len(judgements)
    for ledger_number, ((ledger, judgement), groups) in enumerate(zip(ledgers, merged_groups, strict=True)):
        judgement.class_entries = (
            entries_of_class(ledger, judgement) if ledger_number in ledgers_without_set else groups_of(groups)
        )


def _pad_flags(rows: Sequence[Sequence[bool]]) -> NDArray[np.bool_]:
    """Return rows of different lengths as one array, padded with False."""
    row_length = max(len(row) for row in rows)
    # Padding positions count as neither missing nor unknown.
    return np.array([[*row, *[False] * (row_length - len(row))] for row in rows], bool)
