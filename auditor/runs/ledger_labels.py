"""What the metadata says of ledgers, as one word each: the application that made it, or how old it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.model.space_total import NO_APPLICATION, NOT_LISTED
from auditor.model.states import LISTED
from auditor.runs.figures import AGE_LABELS, AGES, UNKNOWN_AGE, created_of

if TYPE_CHECKING:
    import pyarrow as pa

    from auditor.runs.reader import RunReader

NAME_LENGTH = 120
"""Longer names of applications are cut: custom metadata may be anything."""


@dataclass(frozen=True, slots=True)
class LedgerLabel:
    """Batches of ``scope_id``, ``ledger_id`` and ``label``; ``absent``: the label of all others."""

    batches: Callable[[RunReader], Iterator[pa.RecordBatch]]
    absent: str

    def __call__(self, run: RunReader) -> Iterator[pa.RecordBatch]:
        """Read the table ledgers of a run."""
        return self.batches(run)


def _applications(run: RunReader) -> Iterator[pa.RecordBatch]:
    """Custom metadata's ``application``, and its ``component`` if any: ``pulsar/managed-ledger``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in _listed_ledgers(run, ["custom_metadata"]):
        maps = batch["custom_metadata"]
        pairs = pa.table(
            {
                name: pc.map_lookup(maps, query_key=pa.scalar(name), occurrence="first")
                for name in ("application", "component")
            }
        ).to_pydict()
        labels = [_name(*pair) for pair in zip(pairs["application"], pairs["component"], strict=True)]
        yield _with_labels(batch, pa.array(labels, pa.string()))


def _name(application: bytes | None, component: bytes | None) -> str:
    if not application:
        return NO_APPLICATION
    parts = (part.decode("utf-8", "backslashreplace") for part in (application, component) if part)
    return "/".join(parts)[:NAME_LENGTH]


def _ages(run: RunReader) -> Iterator[pa.RecordBatch]:
    """How long before the scan it was made, as one of `auditor.runs.figures.AGE_LABELS`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = pa.array([*AGE_LABELS, UNKNOWN_AGE])
    for batch in _listed_ledgers(run, ["metadata_ctime", "ctime"]):
        ages = pc.subtract(run.report.run.scan_time, created_of(batch))
        known = pc.fill_null(ages, 0).to_numpy(zero_copy_only=False)
        places = np.where(
            pc.is_null(ages).to_numpy(zero_copy_only=False),
            len(AGE_LABELS),
            np.searchsorted(AGES, known, side="right"),
        )
        yield _with_labels(batch, labels.take(pa.array(places)))


def _listed_ledgers(run: RunReader, columns: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    wanted = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    return run.batches("tables/ledgers", ["scope_id", "ledger_id", *columns], wanted)


def _with_labels(batch: pa.RecordBatch, labels: pa.Array) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [batch["scope_id"], batch["ledger_id"], labels]
    return pa.RecordBatch.from_arrays(columns, ["scope_id", "ledger_id", "label"])


LABELS = {
    "application": LedgerLabel(_applications, NOT_LISTED),
    "age": LedgerLabel(_ages, NOT_LISTED),
}
