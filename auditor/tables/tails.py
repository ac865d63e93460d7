"""Index and journal together: what a bookie holds of a pair, where its journal has entries of it too.

What the journal shows is held, and served, whatever the index lacks: the bookie has it in memory, and would
write it to its index when it starts again. An index that is not there yet is one that holds nothing; a ledger
that the index of ledgers lacks comes into it with its first entry. A damaged index stays damaged for all that
the journal does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.errors import CoverageLimitError
from auditor.model.states import IndexState
from auditor.spark.batches import map_batches
from auditor.tables.judge_replicas import groups_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SERVED_WITH_IT = (IndexState.ABSENT, IndexState.NOT_INDEXED)


def with_tails(pairs: DataFrame) -> DataFrame:
    """Pairs with ``held`` and ``index_state`` as journals make them, without their column ``tail``.

    Only the rows with a tail are looked at one by one.
    """
    from pyspark.sql.types import StructType

    columns = [field for field in pairs.schema.fields if field.name != "tail"]
    return map_batches(pairs, _unite_batches, StructType(columns))


def _unite_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        tails, schema = batch.column("tail"), batch.drop_columns(["tail"]).schema
        columns = {name: batch.column(name) for name in schema.names}
        if tails.null_count < len(batch):
            held, states, listed = (columns[name].to_pylist() for name in ("held", "index_state", "listed"))
            for row, tail in enumerate(tails.to_pylist()):
                if tail is not None:
                    held[row], states[row] = unite_with_tail(held[row], states[row], tail)
                    # The journal is on the disk too: what it has, the disk does not lack.
                    beyond = coverage.difference(groups_of(listed[row]), groups_of(tail))
                    listed[row] = beyond.tobytes() or None
            columns |= {"held": pa.array(held, pa.binary()), "index_state": pa.array(states, pa.string())}
            columns["listed"] = pa.array(listed, pa.binary())
        yield pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in schema], schema=schema
        )


def unite_with_tail(held: bytes | None, state: str, tail: bytes) -> tuple[bytes, str]:
    """What index and journal show together, and the state of the index then.

    >>> groups, state = unite_with_tail(None, IndexState.ABSENT, b"")
    >>> print(state)
    ok
    """
    state = IndexState.OK if state in _SERVED_WITH_IT else state
    if not held or held == tail:
        return tail, state
    try:
        return coverage.union([groups_of(held), groups_of(tail)]).tobytes(), state
    except CoverageLimitError:
        return (
            held,
            IndexState.CUT,
        )  # more than can be put together: of what the index lacks nothing is known
