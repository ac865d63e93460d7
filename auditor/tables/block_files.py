"""The columns that the join needs, from the Parquet files of the tables ledgers and availability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.codecs.availability.groups import Longs
from auditor.model.states import OF_REPLICAS
from auditor.spark.table_files import row_groups
from auditor.tables.replica_blocks import NO_ANSWER, Coded, Side

_LEDGERS = 1 << 18
_REPLICAS = 1 << 20
"""Rows of a file that are packed together: the more, the larger are blocks."""

_MEMBER = "replicas.list.element"


def expected_sides(files: Iterable[str]) -> Iterator[Side]:
    """What metadata says each bookie holds, of files of ``ledgers``: nothing where nothing is judged."""
    members = (f"{_MEMBER}.bookie_id", f"{_MEMBER}.groups")
    # Codes in lists come in pieces, which Arrow does not put together: these are texts first.
    for rows in row_groups(files, ("scope_id", "ledger_id", "undecidable", *members), (), _LEDGERS):
        yield _expected(rows)


def held_sides(files: Iterable[str]) -> Iterator[Side]:
    """What indexes show, of files of ``availability``."""
    coded = ("bookie_id", "groups", "state")
    for rows in row_groups(files, ("scope_id", "ledger_id", "answered", *coded), coded, _REPLICAS):
        yield _held(rows)


def _expected(rows: pa.Table) -> Side:
    members = rows["replicas"].chunks
    lengths = [pc.list_value_length(each).fill_null(0).to_numpy() for each in members]
    flat = [each.flatten() for each in members]
    bookies, groups = (
        Coded.of(pa.chunked_array([each.field(name) for each in flat], _dictionary_of(rows, name)))
        for name in ("bookie_id", "groups")
    )
    decided = ~rows["undecidable"].fill_null(True).to_numpy()
    of = np.repeat(np.arange(rows.num_rows), np.concatenate(lengths) if lengths else 0)
    filled = pc.greater(pc.binary_length(groups.values), 0).to_numpy(zero_copy_only=False)
    kept = decided[of] & np.append(filled, False)[groups.codes]
    at = of[kept]
    return Side(
        _longs(rows["ledger_id"])[at],
        _longs(rows["scope_id"])[at],
        np.full(len(at), NO_ANSWER),
        bookies.taken(kept),
        groups.taken(kept),
        Coded(np.full(len(at), -1, np.int32), pa.array([], pa.binary())),
    )


def _held(rows: pa.Table) -> Side:
    states = Coded.of(rows["state"])
    of_replicas = np.array([value.decode() in OF_REPLICAS for value in states.values.to_pylist()], bool)
    kept = np.append(of_replicas, False)[states.codes]
    answered = rows["answered"].fill_null(NO_ANSWER).to_numpy()
    return Side(
        _longs(rows["ledger_id"])[kept],
        _longs(rows["scope_id"])[kept],
        answered[kept],
        Coded.of(rows["bookie_id"]).taken(kept),
        Coded.of(rows["groups"]).taken(kept),
        states.taken(kept),
    )


def _dictionary_of(rows: pa.Table, name: str) -> pa.DataType:
    return rows.schema.field("replicas").type.value_type.field(name).type


def _longs(column: pa.ChunkedArray) -> Longs:
    """Ids; of rows that are no replica, which have none, 0."""
    ids: Longs = column.fill_null(0).to_numpy()
    return ids
