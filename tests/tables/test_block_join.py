"""The join in blocks, beside one that looks at every replica by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from auditor.model.states import OF_REPLICAS
from auditor.sources.bookies.availability_schema import SCHEMA as AVAILABILITY
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.tables.block_files import expected_sides, held_sides
from auditor.tables.block_join import unequal_rows
from auditor.tables.replica_blocks import BLOCKS, NO_ANSWER, Coded, Side, pack, unpack

Replica = tuple[int, int, str, bytes | None, str | None, int | None]
"""Ledger, scope, bookie, groups, state and answer."""

LEDGER_IDS = st.one_of(st.integers(0, 3), st.sampled_from([2**63 - 1, -(2**63), 2**62]))
BOOKIES = st.sampled_from(["a:1", "b:1", "c:1"])
GROUPS = st.sampled_from([b"x" * 24, b"y" * 24, b"y" * 48])
SCOPES = st.sampled_from([0, 0, 0, 7])
SHOULD = st.tuples(LEDGER_IDS, SCOPES, BOOKIES, GROUPS, st.none(), st.none())
HELD = st.tuples(
    LEDGER_IDS,
    SCOPES,
    BOOKIES,
    st.one_of(st.none(), st.just(b""), GROUPS),
    st.sampled_from(["ok", "ok", "cut", "limbo"]),
    st.sampled_from([None, None, 5]),
)


def side_of(replicas: Sequence[Replica]) -> Side:
    ledgers, scopes, bookies, groups, states, answered = zip(*replicas, strict=True) if replicas else [()] * 6
    times = [NO_ANSWER if each is None else each for each in answered]
    return Side(
        np.array(ledgers, np.int64),
        np.array(scopes, np.int64),
        np.array(times, np.int64),
        Coded.of(pa.array(bookies, pa.string())),
        Coded.of(pa.array(groups, pa.binary())),
        Coded.of(pa.array(states, pa.string())),
    )


def blocks_of(replicas: Sequence[Replica], expected: bool, buckets: int, packs: int) -> list[pa.RecordBatch]:
    return [pack(side_of(replicas[each::packs]), expected, buckets) for each in range(packs)]


def joined(blocks: Iterable[pa.RecordBatch], foreign: Sequence[str] = ()) -> list[dict[str, Any]]:
    table = pa.Table.from_batches(list(blocks), BLOCKS)
    rows = []
    for bucket in sorted(set(table["bucket"].to_pylist())):
        mine = table.filter(pa.compute.equal(table["bucket"], bucket))
        for batch in unequal_rows(*unpack(mine.to_batches()), foreign):
            rows += batch.to_pylist()
    return rows


def one_by_one(should: Sequence[Replica], held: Sequence[Replica], foreign: Sequence[str]) -> list[Any]:
    pairs: list[tuple[Replica | None, Replica | None]] = []
    for left in should:
        beside = [right for right in held if right[:3] == left[:3]]
        pairs += [(left, right) for right in beside] or [(left, None)]
    pairs += [(None, right) for right in held if right[:3] not in {left[:3] for left in should}]
    rows = []
    for mine, theirs in pairs:
        if mine and theirs and mine[3] == theirs[3] and theirs[4] == "ok" and theirs[2] not in foreign:
            continue
        of = mine or theirs
        assert of
        rows.append(
            {
                "scope_id": of[1],
                "ledger_id": of[0],
                "bookie_id": of[2],
                "expected": mine[3] if mine else None,
                "held": theirs[3] if theirs else None,
                "index_state": theirs[4] if theirs else "absent",
                "answered": theirs[5] if theirs else None,
                "listed": None,
            }
        )
    return rows


@settings(max_examples=300, deadline=None)
@given(
    st.lists(SHOULD, max_size=12),
    st.lists(HELD, max_size=12),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([1, 3]),
    st.sampled_from([(), ("b:1",)]),
)
def test_blocks_find_what_a_look_at_each_replica_does(
    should: list[Replica], held: list[Replica], buckets: int, packs: int, foreign: tuple[str, ...]
) -> None:
    blocks = blocks_of(should, True, buckets, packs) + blocks_of(held, False, buckets, packs)
    found = sorted(joined(blocks, foreign), key=repr)
    assert found == sorted(one_by_one(should, held, foreign), key=repr)


def test_a_ledger_has_one_bucket_on_both_sides() -> None:
    replicas = [(ledger, 0, "a:1", b"x" * 24, "ok", None) for ledger in range(1000)]
    found = [pack(side_of(replicas), expected, 16).column("bucket").to_pylist() for expected in (True, False)]
    assert found[0] == found[1] == sorted(set(found[0]))
    assert len(found[0]) == 16


def test_a_block_has_no_more_values_than_its_rows_need() -> None:
    replicas = [(ledger, 0, f"{ledger}:1", b"%024d" % ledger, "ok", None) for ledger in range(100)]
    blocks = pack(side_of(replicas), False, 8)
    assert sum(len(each.as_py()) for each in blocks.column("groups_octets")) == 100 * 24
    assert [each.as_py() for each in blocks.column("scopes")] == [b""] * blocks.num_rows


@pytest.fixture
def files(tmp_path: Path) -> tuple[list[str], list[str]]:
    """Tables of two files with several row groups, and with rows that are of no replica."""
    member = {"bookie_id": "a:1", "groups": b"x" * 24, "depends": True}
    ledgers = [
        {
            "ledger_id": 1,
            "scope_id": 0,
            "undecidable": False,
            "replicas": [member, {**member, "groups": b""}],
        },
        {"ledger_id": 2, "scope_id": 0, "undecidable": True, "replicas": [member]},
        {"ledger_id": None, "scope_id": None, "undecidable": True, "replicas": None},
        {"ledger_id": 3, "scope_id": 7, "undecidable": False, "replicas": [{**member, "bookie_id": "b:1"}]},
        {"ledger_id": 4, "scope_id": 0, "undecidable": None, "replicas": [member]},
    ]
    index = {"bookie_id": "a:1", "ledger_id": 1, "scope_id": 0, "groups": b"y" * 24, "state": "ok"}
    others = ("stray", "gap", "damaged")
    rows = [index, *({**index, "state": state} for state in OF_REPLICAS)]
    rows += [{"bookie_id": "a:1", "state": state, "path": "/x"} for state in others]
    rows += [{**index, "ledger_id": 9, "groups": None, "state": "unreadable", "answered": 4}]
    paths = []
    for name, schema, made in (("ledgers", LEDGERS, ledgers), ("availability", AVAILABILITY, rows)):
        paths.append([str(tmp_path / f"{name}-{number}.parquet") for number in range(2)])
        for number, path in enumerate(paths[-1]):
            table = pa.Table.from_pylist(made[number::2], schema.remove_metadata())
            pq.write_table(table, path, row_group_size=2)
    return paths[0], paths[1]


def replicas_of(sides: Iterable[Side]) -> list[Replica]:
    found: list[Replica] = []
    for side in sides:
        rows = np.arange(len(side.ledgers))
        texts = [side.bookies.column(rows, pa.string()), side.groups.column(rows, pa.binary())]
        texts += [side.states.column(rows, pa.string())]
        answers = [None if each == NO_ANSWER else each for each in side.answered.tolist()]
        columns = [each.to_pylist() for each in texts]
        found += zip(side.ledgers.tolist(), side.scopes.tolist(), *columns, answers, strict=True)
    return sorted(found, key=repr)


def test_expected_replicas_are_those_that_are_judged(files: tuple[list[str], list[str]]) -> None:
    groups = b"x" * 24
    assert replicas_of(expected_sides(files[0])) == [
        (1, 0, "a:1", groups, None, None),
        (3, 7, "b:1", groups, None, None),
    ]


def test_held_replicas_are_rows_of_a_ledger(files: tuple[list[str], list[str]]) -> None:
    groups = b"y" * 24
    states = ["ok", *OF_REPLICAS]
    assert replicas_of(held_sides(files[1])) == sorted(
        [
            *((1, 0, "a:1", groups, str(state), None) for state in states),
            (9, 0, "a:1", None, "unreadable", 4),
        ],
        key=repr,
    )
