"""Tests of rows from the answers of bookies, without Spark and through it."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.rpc import client as bookie_client
from auditor.sources.bookies.rpc.connection import NOT_REGISTERED_REASON, Endpoint
from auditor.sources.bookies.rpc.listings import ASKABLE_CONDITION, rpc_availability, rpc_rows
from auditor.sources.metadata.store import StoreOptions
from tests.codecs.scalar import greedy, packed, runs_of_entries
from tests.examples import examples
from tests.sources.fake_bookie import FakeBookie, Request

OPTIONS = StoreOptions(rate_limit=0, in_flight=4)
PAIRS = pa.schema([("bookie_id", pa.string()), ("scope_id", pa.int64()), ("ledger_id", pa.int64())])

Pair = tuple[str, int, int]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "FIRST_PAUSE_S", 0.001)


def rows(
    batches: Iterable[list[Pair]], bookies: dict[str, FakeBookie], options: StoreOptions = OPTIONS
) -> list[dict[str, Any]]:
    def make_batches() -> Iterator[pa.RecordBatch]:
        for pairs in batches:
            yield pa.RecordBatch.from_pylist(
                [dict(zip(PAIRS.names, pair, strict=True)) for pair in pairs], schema=PAIRS
            )

    addresses = {name: (bookie.host, bookie.port) for name, bookie in bookies.items()}
    record_batches = list(rpc_rows(make_batches(), addresses, options))
    assert all(batch.schema.equals(SCHEMA, check_metadata=True) for batch in record_batches)
    return [row for batch in record_batches for row in batch.to_pylist()]


def listing(entry_ids: Iterable[int]) -> bytes:
    """Return the canonical groups of these entries."""
    return packed(greedy(runs_of_entries(entry_ids)))


def test_rows_contain_the_folded_listing_its_source_and_its_time() -> None:
    with FakeBookie({1: range(0, 30, 3), 2: []}) as bookie:
        [full, empty, lacked] = rows([[("b", 0, 1), ("b", 0, 2), ("b", 0, 3)]], {"b": bookie})
    assert full["answered"] > 1_600_000_000_000
    assert full == {
        "bookie_id": "b", "scope_id": 0, "ledger_id": 1, "groups": listing(range(0, 30, 3)), "state": "ok",
        "reason": None, "offset": None, "path": f"rpc://127.0.0.1:{bookie.port}", "page_bytes": None,
        "mtime": None, "storage": "rpc", "answered": full["answered"], "stamp": None, "reused": False,
    }  # fmt: skip
    assert [empty["state"], empty["groups"], lacked["state"], lacked["groups"]] == ["ok", b"", "ok", b""]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 30)), st.sets(st.integers(0, 60)), max_size=25
    ),
    st.integers(1, 7),
)
@settings(deadline=None, max_examples=examples(15))
def test_every_pair_has_one_row_however_pairs_are_batched(
    entries_by_pair: dict[tuple[str, int], set[int]], batch: int
) -> None:
    holds = {
        name: {ledger: entries_by_pair[name, ledger] for who, ledger in entries_by_pair if who == name}
        for name in "abc"
    }
    pairs = sorted((name, 0, ledger) for name, ledger in entries_by_pair)
    batches = [pairs[start : start + batch] for start in range(0, len(pairs), batch)]
    with FakeBookie(holds["a"]) as a, FakeBookie(holds["b"]) as b, FakeBookie(holds["c"]) as c:
        result_rows = rows(batches, {"a": a, "b": b, "c": c})
        assert all(bookie.connections <= 1 for bookie in (a, b, c))
    got = {(row["bookie_id"], row["ledger_id"]): row["groups"] for row in result_rows}
    assert len(got) == len(result_rows)
    assert got == {pair: listing(entries) for pair, entries in entries_by_pair.items()}


def test_ledger_of_another_scope_is_not_requested() -> None:
    with FakeBookie({5: [0]}) as bookie:
        result_rows = rows([[("b", 0, 5), ("b", 9, 5)]], {"b": bookie})
    assert bookie.ledger_ids == [5]
    [foreign] = [row for row in result_rows if row["scope_id"] == 9]
    assert (foreign["state"], foreign["ledger_id"]) == ("unreadable", 5)
    assert "scope 9" in foreign["reason"]
    assert "BP-35" in foreign["reason"]


def test_refusing_bookie_gets_one_gap_row_for_all_its_pairs() -> None:
    async def refusing(request: Request) -> None:
        await request.send_refusal(502)

    batches = [[("a", 0, ledger) for ledger in range(start, start + 50)] for start in (0, 50)]
    with FakeBookie(behaviour=refusing) as shut, FakeBookie({1: [0]}) as open_:
        result_rows = rows([*batches, [("b", 0, 1)]], {"a": shut, "b": open_})
        assert len(shut.ledger_ids) <= OPTIONS.in_flight
        assert shut.connections == 1
    [gap, read] = result_rows
    assert (gap["bookie_id"], gap["state"], gap["ledger_id"], gap["scope_id"]) == ("a", "gap", None, None)
    assert gap["path"] == f"rpc://127.0.0.1:{shut.port}"
    assert "not authorised" in gap["reason"]
    assert (read["bookie_id"], read["state"]) == ("b", "ok")


def test_db_ledger_storage_is_reported_and_the_absent_ledger_keeps_its_row() -> None:
    async def db_ledger_storage(request: Request) -> None:
        if request.ledger_id not in range(10):
            await request.status(402)

    pairs = [("b", 0, ledger) for ledger in (-5, *range(10))]
    with FakeBookie(behaviour=db_ledger_storage) as bookie:
        result_rows = rows([pairs], {"b": bookie}, StoreOptions(rate_limit=0, timeout_s=0.3))
    states = Counter(row["state"] for row in result_rows)
    assert (states["ok"], states["gap"]) == (1, 1)
    assert result_rows[-1]["reason"].startswith(
        "the bookie does not list entries: it seems to use DbLedgerStorage"
    )


def pairs_frame(spark: SparkSession, pairs: list[tuple[int, int, str]]) -> Any:
    return spark.createDataFrame(pairs, "scope_id long, ledger_id long, bookie_id string")


def test_spark_asks_each_bookie_over_one_connection_and_reports_the_unregistered(spark: SparkSession) -> None:
    holds = {name: {ledger: range(ledger + i) for ledger in range(40)} for i, name in enumerate("abc")}
    with FakeBookie(holds["a"]) as a, FakeBookie(holds["b"]) as b, FakeBookie(holds["c"]) as c:
        running = {"a": a, "b": b, "c": c}
        endpoints: dict[str, Endpoint] = {
            name: (bookie.host, bookie.port) for name, bookie in running.items()
        }
        endpoints["gone"] = NOT_REGISTERED_REASON
        pairs = [(0, ledger, name) for ledger in range(45) for name in endpoints]
        table = rpc_availability(pairs_frame(spark, pairs), endpoints, OPTIONS)
        result_rows = table.collect()
        assert [bookie.connections for bookie in running.values()] == [1, 1, 1]
        assert [sorted(bookie.ledger_ids) for bookie in running.values()] == [list(range(45))] * 3
        assert all(bookie.most_unanswered <= OPTIONS.in_flight for bookie in running.values())
    assert table.columns == SCHEMA.names
    assert all(field.metadata["comment"] for field in table.schema)
    gaps = [row for row in result_rows if row.state == "gap"]
    assert [(row.bookie_id, row.reason, row.path, row.ledger_id) for row in gaps] == [
        ("gone", NOT_REGISTERED_REASON, "rpc:", None)
    ]
    assert {(r.bookie_id, r.ledger_id): bytes(r.groups) for r in result_rows if r.state == "ok"} == {
        (name, ledger): listing(holds[name].get(ledger, ())) for name in running for ledger in range(45)
    }


def test_askable_condition_selects_only_rows_of_sent_requests(spark: SparkSession) -> None:
    with FakeBookie({5: [0], 6: [0, 1]}) as bookie:
        endpoints: dict[str, Endpoint] = {"b": (bookie.host, bookie.port), "gone": NOT_REGISTERED_REASON}
        pairs = [(0, 5, "b"), (9, 5, "b"), (0, 6, "b"), (0, 7, "b"), (0, 5, "gone")]
        result_rows = (
            rpc_availability(pairs_frame(spark, pairs), endpoints, OPTIONS).where(ASKABLE_CONDITION).collect()
        )
        assert sorted(row.ledger_id for row in result_rows) == sorted(bookie.ledger_ids) == [5, 6, 7]


def test_unreachable_bookie_gets_one_gap_row(spark: SparkSession) -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        endpoints: dict[str, Endpoint] = {"a": ("127.0.0.1", bound_socket.getsockname()[1])}
        [row] = rpc_availability(pairs_frame(spark, [(0, 1, "a"), (0, 2, "a")]), endpoints, OPTIONS).collect()
    assert (row.bookie_id, row.state, row.storage) == ("a", "gap", "rpc")
    assert "no connection" in row.reason


def test_no_pairs_give_no_rows(spark: SparkSession) -> None:
    assert rpc_availability(pairs_frame(spark, []), {}, OPTIONS).collect() == []
