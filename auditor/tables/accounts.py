"""Readers of replicas from the Parquet files of a run's tables, and the union of a replica's accounts.

An account is one report of which entries of a ledger a bookie holds. Its source is an index, a journal, the
bookie itself, or one of several pieces of an index. A replica may have several accounts. An entry counts as
held if at least one account has it, because an entry that was seen once cannot be missing. So this module
forms the union of the entry sets of all accounts. The union is in canonical BP-34 groups, as the comparison
needs. Only replicas with differing accounts need a union.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import Longs
from auditor.errors import CoverageLimitError
from auditor.model.columns import REPLICA
from auditor.model.states import REPLICA_STATES, IndexState
from auditor.spark import functions as F
from auditor.spark.batches import map_batches
from auditor.spark.table_files import TableFiles
from auditor.spark.types import DataFrame
from auditor.tables.judge_replicas import groups_of
from auditor.tables.replica_blocks import NO_ANSWER_TIME, CodedColumn, ReplicaBatch

_LEDGERS_PER_BATCH = 1 << 18
_REPLICAS_PER_BATCH = 1 << 20
"""Number of rows of a Parquet file that are packed together. More rows make larger blocks."""

_MEMBER_COLUMN = "replicas.list.element"
GROUP_COLUMNS = (f"{_MEMBER_COLUMN}.groups", "groups")
"""Parquet columns of entry groups. They take nearly all bytes of the tables that have accounts."""
_DICTIONARY_COLUMNS = ("bookie_id", "groups", "state")


def expected_replicas(files: TableFiles, include_all_members: bool = False) -> Iterator[ReplicaBatch]:
    """Read, from files of the table ``ledgers``, the entries that each bookie should hold.

    The result has only entries that must have copies. By default, replicas without such an entry are left
    out. With ``include_all_members`` they are included, because a journal may have entries of them.
    """
    members = (f"{_MEMBER_COLUMN}.bookie_id", f"{_MEMBER_COLUMN}.groups")
    # Arrow cannot join chunks of dictionary codes inside lists, so these columns are read as texts.
    rows = files.row_groups(
        ("scope_id", "ledger_id", "state", "undecidable", *members), (), _LEDGERS_PER_BATCH
    )
    return map(partial(_expected_batch, include_all_members=include_all_members), rows)


def index_replicas(
    files: TableFiles,
    page_size_by_bookie: Mapping[str, int] | None = None,
    excluded_bookies: Collection[str] = (),
) -> Iterator[ReplicaBatch]:
    """Read the entries in indexes (files of ``availability``) or in bookies' listings (files of ``answers``).

    Args:
        files: Files of one of these tables.
        page_size_by_bookie: Page size in bytes by bookie (`IndexFileFacts`). A file that ends inside a
            page gets the state ``cut``.
        excluded_bookies: Bookies to leave out.
    """
    page_columns = ("page_bytes",) if page_size_by_bookie else ()
    rows = files.row_groups(
        (*REPLICA, "groups", "state", "answered", *page_columns), _DICTIONARY_COLUMNS, _REPLICAS_PER_BATCH
    )
    # A loop here would keep the rows in memory while the caller works on the replicas.
    return map(
        partial(
            _index_batch, page_size_by_bookie=page_size_by_bookie or {}, excluded_bookies=excluded_bookies
        ),
        rows,
    )


def tail_replicas(files: TableFiles, excluded_bookies: Collection[str] = ()) -> Iterator[ReplicaBatch]:
    """Read, from files of ``journal_tails``, the entries after each bookie's lastMark.

    ``excluded_bookies`` are left out.
    """
    rows = files.row_groups((*REPLICA, "groups"), ("bookie_id", "groups"), _REPLICAS_PER_BATCH)
    return map(partial(_tail_batch, excluded_bookies=excluded_bookies), rows)


def gone_replicas(files: TableFiles) -> Iterator[ReplicaBatch]:
    """Read, from files of ``gone_entries``, the entries that indexes locate in missing entry logs."""
    for rows in files.row_groups((*REPLICA, "groups", "state"), _DICTIONARY_COLUMNS, _REPLICAS_PER_BATCH):
        bookies = CodedColumn.from_column(rows["bookie_id"])
        null_answer_times = np.full(rows.num_rows, NO_ANSWER_TIME)
        entry_groups, states = CodedColumn.from_column(rows["groups"]), CodedColumn.from_column(rows["state"])
        yield _make_batch(
            rows, null_answer_times, bookies, entry_groups, states, np.ones(rows.num_rows, np.bool_)
        )


def ends_inside_page(
    states: CodedColumn,
    bookies: CodedColumn,
    page_bytes: pa.ChunkedArray,
    page_size_by_bookie: Mapping[str, int],
) -> NDArray[np.bool_]:
    """Return for each row of ``availability`` whether its index file was truncated.

    A truncated file ends inside a page.

    ``page_size_by_bookie`` is `IndexFileFacts.page_size_of_cut_files`, because the files themselves do not
    contain their page size. The result is False for rows without a file, and for bookies without a page
    size.
    """
    page_sizes = np.array(
        [page_size_by_bookie.get(name.decode(), 1) for name in bookies.values.to_pylist()] + [1], np.int64
    )
    has_partial_page: NDArray[np.bool_] = page_bytes.fill_null(0).to_numpy() % page_sizes[bookies.codes] != 0
    return has_partial_page & _is_one_of(states, (IndexState.OK,))


def _expected_batch(rows: pa.Table, include_all_members: bool) -> ReplicaBatch:
    members = rows["replicas"].chunks
    member_counts = [pc.list_value_length(member_chunk).fill_null(0).to_numpy() for member_chunk in members]
    flat_chunks = [member_chunk.flatten() for member_chunk in members]
    member_type = rows.schema.field("replicas").type.value_type
    bookies, groups = (
        CodedColumn.from_column(
            pa.chunked_array(
                [member_chunk.field(name) for member_chunk in flat_chunks], member_type.field(name).type
            )
        )
        for name in ("bookie_id", "groups")
    )
    is_decided = ~rows["undecidable"].fill_null(True).to_numpy()
    row_of_member = np.repeat(np.arange(rows.num_rows), np.concatenate(member_counts) if member_counts else 0)
    is_expected = is_decided[row_of_member]
    if not include_all_members:
        has_groups = pc.greater(pc.binary_length(groups.values), 0).to_numpy(zero_copy_only=False)
        is_expected &= np.append(has_groups, False)[groups.codes]
    expected_rows = row_of_member[is_expected]
    states = CodedColumn.from_column(rows["state"])
    return ReplicaBatch(
        _int64_column(rows["ledger_id"])[expected_rows],
        _int64_column(rows["scope_id"])[expected_rows],
        np.full(len(expected_rows), NO_ANSWER_TIME),
        bookies.take_rows(is_expected),
        groups.take_rows(is_expected),
        states.take_rows(expected_rows),
    )


def _index_batch(
    rows: pa.Table, page_size_by_bookie: Mapping[str, int], excluded_bookies: Collection[str]
) -> ReplicaBatch:
    states, bookies = CodedColumn.from_column(rows["state"]), CodedColumn.from_column(rows["bookie_id"])
    is_selected_row = _is_one_of(states, REPLICA_STATES) & ~_is_one_of(bookies, excluded_bookies)
    if page_size_by_bookie:
        has_partial_page = ends_inside_page(states, bookies, rows["page_bytes"], page_size_by_bookie)
        names = pa.concat_arrays([states.values, pa.array([IndexState.CUT.encode()], pa.binary())])
        states = CodedColumn(np.where(has_partial_page, np.int32(len(names) - 1), states.codes), names)
    answer_time = rows["answered"].fill_null(NO_ANSWER_TIME).to_numpy()
    return _make_batch(
        rows, answer_time, bookies, CodedColumn.from_column(rows["groups"]), states, is_selected_row
    )


def _tail_batch(rows: pa.Table, excluded_bookies: Collection[str]) -> ReplicaBatch:
    bookies = CodedColumn.from_column(rows["bookie_id"])
    is_selected_row = rows["ledger_id"].is_valid().to_numpy() & ~_is_one_of(bookies, excluded_bookies)
    null_states = CodedColumn(np.full(rows.num_rows, -1, np.int32), pa.array([], pa.binary()))
    null_answer_times = np.full(rows.num_rows, NO_ANSWER_TIME)
    return _make_batch(
        rows,
        null_answer_times,
        bookies,
        CodedColumn.from_column(rows["groups"]),
        null_states,
        is_selected_row,
    )


def _make_batch(
    rows: pa.Table,
    answer_time: Longs,
    bookies: CodedColumn,
    groups: CodedColumn,
    states: CodedColumn,
    is_selected_row: NDArray[np.bool_],
) -> ReplicaBatch:
    ledger_ids, ledger_scopes = _int64_column(rows["ledger_id"]), _int64_column(rows["scope_id"])
    return ReplicaBatch(ledger_ids, ledger_scopes, answer_time, bookies, groups, states).take_rows(
        is_selected_row
    )


def _is_one_of(column: CodedColumn, values: Collection[str]) -> NDArray[np.bool_]:
    """Return for each row whether its value is in ``values``."""
    is_chosen_value = np.array([value.decode() in values for value in column.values.to_pylist()], bool)
    is_chosen_row: NDArray[np.bool_] = np.append(is_chosen_value, False)[column.codes]
    return is_chosen_row


def _int64_column(column: pa.ChunkedArray) -> Longs:
    """Return a column of ids as an array. Rows without a replica contain null, which becomes 0."""
    ids: Longs = column.fill_null(0).to_numpy()
    return ids


# The state of a replica in several pieces is the first of these states that a piece has.
_STATES_BY_CERTAINTY = (
    IndexState.UNREADABLE,
    IndexState.CUT,
    IndexState.NOT_INDEXED,
    IndexState.LIMBO,
    IndexState.MISPLACED,
    IndexState.WRONG_DIRECTORY,
    IndexState.OK,
)
_STATES_SERVED_WITH_TAIL = (IndexState.ABSENT, IndexState.NOT_INDEXED)


class HeldEntries(NamedTuple):
    """One report (account) on a replica: its held entries, the state of its index, and the answer's time.

    ``held``, ``listed`` and ``gone`` are entry sets (BP-34 groups). ``answered`` is the time in ms at which
    the bookie itself answered, or None if it did not answer. ``listed`` are entries that the bookie listed
    but its index lacks. ``gone`` are entries that the index locates in missing entry logs. The ``gone``
    entries do not count as held. ``gone_state`` says how certain it is that the logs are missing.
    """

    held: bytes | None
    index_state: str
    answered: int | None = None
    listed: bytes | None = None
    gone: bytes | None = None
    gone_state: str | None = None


def merge_answer(index: HeldEntries | None, answer: HeldEntries, is_read_completely: bool) -> HeldEntries:
    """Unite the entries in an index with the entries in the bookie's answer.

    The answer is the bookie's own listing of its entries. ``index`` is None if there is no index. An entry is
    held if the index or the answer has it. There is one exception. If the bookie does not serve the index,
    and its answer has entries, only these entries are held. If the answer is in state ok, the result has the
    state and time of the answer. Otherwise it has the state and time of the index. An empty answer does not
    change an index that is damaged, in limbo or not served. The reason is that a bookie that recreates a
    damaged index also gives an empty answer.

    A listing proves that its entries exist, but not that other entries are missing.
    ``is_read_completely`` is True if the bookie's directories were read completely. In this case an index
    that is ok or absent proves which entries are missing. The result then has no answer time, and
    ``listed`` has the entries that are only in the answer.

    >>> print(*merge_answer(None, HeldEntries(b"", IndexState.OK, 7), False)[:4])
    b'' ok 7 None
    """
    only_answer_counts = index is None or (
        answer.index_state == IndexState.OK and (index.index_state == IndexState.OK or bool(answer.held))
    )
    merged_state, answer_time = (answer if only_answer_counts or index is None else index)[1:3]
    index_proves_absence = is_read_completely and (index is None or index.index_state == IndexState.OK)
    if index_proves_absence:
        answer_time = None
    listed_groups = answer.held or None if index_proves_absence else None
    if index is None:
        return HeldEntries(answer.held, merged_state, answer_time, listed_groups)
    if listed_groups == index.held:
        listed_groups = None
    # For an index that is not served, only the answer counts. Without a usable answer, its locations stay.
    is_ledger_unserved = index.index_state == IndexState.NOT_INDEXED and only_answer_counts
    held_groups = [groups for groups in (None if is_ledger_unserved else index.held, answer.held) if groups]
    if len(set(held_groups)) < 2:
        return HeldEntries(
            held_groups[0] if held_groups else index.held, merged_state, answer_time, listed_groups
        )
    index_entry_groups, answer_groups = map(groups_of, held_groups)
    try:
        union_groups = coverage.union([index_entry_groups, answer_groups]).tobytes()
        groups_beyond_index = (
            coverage.difference(answer_groups, index_entry_groups).tobytes() or None
            if listed_groups
            else None
        )
    except CoverageLimitError:
        # The sets are too irregular to unite: entries in the index are held, all others are unknown.
        return HeldEntries(index.held, IndexState.CUT, answer_time, listed_groups)
    return HeldEntries(union_groups, merged_state, answer_time, groups_beyond_index)


def subtract_gone_entries(index: HeldEntries, gone_groups: bytes, gone_state: str) -> HeldEntries:
    """Remove ``gone_groups``, the entries in missing entry logs, from the held entries of a replica."""
    try:
        held_groups = coverage.difference(groups_of(index.held), groups_of(gone_groups))
        common_groups = coverage.intersection(groups_of(index.held), groups_of(gone_groups)).tobytes()
    except CoverageLimitError:
        # The sets are too irregular to compare: all entries of this replica are unknown.
        return index._replace(held=b"", index_state=IndexState.CUT)
    return index._replace(
        held=held_groups.tobytes(),
        gone=common_groups or None,
        gone_state=gone_state if common_groups else None,
    )


def merge_journal_tail(index: HeldEntries | None, tail_groups: bytes) -> HeldEntries:
    """Unite the entries in an index with the entries in the bookie's journal after its last mark.

    The bookie holds these journal entries in memory, serves them, and writes them to its index at its next
    start. So they count as held even if the index lacks them. If there is no index yet, the bookie holds
    only these entries. If the bookie's list of ledgers lacks the ledger, the first of these entries adds it
    to the list. A damaged index stays damaged for all entries that the journal does not have.

    >>> print(merge_journal_tail(None, b"").index_state)
    ok
    """
    if index is None:
        return HeldEntries(tail_groups, IndexState.OK)
    state = IndexState.OK if index.index_state in _STATES_SERVED_WITH_TAIL else index.index_state
    try:
        # The journal is on the bookie's disk too, so entries in it are not only in the listing.
        listed_groups = coverage.difference(groups_of(index.listed), groups_of(tail_groups)).tobytes() or None
        held_groups = tail_groups
        if index.held and index.held != tail_groups:
            held_groups = coverage.union([groups_of(index.held), groups_of(tail_groups)]).tobytes()
    except CoverageLimitError:
        # The sets are too irregular to unite: entries that the index lacks are unknown.
        return index._replace(index_state=IndexState.CUT)
    return index._replace(held=held_groups, index_state=state, listed=listed_groups)


def combine_index_pieces(index_pieces: DataFrame) -> DataFrame:
    """Return one row per replica for indexes that were read in several pieces, which may overlap.

    ``index_pieces`` has one row for each replica and piece, with the columns of ``availability``. An entry
    is held if at least one piece has it. A combined row gets the least certain state of its pieces. Call
    `auditor.tables.index_counts.mark_cut_files` first, which marks files that end inside a page.
    """
    columns = index_pieces.columns
    value_columns = [name for name in columns if name not in REPLICA]
    state_rank = F.array_position(F.array(*(F.lit(state) for state in _STATES_BY_CERTAINTY)), F.col("state"))
    served_groups = F.when(F.col("state") != IndexState.NOT_INDEXED, F.col("groups"))
    grouped_replicas = index_pieces.groupBy(*REPLICA).agg(
        F.min_by(F.struct(*value_columns), F.struct(state_rank, F.coalesce("path", F.lit("")))).alias(
            "piece"
        ),
        F.max("mtime").alias("newest"),
        F.max("answered").alias("asked"),
        F.collect_list(served_groups).alias("sets"),
    )
    time_columns = {"mtime": F.col("newest"), "answered": F.col("asked")}
    rows = grouped_replicas.select(
        *REPLICA,
        *(time_columns.get(name, F.col("piece")[name]).alias(name) for name in value_columns),
        "sets",
    )
    return _unite_entry_sets(rows, columns)


def _unite_entry_sets(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the rows with the column ``groups``, the union of the entry sets in the column ``sets``."""
    from pyspark.sql.types import StructType

    distinct_sets = F.filter(F.array_distinct("sets"), lambda groups: F.length(groups) > 0)
    rows = rows.withColumn("sets", distinct_sets)
    single_set_rows = rows.where("size(sets) < 2").withColumn(
        "groups", F.coalesce(F.get("sets", F.lit(0)), "groups")
    )
    schema = StructType([rows.schema[name] for name in columns])
    rows_of_several_sets = rows.where("size(sets) > 1").select(*columns, "sets")
    joined_rows = map_batches(rows_of_several_sets, _join_batches, schema)
    return single_set_rows.select(*columns).unionByName(joined_rows)


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = batch.to_pydict()
        for row, groups in enumerate(table.pop("sets")):
            try:
                table["groups"][row] = coverage.union(
                    [groups_of(piece_groups) for piece_groups in groups]
                ).tobytes()
            except CoverageLimitError as limit:
                # Too irregular to unite: entries of one piece are held, all others are unknown.
                table["state"][row], table["reason"][row] = IndexState.CUT, str(limit)
        schema = pa.schema([field for field in batch.schema if field.name != "sets"])
        yield pa.RecordBatch.from_pydict(table, schema=schema)
