"""Accounts of replicas: read from the Parquet files of the tables that say them, and united.

One replica may be reported more than once: by an index, a journal, the bookie itself, or several pieces. What
any of them shows is held: an entry that was seen once cannot be missing. So the groups are united, in the
canonical form in which the comparison needs them. Only pairs that are reported differently are united.
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
from auditor.model.states import OF_REPLICAS, IndexState
from auditor.spark import functions as F
from auditor.spark.batches import TableFiles, map_batches
from auditor.spark.types import DataFrame
from auditor.tables.judge_replicas import groups_of
from auditor.tables.replica_blocks import NO_ANSWER, Coded, ReplicaBatch

_LEDGERS = 1 << 18
_REPLICAS = 1 << 20
"""Rows of a file that are packed together: the more, the larger are blocks."""

_MEMBER = "replicas.list.element"
GROUP_COLUMNS = (f"{_MEMBER}.groups", "groups")
"""What nearly all bytes of accounts are, by the names in Parquet files of any of their tables."""
_CODED = ("bookie_id", "groups", "state")


def expected_replicas(files: TableFiles, all_members: bool = False) -> Iterator[ReplicaBatch]:
    """What metadata says each bookie holds, of files of ``ledgers``: nothing where nothing is judged.

    ``all_members``: those too that should hold nothing, of which a journal may have something.
    """
    members = (f"{_MEMBER}.bookie_id", f"{_MEMBER}.groups")
    # Codes in lists come in pieces, which Arrow does not put together: these are texts first.
    rows = files.row_groups(("scope_id", "ledger_id", "state", "undecidable", *members), (), _LEDGERS)
    return map(partial(_expected, all_members=all_members), rows)


def index_replicas(
    files: TableFiles, edges: Mapping[str, int] | None = None, without: Collection[str] = ()
) -> Iterator[ReplicaBatch]:
    """What indexes show, of files of ``availability``, or bookies' answers, of files of ``answers``.

    Files that end inside a page are cut: ``edges`` are those of the `IndexShapes`. Bookies ``without`` are
    left out.
    """
    cut = ("page_bytes",) if edges else ()
    rows = files.row_groups((*REPLICA, "groups", "state", "answered", *cut), _CODED, _REPLICAS)
    # A loop here would keep the rows while the caller works on what was made of them.
    return map(partial(_held, edges=edges or {}, without=without), rows)


def tail_replicas(files: TableFiles, without: Collection[str] = ()) -> Iterator[ReplicaBatch]:
    """What journals have after their marks, of files of ``journal_tails``; not of bookies ``without``."""
    rows = files.row_groups((*REPLICA, "groups"), ("bookie_id", "groups"), _REPLICAS)
    return map(partial(_after_mark, without=without), rows)


def gone_replicas(files: TableFiles) -> Iterator[ReplicaBatch]:
    """What indexes have in entry logs that are not there, of files of ``gone_entries``."""
    for rows in files.row_groups((*REPLICA, "groups", "state"), _CODED, _REPLICAS):
        bookies = Coded.of(rows["bookie_id"])
        no_times = np.full(rows.num_rows, NO_ANSWER)
        groups, states = Coded.of(rows["groups"]), Coded.of(rows["state"])
        yield _replicas(rows, no_times, bookies, groups, states, np.ones(rows.num_rows, np.bool_))


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
    lengths = [pc.list_value_length(chunk).fill_null(0).to_numpy() for chunk in members]
    flat = [chunk.flatten() for chunk in members]
    member = rows.schema.field("replicas").type.value_type
    bookies, groups = (
        Coded.of(pa.chunked_array([chunk.field(name) for chunk in flat], member.field(name).type))
        for name in ("bookie_id", "groups")
    )
    decided = ~rows["undecidable"].fill_null(True).to_numpy()
    row_of_member = np.repeat(np.arange(rows.num_rows), np.concatenate(lengths) if lengths else 0)
    is_expected = decided[row_of_member]
    if not all_members:
        filled = pc.greater(pc.binary_length(groups.values), 0).to_numpy(zero_copy_only=False)
        is_expected &= np.append(filled, False)[groups.codes]
    expected_rows = row_of_member[is_expected]
    states = Coded.of(rows["state"])
    return ReplicaBatch(
        _longs(rows["ledger_id"])[expected_rows],
        _longs(rows["scope_id"])[expected_rows],
        np.full(len(expected_rows), NO_ANSWER),
        bookies.taken(is_expected),
        groups.taken(is_expected),
        states.taken(expected_rows),
    )


def _held(rows: pa.Table, edges: Mapping[str, int], without: Collection[str]) -> ReplicaBatch:
    states, bookies = Coded.of(rows["state"]), Coded.of(rows["bookie_id"])
    is_selected = _are_of(states, OF_REPLICAS) & ~_are_of(bookies, without)
    if edges:
        short = ends_inside_page(states, bookies, rows["page_bytes"], edges)
        names = pa.concat_arrays([states.values, pa.array([IndexState.CUT.encode()], pa.binary())])
        states = Coded(np.where(short, np.int32(len(names) - 1), states.codes), names)
    answered = rows["answered"].fill_null(NO_ANSWER).to_numpy()
    return _replicas(rows, answered, bookies, Coded.of(rows["groups"]), states, is_selected)


def _after_mark(rows: pa.Table, without: Collection[str]) -> ReplicaBatch:
    bookies = Coded.of(rows["bookie_id"])
    is_selected = rows["ledger_id"].is_valid().to_numpy() & ~_are_of(bookies, without)
    nothing = Coded(np.full(rows.num_rows, -1, np.int32), pa.array([], pa.binary()))
    no_times = np.full(rows.num_rows, NO_ANSWER)
    return _replicas(rows, no_times, bookies, Coded.of(rows["groups"]), nothing, is_selected)


def _replicas(
    rows: pa.Table,
    answered: Longs,
    bookies: Coded,
    groups: Coded,
    states: Coded,
    is_selected: NDArray[np.bool_],
) -> ReplicaBatch:
    ids, scopes = _longs(rows["ledger_id"]), _longs(rows["scope_id"])
    return ReplicaBatch(ids, scopes, answered, bookies, groups, states).taken(is_selected)


def _are_of(column: Coded, values: Collection[str]) -> NDArray[np.bool_]:
    """Which rows have one of some values."""
    these = np.array([value.decode() in values for value in column.values.to_pylist()], bool)
    chosen: NDArray[np.bool_] = np.append(these, False)[column.codes]
    return chosen


def _longs(column: pa.ChunkedArray) -> Longs:
    """Ids; of rows that are no replica, which have none, 0."""
    ids: Longs = column.fill_null(0).to_numpy()
    return ids


# Which of several pieces speaks for a replica: the one that knows least.
_LEAST_KNOWN = (
    IndexState.UNREADABLE,
    IndexState.CUT,
    IndexState.NOT_INDEXED,
    IndexState.LIMBO,
    IndexState.MISPLACED,
    IndexState.WRONG_DIRECTORY,
    IndexState.OK,
)
_SERVED_WITH_TAIL = (IndexState.ABSENT, IndexState.NOT_INDEXED)


class HeldAccount(NamedTuple):
    """What is said to be held of one replica: groups, the state of the index that says it, and when.

    ``answered`` is in ms, of what the bookie itself said; ``listed`` is what it said beyond its index.
    ``gone`` is what the index shows in entry logs that are not there. It is not held, and ``gone_state`` says
    how sure that is.
    """

    held: bytes | None
    index_state: str
    answered: int | None = None
    listed: bytes | None = None
    gone: bytes | None = None
    gone_state: str | None = None


def unite_answer(index: HeldAccount | None, answer: HeldAccount, whole: bool) -> HeldAccount:
    """What an index shows, None: there is none, and what the bookie answered when it was asked.

    What either shows is held; the answer's state counts, and its time, if it is ok, else the index's. An
    answer of nothing does not speak for an index that is damaged, in limbo or not served: a bookie that
    starts a spoiled index anew says the same. A damaged one stays so, whatever its bookie answers.

    A listing proves what is held, not what is absent. Of a bookie that was read ``whole``, and whose index is
    ok or absent, the index says that: the answer's time does not count then, and what the listing alone has
    is ``listed``.

    >>> print(*unite_answer(None, HeldAccount(b"", IndexState.OK, 7), whole=False)[:4])
    b'' ok 7 None
    """
    settles = index is None or (
        answer.index_state == IndexState.OK and (index.index_state == IndexState.OK or bool(answer.held))
    )
    state, answered = (answer if settles or index is None else index)[1:3]
    by_index = whole and (index is None or index.index_state == IndexState.OK)
    if by_index:
        answered = None
    listed = answer.held or None if by_index else None
    if index is None:
        return HeldAccount(answer.held, state, answered, listed)
    if listed == index.held:
        listed = None
    # What a bookie serves after all, it said itself; where that does not settle it, the locations stay.
    unserved = index.index_state == IndexState.NOT_INDEXED and settles
    shown = [groups for groups in (None if unserved else index.held, answer.held) if groups]
    if len(set(shown)) < 2:
        return HeldAccount(shown[0] if shown else index.held, state, answered, listed)
    index_groups, answer_groups = map(groups_of, shown)
    try:
        united = coverage.union([index_groups, answer_groups]).tobytes()
        beyond = coverage.difference(answer_groups, index_groups).tobytes() or None if listed else None
    except CoverageLimitError:
        # What the index says is there; the rest is more than can be put together, so it is not known.
        return HeldAccount(index.held, IndexState.CUT, answered, listed)
    return HeldAccount(united, state, answered, beyond)


def subtract_gone(index: HeldAccount, gone_groups: bytes, state: str) -> HeldAccount:
    """What is held of a replica without the entries that are in no entry log."""
    try:
        held_groups = coverage.difference(groups_of(index.held), groups_of(gone_groups))
        common_groups = coverage.intersection(groups_of(index.held), groups_of(gone_groups)).tobytes()
    except CoverageLimitError:
        # More than can be told apart: of what the index shows nothing is known.
        return index._replace(held=b"", index_state=IndexState.CUT)
    return index._replace(
        held=held_groups.tobytes(), gone=common_groups or None, gone_state=state if common_groups else None
    )


def unite_tail(index: HeldAccount | None, tail: bytes) -> HeldAccount:
    """What an index and its bookie's journal show together, and the state of the index then.

    What the journal shows is held, and served, whatever the index lacks: the bookie has it in memory, and
    would write it to its index when it starts again. An index that is not there yet is one that holds
    nothing; a ledger that the index of ledgers lacks comes into it with its first entry. A damaged index
    stays damaged for all that the journal does not show.

    >>> print(unite_tail(None, b"").index_state)
    ok
    """
    if index is None:
        return HeldAccount(tail, IndexState.OK)
    state = IndexState.OK if index.index_state in _SERVED_WITH_TAIL else index.index_state
    try:
        # The journal is on the disk too: what it has, the disk does not lack.
        listed = coverage.difference(groups_of(index.listed), groups_of(tail)).tobytes() or None
        held_groups = tail
        if index.held and index.held != tail:
            held_groups = coverage.union([groups_of(index.held), groups_of(tail)]).tobytes()
    except CoverageLimitError:
        # More than can be put together: of what the index lacks nothing is known.
        return index._replace(index_state=IndexState.CUT)
    return index._replace(held=held_groups, index_state=state, listed=listed)


def combine_pieces(pieces: DataFrame) -> DataFrame:
    """One row per replica of bookies whose indexes came in several pieces that may overlap.

    Rows have the columns of ``availability``. What any piece shows is held, and the piece that knows least
    says what is known of the rest. Files that end inside a page must have been recognised before
    (`auditor.tables.index_counts.with_cut`).
    """
    columns = pieces.columns
    value_columns = [name for name in columns if name not in REPLICA]
    rank = F.array_position(F.array(*(F.lit(state) for state in _LEAST_KNOWN)), F.col("state"))
    served = F.when(F.col("state") != IndexState.NOT_INDEXED, F.col("groups"))
    by_replica = pieces.groupBy(*REPLICA).agg(
        F.min_by(F.struct(*value_columns), F.struct(rank, F.coalesce("path", F.lit("")))).alias("piece"),
        F.max("mtime").alias("newest"),
        F.max("answered").alias("asked"),
        F.collect_list(served).alias("sets"),
    )
    latest = {"mtime": F.col("newest"), "answered": F.col("asked")}
    rows = by_replica.select(
        *REPLICA, *(latest.get(name, F.col("piece")[name]).alias(name) for name in value_columns), "sets"
    )
    return _unite_sets(rows, columns)


def _unite_sets(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with ``groups`` that are the union of their ``sets``."""
    from pyspark.sql.types import StructType

    distinct = F.filter(F.array_distinct("sets"), lambda groups: F.length(groups) > 0)
    rows = rows.withColumn("sets", distinct)
    single_set_rows = rows.where("size(sets) < 2").withColumn(
        "groups", F.coalesce(F.get("sets", F.lit(0)), "groups")
    )
    schema = StructType([rows.schema[name] for name in columns])
    several = rows.where("size(sets) > 1").select(*columns, "sets")
    joined = map_batches(several, _join_batches, schema)
    return single_set_rows.select(*columns).unionByName(joined)


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = batch.to_pydict()
        for row, groups in enumerate(table.pop("sets")):
            try:
                table["groups"][row] = coverage.union(
                    [groups_of(piece_groups) for piece_groups in groups]
                ).tobytes()
            except CoverageLimitError as limit:
                # What the one says is there; the rest is more than can be put together, so it is not known.
                table["state"][row], table["reason"][row] = IndexState.CUT, str(limit)
        schema = pa.schema([field for field in batch.schema if field.name != "sets"])
        yield pa.RecordBatch.from_pydict(table, schema=schema)
