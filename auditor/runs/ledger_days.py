"""On which days the ledgers of a run were made, and how they fare: batch by batch, in narrow columns.

A fault often has a day: a disk that was swapped, a configuration that was rolled out. Of ledgers that are
not healthy two numbers each are kept, of the others none.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.model.states import LISTED, LedgerClass
from auditor.runs.reader import RunReader

Numbers = npt.NDArray[np.int64]

CLASSES = tuple(LedgerClass)
"""In the order of columns and of what is drawn."""

DAY_MS = 24 * 60 * 60 * 1000

LAST_DAY = 106_751
"""Days since 1970 that a pandas time can name; so many rows at most."""

UNKNOWN = -1
"""Stands for a day that is not known."""


def days_of(run: RunReader) -> dict[int, Counter[str]]:
    """Ledgers by day of their creation, as days since 1970 in UTC, and by class.

    The day is `UNKNOWN` where neither metadata nor store has a time: metadata of old formats on etcd.

    Raises:
        RunError: a table is missing or broken.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    from auditor.runs.figures import created_of

    classes = _Classes(run)
    counts: dict[int, Counter[str]] = {}
    columns = ["scope_id", "ledger_id", "ctime", "metadata_ctime"]
    of_ledgers = ds.field("status").isin(LISTED)
    for batch in run.batches("tables/ledgers", columns, of_ledgers):
        pairs = pa.table({"day": days_since_1970(created_of(batch)), "class": classes.of(batch)}).group_by(
            ["day", "class"]
        )
        for row in pairs.aggregate([([], "count_all")]).to_pylist():
            counts.setdefault(row["day"], Counter())[CLASSES[row["class"]]] += row["count_all"]
    return counts


def days_since_1970(column: Any) -> Numbers:
    """The UTC days of a column of milliseconds; `UNKNOWN` for null and for what no pandas time can name."""
    days: Numbers = np.floor_divide(column.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), DAY_MS)
    return np.where((days < 0) | (days > LAST_DAY), UNKNOWN, days)


class _Classes:
    """The class of every ledger: of those that are not healthy by their number, of all others healthy."""

    def __init__(self, run: RunReader) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        none = np.empty(0, np.int64)
        parts: list[tuple[Numbers, Numbers, Numbers]] = [(none, none, none)]
        columns = ["scope_id", "ledger_id", "class"]
        for batch in run.batches("tables/verdicts", columns, ds.field("class") != LedgerClass.HEALTHY):
            numbers = pc.index_in(batch["class"], pa.array(CLASSES)).cast(pa.int64())
            parts.append((_ids(batch["scope_id"]), _ids(batch["ledger_id"]), _ids(numbers)))
        scopes, ledgers, numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
        self._scopes, self._ledgers = np.unique(scopes), np.unique(ledgers)
        keys = self._keys(scopes, ledgers)
        order = np.argsort(keys)
        self._sorted, self._numbers = keys[order], numbers[order]

    def of(self, batch: Any) -> Numbers:
        """The number in `CLASSES` of each ledger of a batch."""
        found = np.zeros(len(batch), np.int64)
        if not len(self._sorted):
            return found
        scopes, ledgers = _ids(batch["scope_id"]), _ids(batch["ledger_id"])
        keys = self._keys(scopes, ledgers)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        known = (self._sorted[at] == keys) & np.isin(scopes, self._scopes) & np.isin(ledgers, self._ledgers)
        found[known] = self._numbers[at[known]]
        return found

    def _keys(self, scopes: Numbers, ledgers: Numbers) -> Numbers:
        """One number for scope and ledger: their places among those that occur, so that it fits 64 bits."""
        places: Numbers = np.searchsorted(self._scopes, scopes) * (len(self._ledgers) + 1)
        return places + np.searchsorted(self._ledgers, ledgers)


def _ids(column: Any) -> Numbers:
    numbers: Numbers = column.fill_null(-1).to_numpy(zero_copy_only=False)
    return numbers
