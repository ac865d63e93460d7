"""The comparison of both sides, beside one that looks at every entry by itself."""

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
from tests.tables.files import IN_DRIVER, written
from tests.tables.rows import index, ledger
from tests.tables.rows import pack as groups_of
from tests.tables.rows import unpack as entries_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Pair = tuple[int, int, str]


class Said(NamedTuple):
    """An account of a replica: entries, None: it shows none; its state, of metadata that of the ledger."""

    pair: Pair
    entries: frozenset[int] | None
    state: str
    answered: int | None = None


class Found(NamedTuple):
    """A row of the table unequal, entry by entry; nothing held and no word of it are the same."""

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
    Said, PAIRS, ENTRIES, st.sampled_from(["CLOSED", "CLOSED", "OPEN", "IN_RECOVERY"]), st.none()
)
INDEXED = st.builds(
    Said,
    PAIRS,
    st.one_of(st.none(), ENTRIES),
    st.sampled_from(["ok", "ok", "ok", "cut", "limbo", "unreadable", "not-indexed"]),
    st.none(),
)
ANSWERED = st.builds(Said, PAIRS, ENTRIES, st.sampled_from(["ok", "ok", "unreadable"]), st.just(5))
TAIL = st.builds(Said, PAIRS, ENTRIES.filter(bool), st.just("ok"), st.none())
GONE = st.builds(Said, PAIRS, ENTRIES.filter(bool), st.just("agreed"), st.none())


def once(said: st.SearchStrategy[Said]) -> st.SearchStrategy[list[Said]]:
    return st.lists(said, max_size=8, unique_by=lambda each: each.pair)


def replicas_of(said: Sequence[Said]) -> ReplicaBatch:
    ledgers, scopes, bookies = zip(*(each.pair for each in said), strict=True) if said else [()] * 3
    times = [NO_ANSWER_TIME if each.answered is None else each.answered for each in said]
    groups = [None if each.entries is None else groups_of(set(each.entries)) for each in said]
    return ReplicaBatch(
        np.array(ledgers, np.int64),
        np.array(scopes, np.int64),
        np.array(times, np.int64),
        CodedColumn.from_column(pa.array(bookies, pa.string())),
        CodedColumn.from_column(pa.array(groups, pa.binary())),
        CodedColumn.from_column(pa.array([each.state for each in said], pa.string())),
    )


def in_blocks(accounts: dict[Evidence, list[Said]], buckets: int, packs: int) -> list[pa.RecordBatch]:
    return [
        to_blocks(replicas_of(said[each::packs]), account, buckets)
        for account, said in accounts.items()
        for each in range(packs)
    ]


def compared(blocks: Sequence[pa.RecordBatch], words: BookieTrust) -> list[Found]:
    table = pa.Table.from_batches(blocks)
    batches: list[pa.RecordBatch] = []
    for bucket in sorted(set(table["bucket"].to_pylist())):
        mine = table.filter(pa.compute.equal(table["bucket"], bucket))
        batches += unequal_rows(*from_blocks(mine.to_batches()), words)
    return found_in(pa.Table.from_batches(batches, UNEQUAL))


def found_in(rows: pa.Table) -> list[Found]:
    found = [
        Found(
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
    return sorted(found, key=in_order)


def in_order(row: Found) -> str:
    return repr([sorted(each) if isinstance(each, frozenset) else each for each in row])


def one_by_one(accounts: dict[Evidence, list[Said]], words: BookieTrust) -> list[Found]:
    """The rows, each entry of each pair looked at: what the docstrings of the tables say, and no bytes."""
    found = []
    pairs = {said.pair for each in accounts.values() for said in each}
    for pair in pairs:
        mine = {account: [one for one in said if one.pair == pair] for account, said in accounts.items()}
        every: list[Sequence[Said | None]] = [said or [None] for said in mine.values()]
        for expected, indexed, answer, tail, gone in product(*every):
            row = one_pair(pair, expected, indexed, answer, tail if expected else None, gone, words)
            found += [row] if row else []
    return sorted(found, key=in_order)


def one_pair(
    pair: Pair,
    expected: Said | None,
    indexed: Said | None,
    answer: Said | None,
    tail: Said | None,
    gone: Said | None,
    words: BookieTrust,
) -> Found | None:
    due = (expected.entries or NOTHING) if expected else NOTHING
    if not due and not indexed and not answer and not tail:
        return None
    shown = (indexed.entries or NOTHING) if indexed else NOTHING
    absent = shown & (gone.entries or NOTHING) if gone else NOTHING
    shown -= absent
    state, answered, listed = (indexed.state if indexed else "absent"), None, NOTHING
    if answer:
        told = answer.entries or NOTHING
        settles = not indexed or (answer.state == "ok" and (indexed.state == "ok" or bool(told)))
        by_disk = pair[2] in words.read_bookies and (not indexed or indexed.state == "ok")
        listed = told - shown if by_disk else NOTHING
        if state == "not-indexed" and settles:
            shown = NOTHING  # what it serves after all, it said itself
        shown |= told
        if settles:
            state, answered = answer.state, None if by_disk else answer.answered
    if tail:
        shown |= tail.entries or NOTHING
        listed -= tail.entries or NOTHING
        state = "ok" if state in ("absent", "not-indexed") else state
    theirs = pair[2] in words.foreign_bookies
    there = bool(indexed or answer or tail)
    if due and there and due == shown and state == "ok" and not theirs and not listed:
        # Of an open end an answer says what is lacked, where the bookie's disks do not.
        partly = pair[2] in words.part_read_bookies and answered is not None
        if not partly or (expected and expected.state == "CLOSED"):
            return None
    return Found(pair, due, shown, state, answered, listed, absent)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(EXPECTED, max_size=10),
    st.lists(INDEXED, max_size=10),
    once(ANSWERED),
    once(TAIL),
    once(GONE),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([1, 3]),
    st.sampled_from(
        [BookieTrust(), BookieTrust(frozenset({"a:1"}), frozenset({"b:1", "d:1"}), frozenset({"c:1"}))]
    ),
)
def test_blocks_find_what_a_look_at_each_entry_does(
    expected: list[Said],
    indexed: list[Said],
    answers: list[Said],
    tails: list[Said],
    gone: list[Said],
    buckets: int,
    packs: int,
    words: BookieTrust,
) -> None:
    accounts = dict(zip(Evidence, (expected, indexed, answers, tails, gone), strict=True))
    assert compared(in_blocks(accounts, buckets, packs), words) == one_by_one(accounts, words)


def test_a_ledger_has_one_bucket_whoever_speaks_of_it() -> None:
    said = [Said((number, 0, "a:1"), frozenset({0}), "ok") for number in range(1000)]
    found = [to_blocks(replicas_of(said), account, 16).column("bucket").to_pylist() for account in Evidence]
    assert all(each == sorted(set(each)) and len(each) == 16 for each in found)
    assert len({tuple(each) for each in found}) == 1


def test_a_block_has_no_more_values_than_its_rows_need() -> None:
    said = [Said((number, 0, f"{number}:1"), frozenset({number}), "ok") for number in range(100)]
    blocks = to_blocks(replicas_of(said), Evidence.INDEX, 8)
    assert sum(len(each.as_py()) for each in blocks.column("groups_octets")) == 100 * 24
    assert [each.as_py() for each in blocks.column("scopes")] == [b""] * blocks.num_rows


ALL, HEAD = {0, 1, 2, 3}, {0, 1}
MEMBERS = {"a:1": ALL, "b:1": ALL}


@pytest.fixture
def accounts(tmp_path: Path) -> list[SourceFiles]:
    """Tables of two files with several row groups, and with rows that are of no replica."""
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
        *(index(20 + at, "a:1", HEAD, state=str(state)) for at, state in enumerate(REPLICA_STATES)),
        *(index(None, "a:1", state=state, scope_id=None) for state in ("stray", "gap", "damaged")),
        index(30, "pieces:1", HEAD),
    ]
    asked = [index(7, "a:1", ALL, storage="rpc", answered=4), index(None, "a:1", state="gap", scope_id=None)]
    tails = [
        {"bookie_id": "a:1", "scope_id": 0, "ledger_id": 6, "groups": groups_of({2, 3}), "state": "ok"},
        {"bookie_id": "b:1", "scope_id": 7, "ledger_id": 9, "groups": groups_of({4}), "state": "ok"},
        {"bookie_id": "b:1", "scope_id": 0, "ledger_id": 7, "groups": groups_of(ALL), "state": "ok"},
        {"bookie_id": "a:1", "scope_id": 0, "ledger_id": 99, "groups": groups_of(ALL), "state": "ok"},
        {"bookie_id": "a:1", "state": "gap", "reason": "cut"},
        {"bookie_id": "moved:1", "scope_id": 0, "ledger_id": 1, "groups": groups_of(ALL), "state": "ok"},
    ]
    gone = [
        {"bookie_id": "a:1", "scope_id": 0, "ledger_id": 5, "groups": groups_of({1}), "state": "agreed"},
        {"bookie_id": "b:1", "scope_id": 0, "ledger_id": 4, "groups": groups_of({9}), "state": "once"},
    ]
    edges = IndexFileFacts({"b:1": 8192}, frozenset({"b:1"}), frozenset()).page_size_of_cut_files
    readers: Iterable[tuple[str, Any, Sequence[Any], Any]] = (
        ("ledgers", LEDGERS, ledgers, lambda files: expected_replicas(files, include_all_members=True)),
        ("availability", AVAILABILITY, rows, lambda files: index_replicas(files, edges, {"pieces:1"})),
        ("answers", AVAILABILITY, asked, index_replicas),
        ("journal_tails", TAILS, tails, lambda files: tail_replicas(files, {"moved:1"})),
        ("gone_entries", GONE_ENTRIES, gone, gone_replicas),
    )
    return [
        SourceFiles(account, written(rows, schema, tmp_path / name), read)
        for account, (name, schema, rows, read) in zip(Evidence, readers, strict=True)
    ]


def test_tables_are_compared_by_tasks_as_they_are_here(
    spark: SparkSession, accounts: list[SourceFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = BookieTrust(part_read_bookies=frozenset({"a:1"}))
    here = find_unequal(IN_DRIVER, accounts, words)
    found = {row.pair: row for row in found_in(here)}
    assert {pair[0] for pair in found} == {5, 6, 9, *range(20, 20 + len(REPLICA_STATES))}
    nothing: frozenset[int] = frozenset()
    # An entry in no log is not held; ledger 4 is as it was, for its index has nothing of what is gone.
    absent = frozenset({1})
    assert found[5, 0, "a:1"] == Found(
        (5, 0, "a:1"), frozenset(ALL), frozenset(ALL - {1}), "ok", None, nothing, absent
    )
    assert found[6, 0, "b:1"] == Found((6, 0, "b:1"), frozenset(ALL), frozenset(ALL), "cut", None, nothing)
    assert found[9, 7, "a:1"].state == "absent"
    assert found[9, 7, "b:1"] == Found((9, 7, "b:1"), nothing, frozenset({4}), "ok", None, nothing)
    monkeypatch.setattr(query_plans, "SMALL_BYTES", -1)
    in_tasks = Execution(spark).frame(find_unequal(Execution(spark), accounts, words))
    assert found_in(in_tasks.toArrow()) == found_in(here)


def test_nothing_is_expected_of_what_is_not_judged(accounts: list[SourceFiles]) -> None:
    found = {
        int(each)
        for replicas in expected_replicas(accounts[0].files)
        for each, bookie in zip(replicas.ledgers, replicas.bookies.codes, strict=True)
        if bookie >= 0
    }
    assert found == {1, 2, 3, 4, 5, 6, 7, 9}
