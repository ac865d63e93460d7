"""Accounts of replicas, from the Parquet files of the tables that say them, as the comparison needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.model.columns import REPLICA
from auditor.model.states import OF_REPLICAS, IndexState
from auditor.spark.table_files import TableFiles
from auditor.tables.replica_blocks import NO_ANSWER, Coded, ReplicaBatch

_LEDGERS = 1 << 18
_REPLICAS = 1 << 20
"""Rows of a file that are packed together: the more, the larger are blocks."""

_MEMBER = "replicas.list.element"
_CODED = ("bookie_id", "groups", "state")


def expected_replicas(files: TableFiles, all_members: bool = False) -> Iterator[ReplicaBatch]:
    """What metadata says each bookie holds, of files of ``ledgers``: nothing where nothing is judged.

    ``all_members``: those too that should hold nothing, of which a journal may have something.
    """
    members = (f"{_MEMBER}.bookie_id", f"{_MEMBER}.groups")
    # Codes in lists come in pieces, which Arrow does not put together: these are texts first.
    for rows in files.row_groups(("scope_id", "ledger_id", "state", "undecidable", *members), (), _LEDGERS):
        yield _expected(rows, all_members)


def index_replicas(
    files: TableFiles, edges: Mapping[str, int] | None = None, without: Collection[str] = ()
) -> Iterator[ReplicaBatch]:
    """What indexes show, of files of ``availability``, or bookies' answers, of files of ``answers``.

    Files that end inside a page are cut: ``edges`` are those of the `IndexShapes`. Bookies ``without`` are
    left out.
    """
    cut = ("page_bytes",) if edges else ()
    for rows in files.row_groups((*REPLICA, "groups", "state", "answered", *cut), _CODED, _REPLICAS):
        yield _held(rows, edges or {}, without)


def tail_replicas(files: TableFiles, without: Collection[str] = ()) -> Iterator[ReplicaBatch]:
    """What journals have after their marks, of files of ``journal_tails``; not of bookies ``without``."""
    for rows in files.row_groups((*REPLICA, "groups"), ("bookie_id", "groups"), _REPLICAS):
        bookies = Coded.of(rows["bookie_id"])
        kept = rows["ledger_id"].is_valid().to_numpy() & ~_are_of(bookies, without)
        nothing = Coded(np.full(rows.num_rows, -1, np.int32), pa.array([], pa.binary()))
        no_times = np.full(rows.num_rows, NO_ANSWER)
        yield _replicas(rows, no_times, bookies, Coded.of(rows["groups"]), nothing, kept)


def ends_inside_page(
    states: Coded, bookies: Coded, page_bytes: pa.ChunkedArray, edges: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Which rows of availability are of a file that was cut: it does not end on the edge of a page.

    ``edges`` are those of the `IndexShapes`: files do not keep how large their pages are. What is no file is
    whole, and so are the files of other bookies.
    """
    sizes = np.array([edges.get(name.decode(), 1) for name in bookies.values.to_pylist()] + [1], np.int64)
    short: NDArray[np.bool_] = page_bytes.fill_null(0).to_numpy() % sizes[bookies.codes] != 0
    return short & _are_of(states, (IndexState.OK,))


def _expected(rows: pa.Table, all_members: bool) -> ReplicaBatch:
    members = rows["replicas"].chunks
    lengths = [pc.list_value_length(each).fill_null(0).to_numpy() for each in members]
    flat = [each.flatten() for each in members]
    bookies, groups = (
        Coded.of(pa.chunked_array([each.field(name) for each in flat], _type_of(rows, name)))
        for name in ("bookie_id", "groups")
    )
    decided = ~rows["undecidable"].fill_null(True).to_numpy()
    of = np.repeat(np.arange(rows.num_rows), np.concatenate(lengths) if lengths else 0)
    kept = decided[of]
    if not all_members:
        filled = pc.greater(pc.binary_length(groups.values), 0).to_numpy(zero_copy_only=False)
        kept &= np.append(filled, False)[groups.codes]
    at = of[kept]
    states = Coded.of(rows["state"])
    return ReplicaBatch(
        _longs(rows["ledger_id"])[at],
        _longs(rows["scope_id"])[at],
        np.full(len(at), NO_ANSWER),
        bookies.taken(kept),
        groups.taken(kept),
        states.taken(at),
    )


def _held(rows: pa.Table, edges: Mapping[str, int], without: Collection[str]) -> ReplicaBatch:
    states, bookies = Coded.of(rows["state"]), Coded.of(rows["bookie_id"])
    kept = _are_of(states, OF_REPLICAS) & ~_are_of(bookies, without)
    if edges:
        short = ends_inside_page(states, bookies, rows["page_bytes"], edges)
        names = pa.concat_arrays([states.values, pa.array([IndexState.CUT.encode()], pa.binary())])
        states = Coded(np.where(short, np.int32(len(names) - 1), states.codes), names)
    answered = rows["answered"].fill_null(NO_ANSWER).to_numpy()
    return _replicas(rows, answered, bookies, Coded.of(rows["groups"]), states, kept)


def _replicas(
    rows: pa.Table,
    answered: Longs,
    bookies: Coded,
    groups: Coded,
    states: Coded,
    kept: NDArray[np.bool_],
) -> ReplicaBatch:
    ids, scopes = _longs(rows["ledger_id"]), _longs(rows["scope_id"])
    return ReplicaBatch(ids, scopes, answered, bookies, groups, states).taken(kept)


def _are_of(column: Coded, values: Collection[str]) -> NDArray[np.bool_]:
    """Which rows have one of some values."""
    these = np.array([value.decode() in values for value in column.values.to_pylist()], bool)
    chosen: NDArray[np.bool_] = np.append(these, False)[column.codes]
    return chosen


def _type_of(rows: pa.Table, name: str) -> pa.DataType:
    return rows.schema.field("replicas").type.value_type.field(name).type


def _longs(column: pa.ChunkedArray) -> Longs:
    """Ids; of rows that are no replica, which have none, 0."""
    ids: Longs = column.fill_null(0).to_numpy()
    return ids
