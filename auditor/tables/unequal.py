"""unequal: the pairs (ledger, bookie) where what should be held and what is held differ.

Both sides are canonical BP-34 groups, so a healthy replica is one equality of bytes and leaves no row. All
later questions are asked of the rows that stay.

    readers give the accounts of replicas that landed tables have: ledgers, availability, answers, journals
    each is packed in blocks, one for each bucket of ledgers; Spark brings those of a bucket together
    a bucket is sorted by ledger and bookie, accounts of one pair are put together, and what differs stays

Tasks do it where the tables are large, and the driver where they are small, all in one bucket. A replica is
never a row before it is known to differ. Only pairs with two accounts of what is held are looked at one by
one (`auditor.tables.accounts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.model.batch_bounds import byte_slices
from auditor.model.columns import rows_of_columns, schema_of
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import IndexState
from auditor.spark.batches import TableFiles, lots_of
from auditor.spark.part_tables import PartTable, spark_types
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables.accounts import HeldAccount, subtract_gone, unite_answer, unite_tail
from auditor.tables.replica_blocks import BLOCKS, NO_ANSWER, Account, ReplicaBatch, pack, unpack

UNEQUAL = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("bookie_id", pa.string(), "the bookie"),
    ("expected", pa.binary(), "the entries it should hold, 24 bytes a group; null: none are judged there"),
    ("held", pa.binary(), "the entries its index shows; null: no index"),
    (
        "index_state",
        pa.string(),
        "ok, cut, unreadable, limbo, not-indexed, misplaced, wrong-directory or absent",
    ),
    ("answered", pa.int64(), "when the bookie itself said what it holds (rpc), ms"),
    (
        "listed",
        pa.binary(),
        "of these what the bookie listed (rpc) and its disk, read completely, lacks; null: none",
    ),
    ("gone", pa.binary(), "entries that its index shows in an entry log which is not there; not in held"),
    ("gone_state", pa.string(), "how sure that is: agreed or once (gone_entries); null: none is gone"),
)
"""A pair without ``expected`` groups is of a ledger that is gone, that cannot be judged, or that has nothing
on that bookie; ``index_state`` is absent where there is no index. ``answered`` is when the bookie itself said
what is held, where that counts; ``listed`` what it said beyond an index that was read completely."""

_ROWS = 1 << 16


class AccountFiles(NamedTuple):
    """The files of a table with accounts of replicas, whose they are, and how they are read."""

    account: Account
    files: TableFiles
    read: Callable[[TableFiles], Iterator[ReplicaBatch]]


class BookieWords(NamedTuple):
    """Bookies whose word is not taken as it is.

    What ``foreign`` bookies hold is another cluster's, and equals nothing. The disks of ``whole`` were read
    whole, so that a listing of theirs does not say what is absent. What ``partly`` read bookies lack is
    unknown where they have no pair: so an answer of theirs of a ledger that is not closed makes one.
    """

    foreign: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    partly: frozenset[str] = frozenset()


def find_unequal(
    spark: SparkSession | None, accounts: Sequence[AccountFiles], words: BookieWords, buckets: int = 1
) -> pa.Table | DataFrame:
    """The pairs that differ: rows of `UNEQUAL`.

    Tasks of ``spark`` compare them, in so many ``buckets`` of ledgers; None: they are compared here and now.
    """
    readers = [(partial(_blocks, each.account, each.read, buckets), each.files) for each in accounts]
    if spark is None:
        blocks = chain.from_iterable(read(files) for read, files in readers)
        return pa.Table.from_batches(_compare(blocks, words), UNEQUAL)
    parts = chain.from_iterable(lots_of(spark, files, read) for read, files in readers)
    rows = PartTable(spark, spark_types(BLOCKS), tuple(parts)).frame()
    compare = partial(_compare, words=words)
    return rows.repartition(buckets, "bucket").mapInArrow(compare, spark_types(UNEQUAL))


def _blocks(
    account: Account, read: Callable[[TableFiles], Iterator[ReplicaBatch]], buckets: int, files: TableFiles
) -> Iterator[pa.RecordBatch]:
    return map(partial(pack, account=account, buckets=buckets), read(files))


def _compare(blocks: Iterable[pa.RecordBatch], words: BookieWords) -> Iterator[pa.RecordBatch]:
    replicas, accounts = unpack(blocks)
    if len(accounts):
        yield from unequal_rows(replicas, accounts, words)


def unequal_rows(
    replicas: ReplicaBatch, accounts: NDArray[np.int8], words: BookieWords
) -> Iterator[pa.RecordBatch]:
    """The pairs that differ among replicas, each of one of the `Account` s, as rows of `UNEQUAL`.

    A replica that the metadata or an index has twice makes two pairs, as in any join.
    """
    pairs = _pairs(replicas, accounts)
    filled = np.append(pc.binary_length(replicas.groups.values).to_numpy(zero_copy_only=False) > 0, False)
    due = (pairs.expected >= 0) & filled[replicas.groups.codes[pairs.expected]]
    # What a journal has of a ledger that is gone, or has left its bookie, is nothing.
    told = (pairs.tail >= 0) & (pairs.expected >= 0)
    pairs = pairs._replace(
        expected=np.where(due, pairs.expected, -1),
        tail=np.where(told, pairs.tail, -1),
        gone=np.where(pairs.indexed >= 0, pairs.gone, -1),
    ).taken(due | told | (pairs.indexed >= 0) | (pairs.answer >= 0))
    compared = _Comparison(replicas, words)
    several = compared.have_several_accounts(pairs)
    yield from compared.of_one_account(pairs.taken(~several))
    yield from compared.of_several(pairs.taken(several))


class _Pairs(NamedTuple):
    """Places of the accounts of pairs among replicas; -1 where a pair has none."""

    expected: Longs
    indexed: Longs
    answer: Longs
    tail: Longs
    gone: Longs

    def taken(self, rows: slice | NDArray[np.bool_]) -> _Pairs:
        return _Pairs(*(each[rows] for each in self))


def _pairs(replicas: ReplicaBatch, accounts: NDArray[np.int8]) -> _Pairs:
    """The accounts of the same ledger and bookie, each with each."""
    order, heads = _by_pair(replicas, accounts)
    whose = accounts[order]
    sizes = np.diff(np.append(heads, len(order)))
    after = np.minimum(heads + 1, len(order) - 1)
    usual = (sizes == 2) & (whose[heads] == Account.EXPECTED)
    usual &= (whose[after] == Account.INDEX) | (whose[after] == Account.ANSWER)
    first, second = order[heads[usual]], order[after[usual]]
    nothing = np.full(len(first), -1)
    answered = accounts[second] == Account.ANSWER
    alike = _Pairs(first, np.where(answered, -1, second), np.where(answered, second, -1), nothing, nothing)
    return _Pairs(*map(np.append, alike, _across(order, whose, heads[~usual], sizes[~usual])))


def _across(order: Longs, whose: NDArray[np.int8], heads: Longs, sizes: Longs) -> _Pairs:
    """Of some pairs every account with every other; what is alone is beside nothing."""
    rows = np.repeat(heads - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(sizes.sum())
    group = np.repeat(np.arange(len(heads)), sizes)
    numbers = np.array(
        [np.bincount(group[whose[rows] == each], minlength=len(heads)) for each in Account], np.int64
    )
    starts = heads + np.cumsum(numbers, axis=0) - numbers
    choices = np.maximum(numbers, 1)
    times = choices.prod(axis=0)
    pair = np.repeat(np.arange(len(heads)), times)
    number = np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times)
    places = []
    for each in Account:
        place = starts[each][pair] + number % choices[each][pair]
        number //= choices[each][pair]
        there = numbers[each][pair] > 0
        places.append(np.where(there, order[np.minimum(place, len(order) - 1)], -1))
    return _Pairs(*places)


def _by_pair(replicas: ReplicaBatch, accounts: NDArray[np.int8]) -> tuple[Longs, Longs]:
    """The replicas by ledger, bookie and account, and where each pair begins."""
    least, bookies = int(replicas.ledgers.min()), max(1, len(replicas.bookies.values))
    span = int(replicas.ledgers.max()) - least + 1
    if span * bookies * len(Account) < 1 << 63 and not replicas.scopes.any():
        pair = (replicas.ledgers - least) * bookies + replicas.bookies.codes
        order = np.argsort(pair * len(Account) + accounts)
        pair = pair[order]
        begins = pair[1:] != pair[:-1]
    else:
        keys = (replicas.bookies.codes, replicas.scopes, replicas.ledgers)
        order = np.lexsort((accounts, *keys))
        begins = np.logical_or.reduce([each[order][1:] != each[order][:-1] for each in keys])
    return order, np.flatnonzero(np.append(True, begins))


class _Comparison:
    """What is expected and what is held of pairs, of one bucket of replicas."""

    def __init__(self, replicas: ReplicaBatch, words: BookieWords) -> None:
        self._replicas = replicas
        self._words = words
        lengths = pc.binary_length(replicas.groups.values).to_numpy(zero_copy_only=False)
        self._lengths = np.append(lengths, 0).astype(np.int64)  # null is the last
        names = [name.decode() for name in replicas.bookies.values.to_pylist()]
        self._foreign, self._whole, self._partly = (
            np.array([name in bookies for name in names], bool) for bookies in words
        )
        states = replicas.states.values.to_pylist()
        self._ok, self._closed = (
            np.array([*(state == word.encode() for state in states), False])
            for word in (IndexState.OK, LedgerState.CLOSED)
        )

    def have_several_accounts(self, pairs: _Pairs) -> NDArray[np.bool_]:
        """Which pairs have more than one account of what is held, or one beside a disk without an index."""
        whole = self._whole[self._replicas.bookies.codes[pairs.answer]]
        answered: NDArray[np.bool_] = (pairs.answer >= 0) & (whole | (pairs.indexed >= 0))
        return answered | (pairs.tail >= 0) | (pairs.gone >= 0)

    def of_one_account(self, pairs: _Pairs) -> Iterator[pa.RecordBatch]:
        """The rows of pairs in which what is held is reported once, or nothing is."""
        replicas, expected = self._replicas, pairs.expected
        held = np.maximum(pairs.indexed, pairs.answer)
        bookie = replicas.bookies.codes[np.maximum(expected, held)]
        healthy = (expected >= 0) & (held >= 0) & self._ok[replicas.states.codes[held]]
        healthy &= (replicas.groups.codes[expected] == replicas.groups.codes[held]) & ~self._foreign[bookie]
        open_end = self._partly[bookie] & (replicas.answered[held] != NO_ANSWER)
        open_end &= ~self._closed[replicas.states.codes[expected]]
        rows = np.flatnonzero(~healthy | open_end)
        for part in byte_slices(self._sizes(expected[rows], held[rows]), _ROWS):
            some = rows[part]
            yield self._rows(expected[some], held[some])

    def of_several(self, pairs: _Pairs) -> Iterator[pa.RecordBatch]:
        """The rows of pairs in which accounts of what is held are put together, one by one."""
        replicas = self._replicas
        for part in byte_slices(self._sizes(*pairs), _ROWS):
            some = pairs.taken(part)
            either = np.max(np.stack(some), axis=0)
            columns = self._columns(either)
            columns["expected"] = replicas.groups.column(some.expected, pa.binary())
            rows = zip(
                columns["bookie_id"].to_pylist(),
                columns["expected"].to_pylist(),
                self._closed[replicas.states.codes[some.expected]].tolist(),
                self._held(some.indexed),
                self._held(some.answer),
                replicas.groups.column(some.tail, pa.binary()).to_pylist(),
                replicas.groups.column(some.gone, pa.binary()).to_pylist(),
                replicas.states.column(some.gone, pa.string()).to_pylist(),
                strict=True,
            )
            held = [self._one(*row) for row in rows]
            for name in HeldAccount._fields:
                columns[name] = [getattr(each, name) if each else None for each in held]
            batch = rows_of_columns(UNEQUAL, len(held), columns)
            yield batch.filter(pa.array([each is not None for each in held]))

    def _sizes(self, *places: Longs) -> Longs:
        """The bytes of the groups of each pair, of some of its accounts together; -1 is no account."""
        codes = self._replicas.groups.codes
        sizes: Longs = np.sum([self._lengths[codes[each]] * (each >= 0) for each in places], axis=0)
        return sizes

    def _one(
        self,
        bookie: str,
        expected: bytes | None,
        closed: bool,
        index: HeldAccount | None,
        answer: HeldAccount | None,
        tail: bytes | None,
        gone: bytes | None,
        gone_state: str | None,
    ) -> HeldAccount | None:
        """What is held of a pair; None where it is what is expected, and leaves no row."""
        if index is not None and gone is not None and gone_state is not None:
            index = subtract_gone(index, gone, gone_state)
        held = index
        if answer is not None:
            held = unite_answer(index, answer, bookie in self._words.whole)
            if index is not None:
                held = held._replace(gone=index.gone, gone_state=index.gone_state)
        if tail is not None:
            held = unite_tail(held, tail)
        assert held is not None
        foreign = bookie in self._words.foreign
        alone = held.index_state == IndexState.OK and held.listed is None and not foreign
        if not alone or expected is None or held.held != expected:
            return held
        open_end = bookie in self._words.partly and held.answered is not None and not closed
        return held if open_end else None

    def _held(self, places: Longs) -> list[HeldAccount | None]:
        replicas = self._replicas
        rows = zip(
            places.tolist(),
            replicas.groups.column(places, pa.binary()).to_pylist(),
            replicas.states.column(places, pa.string()).to_pylist(),
            replicas.answered[places].tolist(),
            strict=True,
        )
        return [
            None if place < 0 else HeldAccount(groups, state, None if at == NO_ANSWER else at)
            for place, groups, state, at in rows
        ]

    def _columns(self, either: Longs) -> dict[str, Any]:
        replicas = self._replicas
        return {
            "scope_id": replicas.scopes[either],
            "ledger_id": replicas.ledgers[either],
            "bookie_id": replicas.bookies.column(either, pa.string()),
        }

    def _rows(self, expected: Longs, held: Longs) -> pa.RecordBatch:
        replicas = self._replicas
        answered = np.where(held < 0, NO_ANSWER, replicas.answered[held])
        columns = self._columns(np.maximum(expected, held)) | {
            "expected": replicas.groups.column(expected, pa.binary()),
            "held": replicas.groups.column(held, pa.binary()),
            "index_state": replicas.states.column(held, pa.string()).fill_null(IndexState.ABSENT),
            "answered": pa.array(answered, mask=answered == NO_ANSWER),
        }
        return rows_of_columns(UNEQUAL, len(expected), columns)
