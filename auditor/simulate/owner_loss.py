"""Whose the ledgers are that a failure concerns: one pass over the table ownership."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.model.report_source import NOBODY
from auditor.model.simulation import OwnerLoss
from auditor.runs.owners import NAMES, has_owners, owned
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Bools, Longs

_COLUMNS = ("ledger_id", "standing", *NAMES, "borrowed", "offload")
_SUMS = ("ledgers", "entries", "bytes", "unrecoverable", "offloaded")
_Totals = defaultdict[str, Longs]


class ConcernedLedgers:
    """Ledgers that lose an entry, or are not recoverable, by scope and id: 40 bytes each."""

    def __init__(self) -> None:
        self._parts: list[Longs] = []

    def add(self, ids: Longs, lost: Longs, entries: Longs, bytes: Longs, unrecoverable: Longs) -> None:
        """Ids are (n, 2): scope and ledger; the others are one a ledger, 0 or 1 where they say whether."""
        concerned = (lost > 0) | (unrecoverable > 0)
        columns = (ids[:, 0], ids[:, 1], lost, entries, bytes, unrecoverable)
        self._parts.append(np.stack(columns, axis=1)[concerned])

    def rows(self) -> Longs:
        """All of them by scope and id: scope, id, lost, entries, bytes, unrecoverable."""
        every = np.concatenate([np.zeros((0, 6), np.int64), *self._parts])
        ordered: Longs = every[np.lexsort((every[:, 1], every[:, 0]))]
        return ordered


def owner_losses(run: RunReader, rows: Longs) -> tuple[list[OwnerLoss], list[OwnerLoss]] | None:
    """What namespaces and topics lose, the worst first; None where the run read no owners.

    What has an owner in none of an application's lists is of nobody.
    """
    if not has_owners(run):
        return None
    namespaces: _Totals = defaultdict(lambda: np.zeros(len(_SUMS), np.int64))
    topics: _Totals = defaultdict(lambda: np.zeros(len(_SUMS), np.int64))
    scope_id = rows[:, 0]
    mine = rows[scope_id == 0]  # applications know no scopes
    seen = np.zeros(len(mine), bool)
    for batch in run.batches("tables/ownership", _COLUMNS):
        for row in _by_topic(batch, mine, seen):
            names = [row[name] for name in NAMES]
            sums = [row[f"{name}_sum"] for name in _SUMS]
            topics["/".join(name for name in names if name)] += sums
            namespaces["/".join(names[:2]) if all(names[:2]) else NOBODY] += sums
    nobodys = np.append(mine[~seen, 2:].sum(axis=0) + rows[scope_id != 0, 2:].sum(axis=0), 0)
    if nobodys.any():
        namespaces[NOBODY] += nobodys
        topics[NOBODY] += nobodys
    return _worst_first(namespaces), _worst_first(topics)


def _by_topic(batch: pa.RecordBatch, rows: Longs, seen: Bools) -> list[dict[str, Any]]:
    """Sums of those of a batch's ledgers that are concerned, by topic; ``seen`` learns which they were."""
    import pyarrow.compute as pc

    some = batch.filter(pc.and_(owned(batch), batch["ledger_id"].is_valid()))
    ids = some["ledger_id"].to_numpy(zero_copy_only=False)
    if not len(rows) or not len(ids):
        return []
    place = np.minimum(np.searchsorted(rows[:, 1], ids), len(rows) - 1)
    hit = rows[place, 1] == ids
    seen[place[hit]] = True
    some, place = some.filter(pa.array(hit)), place[hit]
    offloaded = pc.equal(some["offload"], "complete").fill_null(False).cast("int64")
    sums = [*(pa.array(column) for column in rows[place, 2:].T), offloaded]
    table = pa.table([*(some[name] for name in NAMES), *sums], [*NAMES, *_SUMS])
    found: list[dict[str, Any]] = (
        table.group_by([*NAMES]).aggregate([(name, "sum") for name in _SUMS]).to_pylist()
    )
    return found


def _worst_first(totals: dict[str, Longs]) -> list[OwnerLoss]:
    found = [OwnerLoss(name, *map(int, sums)) for name, sums in totals.items()]
    return sorted(found, key=lambda each: (-each.bytes, -each.entries, -each.unrecoverable, each.name))
