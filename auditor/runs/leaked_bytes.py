"""What ledgers that belong to nobody take of each bookie's entry logs, added up batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.runs.grouped_bytes import GroupedBytes
from auditor.runs.leaks import UNOWNED

if TYPE_CHECKING:
    import pyarrow as pa

    from auditor.runs.reader import RunReader


class LeakedBytes(NamedTuple):
    """The ledgers of one bookie that belong to nobody: how many, their bytes, and of how many it is sure."""

    ledgers: int
    bytes: int
    confirmed: int


def leaked_bytes(run: RunReader) -> dict[str, LeakedBytes]:
    """By bookie; of ``ledger-unowned`` alone, so nothing where no application's owners were read.

    What is held is a row a leak and bookie.

    Raises:
        RunError: a table of the run is broken.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    leaks = _leaks(run)
    if not leaks.num_rows:
        return {}
    ids = leaks["ledger_id"].combine_chunks()
    sums = GroupedBytes(["bookie_id", *LEDGER])
    named = ds.field("bookie_id").is_valid() & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/space", ["bookie_id", *LEDGER, "bytes"], named):
        some = batch.filter(pc.is_in(batch["ledger_id"], value_set=ids))
        if len(some):
            sums.add(pa.Table.from_batches([some]))
    held = sums.table()
    if not held.num_rows:
        return {}
    whose = held.join(leaks, [*LEDGER], join_type="inner")
    sure = pc.cast(pc.equal(whose["confidence"], str(Confidence.CONFIRMED)), pa.int64())
    rows = whose.append_column("sure", sure).group_by("bookie_id")
    totals = rows.aggregate([("bytes", "sum"), ("bytes", "count"), ("sure", "sum")]).to_pylist()
    return {
        row["bookie_id"]: LeakedBytes(row["bytes_count"], row["bytes_sum"], row["sure_sum"]) for row in totals
    }


def _leaks(run: RunReader) -> pa.Table:
    """Ledgers that belong to nobody, once each."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    columns = [*LEDGER, "confidence"]
    batches = list(run.batches("findings", columns, ds.field("id") == UNOWNED))
    schema = pa.schema([*((name, pa.int64()) for name in LEDGER), ("confidence", pa.string())])
    return pa.Table.from_batches(batches) if batches else schema.empty_table()
