"""Ledgers of a run as steps need them: version, state, bytes, and which bookies their segments name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from auditor.model.plan import PlannedLedger
from auditor.model.states import LISTED
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

_COLUMNS = ("scope_id", "ledger_id", "status", "version", "state", "write_quorum", "length", "segments")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A ledger that the store lists; ``state`` is None where its record cannot be read."""

    ledger_id: int
    version: int
    state: str | None
    bytes: int
    ensembles: tuple[tuple[str, ...], ...]

    @property
    def members(self) -> frozenset[str]:
        """Every bookie that a segment names."""
        return frozenset(name for ensemble in self.ensembles for name in ensemble)

    def planned(self) -> PlannedLedger:
        """As a plan lists it."""
        return PlannedLedger(str(self.ledger_id), self.version, self.state)


def ledgers_of(run: RunReader, ids: Collection[int]) -> dict[int, LedgerRow]:
    """Those of these ledgers of scope 0 that the run's first scan lists; one pass over the table."""
    import pyarrow.compute as pc

    if not ids:
        return {}
    wanted = pa.array(sorted(ids), pa.int64())
    found: dict[int, LedgerRow] = {}
    for batch in _listed(run):
        for row in batch.filter(pc.is_in(batch["ledger_id"], wanted)).to_pylist():
            found[row["ledger_id"]] = _row(row)
    return found


def ledgers_naming(
    run: RunReader,
    bookies: Collection[str],
    most: int,
    closed: bool = True,
    without: Sequence[int] | Longs = (),
) -> Iterator[LedgerRow]:
    """The first ledgers of scope 0 with a segment that names one of these bookies.

    Only ``closed`` ones, unless that is False, and none of ``without``.
    """
    import numpy as np
    import pyarrow.compute as pc

    wanted, left_out, left = pa.array(sorted(bookies), pa.string()), pa.array(without, pa.int64()), most
    for batch in _listed(run):
        some = batch.filter(pc.invert(pc.is_in(batch["ledger_id"], left_out)))
        some = some.filter(pc.fill_null(pc.equal(some["state"], "CLOSED"), False)) if closed else some
        ensembles = some["segments"].flatten().field("ensemble")
        parents = pc.list_parent_indices(some["segments"]).take(pc.list_parent_indices(ensembles))
        rows = np.unique(parents.filter(pc.is_in(ensembles.flatten(), wanted)).to_numpy())
        for row in some.take(pa.array(rows[:left], pa.int64())).to_pylist():
            yield _row(row)
        left -= min(left, len(rows))
        if not left:
            return


def _listed(run: RunReader) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    chosen = ds.field("status").isin([str(each) for each in LISTED]) & (ds.field("scope_id") == 0)
    return run.batches("tables/ledgers", _COLUMNS, chosen)


def _row(row: dict[str, Any]) -> LedgerRow:
    ensembles = tuple(tuple(each["ensemble"]) for each in row["segments"] or ())
    size = max(row["length"] or 0, 0) * (row["write_quorum"] or 0)
    return LedgerRow(row["ledger_id"], row["version"], row["state"], size, ensembles)


def listed_of(run: RunReader, ids: Sequence[int]) -> tuple[PlannedLedger, ...]:
    """Ledgers as a plan lists them; what the store does not list has neither version nor state."""
    rows = ledgers_of(run, ids)
    return tuple(rows[id].planned() if id in rows else PlannedLedger(str(id), None, None) for id in ids)
