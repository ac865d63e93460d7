"""The comparison of expected and held entries, checked against one that compares entry by entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model.states import REPLICA_STATES
from auditor.sources.bookies.availability import SCHEMA as AVAILABILITY
from auditor.sources.bookies.journal.tails import SCHEMA as TAILS
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.spark import query_plans
from auditor.spark.execution import Execution
from auditor.tables.accounts import expected_replicas, gone_replicas, index_replicas, tail_replicas
from auditor.tables.gone_entries import GONE_ENTRIES
from auditor.tables.index_counts import IndexFileFacts
from auditor.tables.replica_blocks import (
    NO_ANSWER_TIME,
    CodedColumn,
    Evidence,
    ReplicaBatch,
    from_blocks,
    to_blocks,
)
from auditor.tables.unequal import UNEQUAL, BookieTrust, SourceFiles, find_unequal, unequal_rows
from tests.examples import examples
from tests.tables.files import IN_DRIVER, write_table_files
from tests.tables.rows import index, ledger
from tests.tables.rows import pack as groups_of
from tests.tables.rows import unpack as entries_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Pair = tuple[int, int, str]


class AccountRow(NamedTuple):
    """An account of a replica. ``entries``: None if it shows none. ``state``: for metadata, the ledger's."""

    pair: Pair
    entries: frozenset[int] | None
    state: str
    answered: int | None = None


class UnequalRow(NamedTuple):
    """A row of the table unequal, with entries in sets; absent and empty held entries are equal."""

    pair: Pair
    expected: frozenset[int]
    held: frozenset[int]
    state: str
    answered: int | None
    listed: frozenset[int]
    gone: frozenset[int] = frozenset()


NOTHING: frozenset[int] = frozenset()
LEDGER_IDS = st.one_of(st.integers(0, 2), st.sampled_from([2**63 - 1, -(2**63), 2**62]))
PAIRS = st.tuples(LEDGER_IDS, st.sampled_from([0, 0, 0, 7]), st.sampled_from(["a:1", "b:1", "c:1", "d:1"]))
ENTRIES = st.one_of(st.just(frozenset({0, 1, 2})), st.frozensets(st.integers(0, 5), max_size=4))
EXPECTED = st.builds(
    AccountRow, PAIRS, ENTRIES, st.sampled_from(["CLOSED", "CLOSED", "OPEN", "IN_RECOVERY"]), st.none()
)
INDEXED = st.builds(
    AccountRow,
    PAIRS,
    st.one_of(st.none(), ENTRIES),
    st.sampled_from(["ok", "ok", "ok", "cut", "limbo", "unreadable", "not-indexed"]),
    st.none(),
)
ANSWERED = st.builds(AccountRow, PAIRS, ENTRIES, st.sampled_from(["ok", "ok", "unreadable"]), st.just(5))
TAIL = st.builds(AccountRow, PAIRS, ENTRIES.filter(bool), st.just("ok"), st.none())
ABSENT = st.builds(AccountRow, PAIRS, ENTRIES.filter(bool), st.just("agreed"), st.none())


def unique_rows(rows: st.SearchStrategy[AccountRow]) -> st.SearchStrategy[list[AccountRow]]:
    return st.lists(rows, max_size=8, unique_by=lambda row: row.pair)


def replicas_of(rows: Sequence[AccountRow]) -> ReplicaBatch:
    ledgers, scopes, bookies = zip(*(row.pair for row in rows), strict=True) if rows else [()] * 3
    times = [NO_ANSWER_TIME if row.answered is None else row.answered for row in rows]
    groups = [None if row.entries is None else groups_of(set(row.entries)) for row in rows]
    return ReplicaBatch(
        np.array(ledgers, np.int64),
        np.array(scopes, np.int64),
        np.array(times, np.int64),
        CodedColumn.from_column(pa.array(bookies, pa.string())),
        CodedColumn.from_column(pa.array(groups, pa.binary())),
        CodedColumn.from_column(pa.array([row.state for row in rows], pa.string())),
    )


def make_blocks(accounts: dict[Evidence, list[AccountRow]], buckets: int, packs: int) -> list[pa.RecordBatch]:
    return [
        to_blocks(replicas_of(rows[start::packs]), account, buckets)
        for account, rows in accounts.items()
        for start in range(packs)
    ]


def compare_blocks(blocks: Sequence[pa.RecordBatch], words: BookieTrust) -> list[UnequalRow]:
    table = pa.Table.from_batches(blocks)
    batches: list[pa.RecordBatch] = []
    for bucket in sorted(set(table["bucket"].to_pylist())):
        bucket_blocks = table.filter(pa.compute.equal(table["bucket"], bucket))
        batches += unequal_rows(*from_blocks(bucket_blocks.to_batches()), words)
    return decode_unequal(pa.Table.from_batches(batches, UNEQUAL))


def decode_unequal(rows: pa.Table) -> list[UnequalRow]:
    result = [
        UnequalRow(
            (row["ledger_id"], row["scope_id"], row["bookie_id"]),
            frozenset(entries_of(row["expected"])),
            frozenset(entries_of(row["held"])),
            row["index_state"],
            row["answered"],
            frozenset(entries_of(row["listed"])),
            frozenset(entries_of(row["gone"])),
        )
        for row in rows.to_pylist()
    ]
    return sorted(result, key=sort_key)


def sort_key(row: UnequalRow) -> str:
    return repr([sorted(field) if isinstance(field, frozenset) else field for field in row])


def compare_one_by_one(accounts: dict[Evidence, list[AccountRow]], words: BookieTrust) -> list[UnequalRow]:
    """Return the rows by the rules in the tables' docstrings, entry by entry and without encoded bytes."""
    result = []
    pairs = {part.pair for account_list in accounts.values() for part in account_list}
    for pair in pairs:
        pair_rows = {
            account: [account_row for account_row in part if account_row.pair == pair]
            for account, part in accounts.items()
        }
        choices: list[Sequence[AccountRow | None]] = [part or [None] for part in pair_rows.values()]
        for expected, indexed, answer, tail, absent in product(*choices):
            row = one_pair(pair, expected, indexed, answer, tail if expected else None, absent, words)
            result += [row] if row else []
    return sorted(result, key=sort_key)


def one_pair(
    pair: Pair,
    expected: AccountRow | None,
    indexed: AccountRow | None,
    answer: AccountRow | None,
    tail: AccountRow | None,
    absent_row: AccountRow | None,
    words: BookieTrust,
) -> UnequalRow | None:
    due = (expected.entries or NOTHING) if expected else NOTHING
    if not due and not indexed and not answer and not tail:
        return None
    shown = (indexed.entries or NOTHING) if indexed else NOTHING
    absent = shown & (absent_row.entries or NOTHING) if absent_row else NOTHING
    shown -= absent
    state, answered, listed = (indexed.state if indexed else "absent"), None, NOTHING
    if answer:
        answer_ids = answer.entries or NOTHING
        settles = not indexed or (answer.state == "ok" and (indexed.state == "ok" or bool(answer_ids)))
        by_disk = pair[2] in words.read_bookies and (not indexed or indexed.state == "ok")
        listed = answer_ids - shown if by_disk else NOTHING
        if state == "not-indexed" and settles:
            shown = NOTHING  # what it serves after all, it said itself
        shown |= answer_ids
        if settles:
            state, answered = answer.state, None if by_disk else answer.answered
    if tail:
        shown |= tail.entries or NOTHING
        listed -= tail.entries or NOTHING
        state = "ok" if state in ("absent", "not-indexed") else state
    is_foreign = pair[2] in words.foreign_bookies
    is_present = bool(indexed or answer or tail)
    if due and is_present and due == shown and state == "ok" and not is_foreign and not listed:
        # Of an open end an answer says what is lacked, where the bookie's disks do not.
        partly = pair[2] in words.part_read_bookies and answered is not None
        if not partly or (expected and expected.state == "CLOSED"):
            return None
    return UnequalRow(pair, due, shown, state, answered, listed, absent)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(EXPECTED, max_size=10),
    st.lists(INDEXED, max_size=10),
    unique_rows(ANSWERED),
    unique_rows(TAIL),
    unique_rows(ABSENT),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([1, 3]),
    st.sampled_from(
        [BookieTrust(), BookieTrust(frozenset({"a:1"}), frozenset({"b:1", "d:1"}), frozenset({"c:1"}))]
    ),
)
def test_block_comparison_equals_entry_by_entry_comparison(
    expected: list[AccountRow],
    indexed: list[AccountRow],
    answers: list[AccountRow],
    tails: list[AccountRow],
    gone: list[AccountRow],
    buckets: int,
    packs: int,
    words: BookieTrust,
) -> None:
    accounts = dict(zip(Evidence, (expected, indexed, answers, tails, gone), strict=True))
    assert compare_blocks(make_blocks(accounts, buckets, packs), words) == compare_one_by_one(accounts, words)


def test_ledger_has_the_same_bucket_in_every_account() -> None:
    rows = [AccountRow((number, 0, "a:1"), frozenset({0}), "ok") for number in range(1000)]
    buckets = [to_blocks(replicas_of(rows), account, 16).column("bucket").to_pylist() for account in Evidence]
    assert all(numbers == sorted(set(numbers)) and len(numbers) == 16 for numbers in buckets)
    assert len({tuple(numbers) for numbers in buckets}) == 1


def test_block_has_only_the_values_of_its_rows() -> None:
    rows = [AccountRow((number, 0, f"{number}:1"), frozenset({number}), "ok") for number in range(100)]
    blocks = to_blocks(replicas_of(rows), Evidence.INDEX, 8)
    assert sum(len(scalar.as_py()) for scalar in blocks.column("groups_octets")) == 100 * 24
    assert [scalar.as_py() for scalar in blocks.column("scopes")] == [b""] * blocks.num_rows


ALL, HEAD = {0, 1, 2, 3}, {0, 1}
MEMBERS = {"a:1": ALL, "b:1": ALL}


@pytest.fixture
def accounts(tmp_path: Path) -> list[SourceFiles]:
    """Return tables of two files with several row groups, including rows that belong to no replica."""
    ledgers = [
        *(ledger(number, MEMBERS) for number in range(1, 8)),
        ledger(8, MEMBERS, undecidable=True),
        ledger(9, {"a:1": ALL, "b:1": set()}, state="OPEN", scope_id=7),
        {**ledger(1, {}), "ledger_id": None, "scope_id": None, "undecidable": True, "replicas": None},
        ledger(10, MEMBERS, undecidable=None),
    ]
    rows = [
        *(index(number, bookie, ALL) for number in range(1, 6) for bookie in ("a:1", "b:1")),
        index(6, "a:1", HEAD, page_bytes=8192),
        index(6, "b:1", ALL, page_bytes=8191),
        *(index(20 + offset, "a:1", HEAD, state=str(state)) for offset, state in enumerate(REPLICA_STATES)),
        *(index(None, "a:1", state=state, scope_id=None) for state in ("stray", "gap", "damaged")),
        index(30, "pieces:1", HEAD),
    ]
    answers = [
        index(7, "a:1", ALL, storage="rpc", answered=4),
        index(None, "a:1", state="gap", scope_id=None),
    ]
    tails = [
        {"bookie_id": "a:1", "scope_id": 0, "ledger_id": 6, "groups": groups_of({2, 3}), "state": "ok"},
        {"bookie_id": "b:1", "scope_id": 7, "ledger_id": 9, "groups": groups_of({4}), "state": "ok"},
        {"bookie_id": "b:1", "scope_id": 0, "ledger_id": 7, "groups": groups_of(ALL), "state": "ok"},
        {"bookie_id": "a:1", "scope_id": 0, "ledger_id": 99, "groups": groups_of(ALL), "state": "ok"},
        {"bookie_id": "a:1", "state": "gap", "reason": "cut"},
        {"bookie_id": "moved:1", "scope_id": 0, "ledger_id": 1, "groups": groups_of(ALL), "state": "ok"},
    ]
    absent_rows = [
        {"bookie_id": "a:1", "scope_id": 0, "ledger_id": 5, "groups": groups_of({1}), "state": "agreed"},
        {"bookie_id": "b:1", "scope_id": 0, "ledger_id": 4, "groups": groups_of({9}), "state": "once"},
    ]
    edges = IndexFileFacts({"b:1": 8192}, frozenset({"b:1"}), frozenset()).page_size_of_cut_files
    readers: Iterable[tuple[str, Any, Sequence[Any], Any]] = (
        ("ledgers", LEDGERS, ledgers, lambda files: expected_replicas(files, include_all_members=True)),
        ("availability", AVAILABILITY, rows, lambda files: index_replicas(files, edges, {"pieces:1"})),
        ("answers", AVAILABILITY, answers, index_replicas),
        ("journal_tails", TAILS, tails, lambda files: tail_replicas(files, {"moved:1"})),
        ("gone_entries", GONE_ENTRIES, absent_rows, gone_replicas),
    )
    return [
        SourceFiles(account, write_table_files(rows, schema, tmp_path / name), read)
        for account, (name, schema, rows, read) in zip(Evidence, readers, strict=True)
    ]


def test_tasks_and_driver_compare_tables_equally(
    spark: SparkSession, accounts: list[SourceFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = BookieTrust(part_read_bookies=frozenset({"a:1"}))
    in_driver = find_unequal(IN_DRIVER, accounts, words)
    by_pair = {row.pair: row for row in decode_unequal(in_driver)}
    assert {pair[0] for pair in by_pair} == {5, 6, 9, *range(20, 20 + len(REPLICA_STATES))}
    nothing: frozenset[int] = frozenset()
    # An entry in no log is not held; ledger 4 is as it was, for its index has nothing of what is gone.
    absent = frozenset({1})
    assert by_pair[5, 0, "a:1"] == UnequalRow(
        (5, 0, "a:1"), frozenset(ALL), frozenset(ALL - {1}), "ok", None, nothing, absent
    )
    assert by_pair[6, 0, "b:1"] == UnequalRow(
        (6, 0, "b:1"), frozenset(ALL), frozenset(ALL), "cut", None, nothing
    )
    assert by_pair[9, 7, "a:1"].state == "absent"
    assert by_pair[9, 7, "b:1"] == UnequalRow((9, 7, "b:1"), nothing, frozenset({4}), "ok", None, nothing)
    monkeypatch.setattr(query_plans, "SMALL_BYTES", -1)
    in_tasks = Execution(spark).frame(find_unequal(Execution(spark), accounts, words))
    assert decode_unequal(in_tasks.toArrow()) == decode_unequal(in_driver)


def test_ledgers_not_judged_have_no_expected_replicas(accounts: list[SourceFiles]) -> None:
    ledger_ids = {
        int(ledger_id)
        for replicas in expected_replicas(accounts[0].files)
        for ledger_id, bookie in zip(replicas.ledgers, replicas.bookies.codes, strict=True)
        if bookie >= 0
    }
    assert ledger_ids == {1, 2, 3, 4, 5, 6, 7, 9}
