"""The witness: which entries bookies are asked for, and what their answers change in a ledger's judgement.

A ledger that lacks copies by the indexes is asked about once more, of the bookies themselves. The entry that
gives it its class is asked for on every bookie that should have it, and of each bookie that lacks something a
sample of that, so that small ledgers are decided whole. Then the ledger is judged again:

    the index        the bookie says       then, of this ledger on this bookie
    ---------------  --------------------  -----------------------------------------------------------------
    lacks the entry  served                it is held. The index has lost its authority here: what it lacks
                                           and was not asked for is unknown (index-incomplete). If no clock
                                           explains it, that is a finding on the bookie as well.
    lacks the entry  no such entry         it is missing, as of now: no doubt in the index's age is left. If
                                           there was one, what was not asked for is unknown (not-asked), else
                                           it is missing by the index.
    lacks the entry  no such ledger        all that the index lacks is missing, as of now
    lacks the entry  nothing (refused,     the index decides, and a doubt says that the bookie
                     silent, bound)        did not respond: no more than suspect
    was not read     served                it is held; the rest stays unknown
    was not read     no such entry/ledger  it is missing; the rest stays unknown
    lacks what a     served                it is held; a finding on the bookie if no clock explains it
    listing has      no such entry/ledger  unknown (denied): one of the two is wrong
                     nothing               it is held: a listing proves that. The finding is a suspect.
    is damaged       served                it is held; the rest stays unknown
                     no such entry/ledger  unknown still: a damaged index answers from the damage
    has it in limbo  served                it is in limbo no more: held, as is what the index shows; the rest
                                           stays unknown
                     anything else         unknown, whatever the index shows
    lies where the   served                it is held; the rest stays unknown
    bookie does not  no such entry/ledger  it is missing: the bookie does not look there
    look
    shows the entry  served, or nothing    it is held
    shows the entry  no such entry/ledger  unknown (denied): one of the two is wrong

A listing (``rpc:``) is an index here whose age is always in doubt. A bookie that nobody registered cannot be
asked: clocks and index decide as if there were no witness. One whose directories are all another cluster's is
not asked, for its ledgers are not ours. What holds whatever a bookie says stays a doubt: that the ledger is
not closed, that a directory lies in another bookie's place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from auditor.codecs.availability.coverage import even_sample, most_shared_entry
from auditor.codecs.availability.fold import fold_entries
from auditor.model.states import IndexState, WitnessAnswer
from auditor.tables.judge_replicas import (
    BookieState,
    Groups,
    Judgement,
    LedgerFacts,
    Pair,
    Testimony,
    groups_of,
    judge,
)

SAMPLE = 64
"""So many entries of one ledger that a bookie lacks it is asked for."""
BOUND = "the bound on reads was reached (--witness-reads)"


def questions(
    ledger: LedgerFacts,
    missing: Sequence[tuple[str, Groups]],
    askable: Collection[str],
    listed: Sequence[tuple[str, Groups]] = (),
    undecided: Collection[str] = (),
) -> list[tuple[int, str, int]]:
    """What to ask about a ledger: (turn, bookie, entry), the most telling first.

    Turn 0 is the entry with the most copies missing, on all of its write set; the turns after it are of what
    each bookie lacks, or only lists. Of bookies whose whole replica is ``undecided`` one entry tells. Raises
    `CoverageLimitError` where the sets are too irregular.

    >>> from auditor.codecs.availability.groups import GROUP
    >>> ledger = LedgerFacts(1, True, 2, 2, 1, 9, 0, [(0, ["a", "b"])])
    >>> questions(ledger, [("a", np.array([(3, 3, 2, 0)], GROUP))], ["a", "b"])
    [(0, 'a', 3), (0, 'b', 3), (1, 'a', 4)]
    """
    worst = most_shared_entry([groups for _, groups in missing])
    turns = {} if worst is None else {(bookie, worst): 0 for bookie in write_set(ledger, worst)}
    for bookie, groups in (*missing, *listed):
        sample = [entry for entry in even_sample(groups, SAMPLE) if entry != worst]
        turns |= {(bookie, entry): turn for turn, entry in enumerate(sample, 1)}
    for bookie in undecided:
        turns.setdefault((bookie, first_entry(ledger, bookie)), 1)
    return sorted((turn, bookie, entry) for (bookie, entry), turn in turns.items() if bookie in askable)


def write_set(ledger: LedgerFacts, entry: int) -> list[str]:
    """The bookies that should have an entry, each once.

    >>> write_set(LedgerFacts(1, True, 3, 2, 1, 9, 0, [(0, ["a", "b", "c"])]), 2)
    ['c', 'a']
    """
    ensemble = next(members for first, members in reversed(ledger.segments) if first <= entry)
    places = ((entry + copy) % ledger.ensemble_size for copy in range(ledger.write_quorum))
    return list(dict.fromkeys(ensemble[place] for place in places))


def first_entry(ledger: LedgerFacts, bookie_id: str) -> int:
    """The first entry that a bookie should have.

    >>> first_entry(LedgerFacts(1, True, 3, 2, 1, 9, 0, [(0, ["a", "b", "c"])]), "b")
    0
    >>> first_entry(LedgerFacts(1, True, 3, 1, 1, 9, 0, [(0, ["a", "b", "c"])]), "c")
    2
    """
    return next(
        entry
        for first, last in ledger.ranges
        for entry in range(first, min(last + 1, first + ledger.ensemble_size))
        if bookie_id in write_set(ledger, entry)
    )


def judge_again(
    ledger: LedgerFacts,
    pairs: Sequence[Pair],
    answers: Sequence[Mapping[str, Any]],
    askable: Collection[str],
    bookies: Mapping[str, BookieState],
    grace_ms: int,
) -> Judgement:
    """Judge a ledger from its unequal replicas and what bookies answered: rows of the table witness.

    ``askable`` are the bookies that could be asked; the others are judged as `judge` does. Raises as that.
    """
    said = per_bookie(answers)
    asked = [
        replace(pair, testimony=said.get(pair.bookie_id, Testimony(silent=BOUND)))
        if pair.bookie_id in askable
        else pair
        for pair in pairs
    ]
    unequal = {pair.bookie_id for pair in pairs}
    for bookie_id, (testimony, entries) in _of_equal_replicas(answers, said, unequal).items():
        # Its index shows all that it should: what was asked for stands for it.
        asked.append(Pair(bookie_id, entries, entries, IndexState.OK, testimony=testimony))
    return judge(ledger, asked, bookies, grace_ms)


def per_bookie(answers: Iterable[Mapping[str, Any]]) -> dict[str, Testimony]:
    """What each bookie said, from rows of the table witness of one ledger."""
    by_bookie: dict[str, list[Mapping[str, Any]]] = {}
    for row in answers:
        by_bookie.setdefault(row["bookie_id"], []).append(row)
    return {bookie: _testimony(rows) for bookie, rows in by_bookie.items()}


def _testimony(rows: Sequence[Mapping[str, Any]]) -> Testimony:
    def of(*answers: WitnessAnswer) -> list[Mapping[str, Any]]:
        return [row for row in rows if row["answer"] in answers]

    # The least of the reasons, so that the same answers in another order give the same row.
    unknown = of(WitnessAnswer.UNKNOWN)
    return Testimony(
        served=_entries(of(WitnessAnswer.SERVED)),
        denied=_entries(of(WitnessAnswer.NO_SUCH_ENTRY, WitnessAnswer.NO_SUCH_LEDGER)),
        no_ledger=bool(of(WitnessAnswer.NO_SUCH_LEDGER)),
        silent=min((row["reason"] for row in unknown), default=None),
    )


def _of_equal_replicas(
    answers: Sequence[Mapping[str, Any]], said: Mapping[str, Testimony], unequal: Collection[str]
) -> dict[str, tuple[Testimony, Groups]]:
    """Bookies without an unequal replica that deny an entry, and the entries that they were asked for."""
    return {
        bookie_id: (testimony, _entries([row for row in answers if row["bookie_id"] == bookie_id]))
        for bookie_id, testimony in said.items()
        if bookie_id not in unequal and len(testimony.denied)
    }


def _entries(rows: Iterable[Mapping[str, Any]]) -> Groups:
    ids = np.array(sorted({row["entry_id"] for row in rows}), np.int64)
    return groups_of(fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes())
