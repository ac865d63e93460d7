"""Ledgers that lack replicas as a whole, judged many at a time.

A bookie that is down, unread or empty takes its replica of each of its ledgers along, and that may be most of
the ledgers there are. Then no entries need to be compared: what is missing of a replica is all that is
expected, and the worst entry follows from the places in the ensembles alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, offsets_of
from auditor.codecs.availability.striping import worst_of_whole
from auditor.model.states import BookieRead
from auditor.tables.judge_replicas import (
    BookieState,
    Judgement,
    LedgerFacts,
    Pair,
    doubts_of,
    why_unknown,
)


def is_whole(ledger: LedgerFacts, pairs: Sequence[Pair]) -> bool:
    """Whether nothing is held of any unequal replica of a closed ledger."""
    return ledger.closed and all(len(pair.expected) and not len(pair.held) for pair in pairs)


def judge_whole(
    ledgers: Sequence[tuple[LedgerFacts, Sequence[Pair]]],
    bookies: Mapping[str, BookieState],
    grace_ms: int,
) -> list[Judgement]:
    """Judge ledgers for which `is_whole` holds, as `auditor.tables.judge_replicas.judge` would."""
    answers = []
    owner: list[int] = []
    seats: list[tuple[int, int, int, int]] = []
    gone: list[list[bool]] = []
    doubtful: list[list[bool]] = []
    for number, (ledger, pairs) in enumerate(ledgers):
        answer = _weigh(ledger, pairs, bookies, grace_ms)
        lost = {bookie for bookie, _ in answer.missing}
        unsure = {bookie for bookie, _, _ in answer.unknown}
        for (first, last), (_, ensemble) in zip(ledger.ranges, ledger.segments, strict=True):
            owner.append(number)
            seats.append((first, last, ledger.ensemble_size, ledger.write_quorum))
            gone.append([member in lost for member in ensemble])
            doubtful.append([member in unsure for member in ensemble])
        answers.append(answer)
    if seats:
        first_entry, last_entry, size, quorum = np.array(seats, np.int64).T
        m, mu = worst_of_whole(first_entry, last_entry, size, quorum, _square(gone), _square(doubtful))
        for number, worst, potential in zip(owner, m.tolist(), mu.tolist(), strict=True):
            # One seat per segment; a ledger is as bad as the worst of its segments.
            answers[number].m = max(answers[number].m, worst)
            answers[number].mu = max(answers[number].mu, potential)
    return answers


def _weigh(
    ledger: LedgerFacts, pairs: Sequence[Pair], bookies: Mapping[str, BookieState], grace_ms: int
) -> Judgement:
    answer = Judgement()
    for pair in sorted(pairs, key=lambda pair: pair.bookie_id):
        state = bookies.get(pair.bookie_id, BookieState(BookieRead.UNREAD))
        why = why_unknown(state, pair)
        if why is not None:
            answer.unknown.append((pair.bookie_id, pair.expected, why))
        else:
            answer.missing.append((pair.bookie_id, pair.expected))
            answer.doubts |= doubts_of(ledger, pair, state, grace_ms)
    return answer


def _square(rows: Sequence[Sequence[bool]]) -> NDArray[np.bool_]:
    """Rows of different lengths as one array, filled up with False."""
    width = max(len(row) for row in rows)
    # A seat that is not there can be neither gone nor doubtful.
    return np.array([[*row, *[False] * (width - len(row))] for row in rows], bool)


def counts(sets: Sequence[bytes]) -> list[int]:
    """How many entries each set has, from its packed groups; one pass over all of them.

    >>> counts([GroupBatch.of([[(0, 9, 2, 3)]]).tobytes(), b""])
    [8, 0]
    """
    lengths = np.array([len(value) for value in sets], np.int64)
    batch = GroupBatch.frombytes(b"".join(sets), offsets_of(lengths))
    totals = offsets_of(batch.entries())
    return [int(total) for total in totals[batch.offsets[1:]] - totals[batch.offsets[:-1]]]
