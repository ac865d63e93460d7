"""What changed between two finished runs, from their tables changes: pyarrow and numpy, no Spark.

Of each finding three numbers are kept to find its pair (`Marks`); all else is read again, batch by batch, and
only of what changed. `auditor.findings.changes` answers the same question inside an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.findings.basis import covers, subjects
from auditor.findings.columns import Batches, among, find, fingerprint_numbers, to_codes, whole
from auditor.model.finding import Confidence, Severity
from auditor.model.states import FOUND, Change
from auditor.tables.changes import CHANGED

KINDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN, Change.SAME)
_NEW, _WORSE, _BETTER, _FIXED, _UNSEEN, _SAME = range(len(KINDS))
_RANKS = {str(severity): severity.rank for severity in Severity}
CONFIDENCES = [str(confidence) for confidence in Confidence]
_SURE = {confidence: place for place, confidence in enumerate(CONFIDENCES)}
_CONFIRMED = _SURE[Confidence.CONFIRMED]


@dataclass(frozen=True)
class Marks:
    """The findings that one run knows, as arrays in the order of its table: 18 bytes each, and their rows.

    ``trouble`` is the number that runs are joined by, ``rank`` that of the severity, 0 the worst;
    ``confidence`` its place in `CONFIDENCES`; ``row`` the place in the table.
    """

    trouble: NDArray[np.uint64]
    rank: NDArray[np.int8]
    missing: NDArray[np.int64]
    confidence: NDArray[np.int8]
    row: NDArray[np.int64]


@dataclass(frozen=True)
class FindingPairs:
    """Each finding of the new run with its change and its pair in the old one, and those only the old has.

    ``pair`` are positions in the old `Marks`, -1 for none; ``gone`` are positions there too, ascending.
    """

    old: Marks
    new: Marks
    pair: NDArray[np.int64]
    change: NDArray[np.int8]
    gone: NDArray[np.int64]
    gone_change: NDArray[np.int8]

    def counts(self) -> dict[str, int]:
        """How many findings changed how."""
        total = np.bincount(self.change, minlength=len(KINDS)) + np.bincount(
            self.gone_change, minlength=len(KINDS)
        )
        return {kind: int(count) for kind, count in zip(KINDS, total, strict=True)}


def marks(batches: Batches, known: Sequence[str], prefix: str = "") -> Marks:
    """Read the findings of a run whose change is one of ``known``: severity, missing and confidence.

    ``prefix`` is that of their columns: "" as the run found them, "known_" as it leaves them known.

    Raises `RunError` where the table cannot be what an audit wrote.
    """
    parts: list[tuple[Any, ...]] = []
    start = 0
    severity, missing, confidence = (f"{prefix}{name}" for name in ("severity", "missing", "confidence"))
    for batch in batches(CHANGED, ["trouble", "change", severity, missing, confidence]):
        rows = np.flatnonzero(among(batch["change"], known))
        parts.append(
            (
                fingerprint_numbers(batch["trouble"])[rows],
                to_codes(batch[severity], _RANKS)[rows],
                whole(batch[missing])[rows],
                to_codes(batch[confidence], _SURE)[rows],
                rows + start,
            )
        )
        start += batch.num_rows
    kinds = (np.uint64, np.int8, np.int64, np.int8, np.int64)
    columns = zip(*parts, strict=True) if parts else ([] for _ in kinds)
    trouble, rank, absent, sure, row = (
        np.concatenate([np.empty(0, kind), *column]) for kind, column in zip(kinds, columns, strict=True)
    )
    return Marks(trouble, rank, absent, sure, row)


def pair_findings(old: Batches, new: Batches, holes: bool) -> FindingPairs:
    """Compare two runs; ``holes``: the new one's listings of metadata had some.

    What the old run did not see and still knew takes part, as what it last was.
    """
    before = marks(old, (*FOUND, Change.UNSEEN), "known_")
    now = marks(new, FOUND)
    order = np.argsort(before.trouble, kind="stable")
    pair = find(before.trouble[order], now.trouble)
    met = pair >= 0
    pair[met] = order[pair[met]]
    change = np.full(len(now.trouble), _NEW, np.int8)
    change[met] = _compare_marks(before, now, pair, met)
    gone = np.flatnonzero(find(np.sort(now.trouble), before.trouble) < 0)

    better = np.flatnonzero(change == _BETTER)
    # Better or gone because less was looked at is neither.
    change[better[~covers(new, holes, subjects(new, now.row[better]))]] = _SAME
    fixed = covers(new, holes, subjects(old, before.row[gone]))
    gone_change = np.where(fixed, _FIXED, _UNSEEN).astype(np.int8)
    return FindingPairs(before, now, pair, change, gone, gone_change)


def _compare_marks(
    before: Marks, now: Marks, pair: NDArray[np.int64], met: NDArray[np.bool_]
) -> NDArray[np.int8]:
    rank, was = now.rank[met], before.rank[pair[met]]
    missing, had = now.missing[met], before.missing[pair[met]]
    confirmed = (now.confidence[met] == _CONFIRMED) & (before.confidence[pair[met]] != _CONFIRMED)
    worse = (rank < was) | ((rank == was) & (missing > had)) | confirmed
    better = (rank > was) | ((rank == was) & (missing < had))
    return np.select([worse, better], [_WORSE, _BETTER], _SAME).astype(np.int8)
