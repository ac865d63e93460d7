"""What bookies said of one ledger when they were asked for its entries: the table witness, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold_entries
from auditor.model.ledger_view import AnswerView, ReplicaView
from auditor.model.states import UnknownCopy
from auditor.model.witness import WitnessAnswer
from auditor.tables.judge_replicas import groups_of

_LEFT_OPEN: dict[str, str] = {
    UnknownCopy.INDEX_INCOMPLETE: "it serves entries that its index lacks; what it was not asked for is "
    "unknown",
    UnknownCopy.NOT_ASKED: "its index is too old to say, and it was not asked for all",
}


def answers_of(rows: Iterable[Mapping[str, Any]]) -> tuple[AnswerView, ...]:
    """One for each bookie, answer and reason, in this order.

    >>> row = {"bookie_id": "b1", "answer": "served", "reason": None}
    >>> answers_of([row | {"entry_id": 3}, row | {"entry_id": 0}])[0].count
    2
    """
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        grouped.setdefault((row["bookie_id"], row["answer"], row["reason"] or ""), []).append(row["entry_id"])
    return tuple(
        AnswerView(bookie_id, WitnessAnswer(answer), _groups(entries), len(entries), reason or None)
        for (bookie_id, answer, reason), entries in sorted(grouped.items())
    )


def with_answers(
    replica: ReplicaView, answers: Iterable[AnswerView], unknown: Mapping[str, str]
) -> ReplicaView:
    """A replica with what its bookie serves; ``unknown`` says why copies are unknown, by bookie (judged)."""
    served = [
        groups_of(each.entries)
        for each in answers
        if each.bookie_id == replica.bookie_id and each.answer is WitnessAnswer.SERVED
    ]
    held = coverage.union([groups_of(replica.held), *served]).tobytes() if served else replica.held
    why = _LEFT_OPEN.get(unknown.get(replica.bookie_id, ""))
    return ReplicaView(
        replica.bookie_id,
        replica.member,
        replica.expected,
        held,
        replica.known and why is None,
        replica.state,
        why or replica.reason,
    )


def _groups(entries: Iterable[int]) -> bytes:
    ids = np.array(sorted(set(entries)), np.int64)
    return fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes()
