"""Pairs of ledger and entry in any order, each any number of times, as one folded set per ledger."""

from __future__ import annotations

import numpy as np

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import GroupBatch, Longs


def distinct(ledger_ids: Longs, entry_ids: Longs) -> tuple[Longs, Longs]:
    """Every pair once, by ledger and then entry.

    >>> distinct(np.array([7, 5, 7]), np.array([2, 9, 2]))[0].tolist()
    [5, 7]
    """
    order = np.lexsort((entry_ids, ledger_ids))
    ledgers, entries = ledger_ids[order], entry_ids[order]
    new = np.ones(len(ledgers), bool)
    new[1:] = (ledgers[1:] != ledgers[:-1]) | (entries[1:] != entries[:-1])
    return ledgers[new], entries[new]


def ledger_sets(ledger_ids: Longs, entry_ids: Longs) -> tuple[Longs, GroupBatch]:
    """The ledgers, ascending, and the entries of each in the canonical form.

    >>> ids, sets = ledger_sets(np.array([7, 5, 7]), np.array([1, 0, 0]))
    >>> ids.tolist(), sets.size.tolist()
    ([5, 7], [1, 2])
    """
    ledgers, entries = distinct(ledger_ids, entry_ids)
    ids, starts = np.unique(ledgers, return_index=True)
    return ids, fold_entries(entries, np.append(starts, len(entries)).astype(np.int64))
