"""Losses of owners: the ledgers that a failure affects, and their namespaces and topics."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.report_source import NOBODY
from auditor.model.simulation import OwnerLoss
from auditor.runs.owners import NAME_COLUMNS, has_owners, owned_mask
from auditor.runs.reader import RunReader
from auditor.simulate.loss import FailureEffect, UnresponsiveBookies, WindowOutcome, find_outcome_bounds
from auditor.simulate.windows import (
    Bools,
    Longs,
    Windows,
)

_OWNERSHIP_COLUMNS = ("ledger_id", "standing", *NAME_COLUMNS, "borrowed", "offload")


_SUM_COLUMNS = ("ledgers", "entries", "bytes", "unrecoverable", "offloaded")


_Totals = defaultdict[str, Longs]


def affected_ledgers(
    windows: Windows, failure_effect: FailureEffect, unresponsive_bookies: UnresponsiveBookies
) -> Longs:
    """Return the ledgers that certainly lose an entry, or that recovery cannot close.

    A copy counts as present before the failure if the bookie's index has it. The result has one row per
    ledger, with six numbers: scope (the upper half of a 128-bit id), id, lost, entries, bytes, unrecoverable.
    Lost and unrecoverable are 0 or 1.
    """
    assert windows.ids is not None
    outcomes = find_outcome_bounds(windows, failure_effect, unresponsive_bookies, "today").best_outcomes
    loss_rows = np.zeros((len(windows.equal_ledger_counts), 6), np.int64)
    loss_rows[:, :2] = windows.ids
    is_lost, ledger_by_window = outcomes == WindowOutcome.LOST, windows.ledger
    loss_rows[ledger_by_window[is_lost], 2] = 1
    np.add.at(loss_rows[:, 3], ledger_by_window[is_lost], windows.entries[is_lost])
    np.add.at(loss_rows[:, 4], ledger_by_window[is_lost], windows.bytes[is_lost])
    loss_rows[ledger_by_window[outcomes == WindowOutcome.OPEN_END], 5] = 1
    return loss_rows[(loss_rows[:, 2] > 0) | (loss_rows[:, 5] > 0)]


def owner_losses(run: RunReader, loss_rows: Longs) -> tuple[list[OwnerLoss], list[OwnerLoss]] | None:
    """Return the losses of namespaces and topics, the worst first. None if the run read no owners.

    The row with an empty name has the losses of ledgers without an owner.
    """
    if not has_owners(run):
        return None
    loss_by_namespace: _Totals = defaultdict(lambda: np.zeros(len(_SUM_COLUMNS), np.int64))
    loss_by_topic: _Totals = defaultdict(lambda: np.zeros(len(_SUM_COLUMNS), np.int64))
    scope_id = loss_rows[:, 0]
    application_rows = loss_rows[scope_id == 0]  # applications know no scopes
    has_owner = np.zeros(len(application_rows), bool)
    for batch in run.batches("tables/ownership", _OWNERSHIP_COLUMNS):
        for topic_row in _topic_rows(batch, application_rows, has_owner):
            owner_names = [topic_row[column_name] for column_name in NAME_COLUMNS]
            topic_sums = [topic_row[f"{column_name}_sum"] for column_name in _SUM_COLUMNS]
            loss_by_topic["/".join(column_name for column_name in owner_names if column_name)] += topic_sums
            loss_by_namespace["/".join(owner_names[:2]) if all(owner_names[:2]) else NOBODY] += topic_sums
    unowned_sums = np.append(
        application_rows[~has_owner, 2:].sum(axis=0) + loss_rows[scope_id != 0, 2:].sum(axis=0), 0
    )
    if unowned_sums.any():
        loss_by_namespace[NOBODY] += unowned_sums
        loss_by_topic[NOBODY] += unowned_sums
    return _worst_first(loss_by_namespace), _worst_first(loss_by_topic)


def _topic_rows(batch: pa.RecordBatch, loss_rows: Longs, has_owner: Bools) -> list[dict[str, Any]]:
    """Return losses summed by topic, over the ledgers that are both in the batch and in ``loss_rows``.

    The function also sets the flags of these ledgers in ``has_owner``.
    """
    owned_ledgers = batch.filter(pc.and_(owned_mask(batch), batch["ledger_id"].is_valid()))
    owned_ledger_ids = owned_ledgers["ledger_id"].to_numpy(zero_copy_only=False)
    if not len(loss_rows) or not len(owned_ledger_ids):
        return []
    row_by_owned_ledger = np.minimum(np.searchsorted(loss_rows[:, 1], owned_ledger_ids), len(loss_rows) - 1)
    is_affected = loss_rows[row_by_owned_ledger, 1] == owned_ledger_ids
    has_owner[row_by_owned_ledger[is_affected]] = True
    owned_ledgers, row_by_owned_ledger = (
        owned_ledgers.filter(pa.array(is_affected)),
        row_by_owned_ledger[is_affected],
    )
    is_offloaded = pc.equal(owned_ledgers["offload"], "complete").fill_null(False).cast("int64")
    sum_columns = [*(pa.array(column) for column in loss_rows[row_by_owned_ledger, 2:].T), is_offloaded]
    topic_table = pa.table(
        [*(owned_ledgers[column_name] for column_name in NAME_COLUMNS), *sum_columns],
        [*NAME_COLUMNS, *_SUM_COLUMNS],
    )
    topic_sums: list[dict[str, Any]] = (
        topic_table.group_by([*NAME_COLUMNS])
        .aggregate([(column_name, "sum") for column_name in _SUM_COLUMNS])
        .to_pylist()
    )
    return topic_sums


def _worst_first(loss_by_owner: dict[str, Longs]) -> list[OwnerLoss]:
    losses = [
        OwnerLoss(owner_name, *map(int, owner_sums)) for owner_name, owner_sums in loss_by_owner.items()
    ]
    return sorted(
        losses,
        key=lambda owner_loss: (
            -owner_loss.bytes,
            -owner_loss.entries,
            -owner_loss.unrecoverable,
            owner_loss.name,
        ),
    )
