"""Tests that ask one bookie for entries: every kind of answer, silence, broken connection, both versions."""

from __future__ import annotations

import asyncio
import gc
import struct
import time
from collections import deque
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.bookie.wire import LENGTH, MAX_FRAME_BYTES
from auditor.model.states import WitnessAnswer
from auditor.sources.bookies.rpc import client as bookie_client
from auditor.sources.bookies.rpc.connection import Endpoint
from auditor.sources.bookies.rpc.reads import WITNESS, Entry, ReadClient, ReadReply, read_rows
from auditor.sources.metadata.store import StoreOptions
from tests.examples import examples
from tests.sources.fake_bookie import FakeBookie, Request, read_frame

LONG_TIMEOUT = StoreOptions(rate_limit=0, in_flight=4, timeout_s=10.0)
SHORT_TIMEOUT = StoreOptions(rate_limit=0, in_flight=4, timeout_s=0.5)
SERVED, NO_ENTRY, NO_LEDGER, _, UNKNOWN = WitnessAnswer
LEDGER_ENTRIES = {1: [0, 2, 4], 2: range(10)}
ENTRIES = [Entry(1, 0), Entry(1, 1), Entry(2, 9), Entry(2, 10), Entry(3, 0)]
ANSWERS = dict(zip(ENTRIES, [SERVED, NO_ENTRY, SERVED, NO_ENTRY, NO_LEDGER], strict=True))


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "FIRST_PAUSE_S", 0.001)


def read_entries(
    bookie: FakeBookie, entries: Iterable[Entry] = ENTRIES, options: StoreOptions = LONG_TIMEOUT
) -> tuple[dict[Entry, ReadReply], ReadClient]:
    async def ask() -> tuple[dict[Entry, ReadReply], ReadClient]:
        client = ReadClient(bookie.host, bookie.port, options)
        waiting, replies = deque(entries), list[ReadReply]()
        while waiting and client.give_up_reason is None:
            replies += await client.ask(waiting)
        await client.close()
        assert len({reply.entry for reply in replies}) == len(replies)
        return {reply.entry: reply for reply in replies}, client

    return asyncio.run(ask())


def answers_by_entry(replies: dict[Entry, ReadReply]) -> dict[Entry, WitnessAnswer]:
    return {entry: reply.answer for entry, reply in replies.items()}


def test_answers_for_entries_are_read() -> None:
    before = int(time.time() * 1000)
    with FakeBookie(LEDGER_ENTRIES, Request.entry) as bookie:
        replies, client = read_entries(bookie)
    assert answers_by_entry(replies) == ANSWERS
    assert client.give_up_reason is None
    assert client.operations == {"connect": 1, "read_entry": 5}
    assert all(reply.answer_ms is not None and reply.answer_ms >= before for reply in replies.values())
    assert all(reply.request_count == 1 and reply.reason is None for reply in replies.values())
    assert {request.version for request in bookie.requests} == {3}


@given(
    st.dictionaries(st.integers(0, 5), st.sets(st.integers(0, 9)), max_size=4),
    st.sets(st.builds(Entry, st.integers(0, 6), st.integers(0, 11)), max_size=20),
)
@settings(deadline=None, max_examples=examples(20))
def test_answers_match_any_contents_of_the_bookie(holds: dict[int, set[int]], requested: set[Entry]) -> None:
    with FakeBookie(holds, Request.entry) as bookie:
        replies, _ = read_entries(bookie, sorted(requested))
    truth = {
        entry: (SERVED if entry.entry_id in holds[entry.ledger_id] else NO_ENTRY)
        if entry.ledger_id in holds
        else NO_LEDGER
        for entry in requested
    }
    # Of a ledger that the bookie lacks, one answer is enough.
    assert answers_by_entry(replies) == {entry: truth[entry] for entry in replies}
    assert {entry.ledger_id for entry in requested} == {entry.ledger_id for entry in replies}
    assert all(truth[entry] is NO_LEDGER for entry in requested - replies.keys())


def test_absent_ledger_is_requested_once() -> None:
    with FakeBookie({}, Request.entry) as bookie:
        replies, _ = read_entries(
            bookie, [Entry(7, entry) for entry in range(100)], StoreOptions(rate_limit=0, in_flight=1)
        )
    assert answers_by_entry(replies) == {Entry(7, 0): NO_LEDGER}
    assert len(bookie.ledger_ids) == 1


def test_large_entry_payload_is_not_kept() -> None:
    secret = b"SECRET-PAYLOAD!!" * (5 << 16)  # 5 MiB

    async def large(request: Request) -> None:
        await request.entry(secret)

    with FakeBookie(LEDGER_ENTRIES, large) as bookie:
        replies, client = read_entries(bookie)
    assert answers_by_entry(replies) == ANSWERS
    gc.collect()
    assert "SECRET" not in repr((replies, vars(client)))


def test_one_unanswered_entry_is_unknown_and_the_other_entries_are_read() -> None:
    async def silent_on_one(request: Request) -> None:
        if request.entry_id != 1:
            await request.entry()

    with FakeBookie(LEDGER_ENTRIES, silent_on_one) as bookie:
        replies, client = read_entries(bookie, options=SHORT_TIMEOUT)
    assert client.give_up_reason is None
    assert answers_by_entry(replies) == {**ANSWERS, Entry(1, 1): UNKNOWN}
    assert "no answer within 0.5 s, though the bookie answers for other entries" in str(
        replies[Entry(1, 1)].reason
    )
    assert (replies[Entry(1, 1)].answer_ms, replies[Entry(1, 1)].request_count) == (None, 1)


def test_silent_bookie_is_given_up_and_not_asked_in_another_version() -> None:
    async def dead(request: Request) -> None:
        pass

    with FakeBookie(LEDGER_ENTRIES, dead) as bookie:
        replies, client = read_entries(bookie, options=StoreOptions(rate_limit=0, timeout_s=0.1))
    assert set(answers_by_entry(replies).values()) <= {UNKNOWN}
    assert "4 connections in a row without an answer" in str(client.give_up_reason)
    assert bookie.connections == bookie_client.MAX_FAILED_CONNECTIONS
    assert {request.version for request in bookie.requests} == {3}


def test_bookie_that_resets_version_3_connections_is_asked_in_version_2() -> None:
    async def closing(request: Request) -> None:
        if request.version == 2:
            await request.entry()
        else:
            request.reset()

    with FakeBookie(LEDGER_ENTRIES, closing) as bookie:
        replies, client = read_entries(bookie)
    assert answers_by_entry(replies) == ANSWERS
    assert (client.give_up_reason, bookie.connections) == (None, 2)


@pytest.mark.parametrize("status", [404, 503])
def test_a_bookie_that_refuses_version_3_is_asked_in_version_2(status: int) -> None:
    async def version_2_only(request: Request) -> None:
        await (request.entry() if request.version == 2 else request.status(status))

    with FakeBookie(LEDGER_ENTRIES, version_2_only) as bookie:
        replies, client = read_entries(bookie)
    assert answers_by_entry(replies) == ANSWERS
    assert client.give_up_reason is None


def test_bookie_that_answers_version_3_requests_in_version_2_is_asked_in_version_2() -> None:
    async def before_version_3(request: Request) -> None:
        if request.version == 2:
            await request.entry()
        else:  # it takes the protobuf's first byte for a version that it does not know
            await request.raw(read_frame(0, 503, 0, 0, None, 2))

    with FakeBookie(LEDGER_ENTRIES, before_version_3) as bookie:
        replies, client = read_entries(bookie)
    assert answers_by_entry(replies) == ANSWERS
    assert client.give_up_reason is None


@pytest.mark.parametrize("version", [2, 3])
def test_bookie_that_requires_authentication_is_given_up(version: int) -> None:
    async def refusing(request: Request) -> None:
        if request.version == version == 3:
            await request.send_refusal(502)
        elif request.version == version:
            await request.status(502)
        else:
            await request.status(503)

    with FakeBookie(LEDGER_ENTRIES, refusing) as bookie:
        replies, client = read_entries(bookie)
    assert replies == {}
    assert client.give_up_reason == (
        "not authorised: the bookie requires authentication; add [bookies.sasl] or [bookies.tls] to the "
        "credentials file: EUA (502)"
    )


def test_bookie_that_supports_neither_version_is_given_up() -> None:
    async def refusing(request: Request) -> None:
        await request.status(503)

    with FakeBookie(LEDGER_ENTRIES, refusing) as bookie:
        replies, client = read_entries(bookie)
    assert replies == {}
    assert "neither protocol version 3 nor 2" in str(client.give_up_reason)


@pytest.mark.parametrize("status", [501, 504, 505, 507, 999])
def test_refused_entry_is_unknown_and_the_other_entries_are_read(status: int) -> None:
    async def refusing_one(request: Request) -> None:
        await (request.status(status) if request.entry_id == 9 else request.entry())

    with FakeBookie(LEDGER_ENTRIES, refusing_one) as bookie:
        replies, client = read_entries(bookie)
    assert client.give_up_reason is None
    assert answers_by_entry(replies) == {**ANSWERS, Entry(2, 9): UNKNOWN}
    assert str(status) in str(replies[Entry(2, 9)].reason)
    assert replies[Entry(2, 9)].answer_ms is not None


def test_requests_to_a_busy_bookie_are_repeated_a_limited_number_of_times() -> None:
    async def busy(request: Request) -> None:
        await request.status(506)

    with FakeBookie(LEDGER_ENTRIES, busy) as bookie:
        replies, _ = read_entries(bookie, ENTRIES[:2])
    assert set(answers_by_entry(replies).values()) == {UNKNOWN}
    assert [reply.request_count for reply in replies.values()] == [bookie_client.MAX_BUSY_ATTEMPTS] * 2


INVALID_ANSWERS = {
    "a reset": (None, "connection"),
    "an announcement beyond the limit": (LENGTH.pack(MAX_FRAME_BYTES + 1), "a frame of"),
    "garbage": (LENGTH.pack(5) + b"\xff" * 5, "cut off or invalid"),
    "an answer to no request": (read_frame(2**40, 403, 1, 1), "which was never sent"),
    "another entry": (
        "entry",
        "the answer is for entry 2 of ledger 1; the request was for entry 1 of ledger 1",
    ),
    "another ledger": (
        "ledger",
        "the answer is for entry 1 of ledger 2; the request was for entry 1 of ledger 1",
    ),
    "an entry with other ids": ("ids", "entry 2 of ledger 1, announced as entry 1 of ledger 1"),
    "half an entry, then the end": ("half", "in the middle"),
}


@pytest.mark.parametrize(("sent", "reason"), INVALID_ANSWERS.values(), ids=INVALID_ANSWERS)
def test_invalid_answer_leaves_its_entry_unknown(sent: bytes | str | None, reason: str) -> None:
    async def invalid_answer(request: Request) -> None:
        body = struct.pack(">qq", 1, 1) + bytes(1000)
        frames = {
            "entry": lambda: read_frame(request.txn_id, 403, 1, 2),
            "ledger": lambda: read_frame(request.txn_id, 403, 2, 1),
            "ids": lambda: read_frame(request.txn_id, 0, 1, 1, struct.pack(">qq", 1, 2) + bytes(1000)),
            "half": lambda: read_frame(request.txn_id, 0, 1, 1, body)[:600],
        }
        if request.entry_id != 1:
            await request.entry()
        elif isinstance(sent, str):
            await request.raw(frames[sent]())
            if sent == "half":
                request.end()
        elif sent is None:
            request.reset()
        else:
            await request.raw(sent)

    one_by_one = StoreOptions(rate_limit=0, in_flight=1)
    with FakeBookie(LEDGER_ENTRIES, invalid_answer) as bookie:
        replies, client = read_entries(bookie, options=one_by_one)
    assert client.give_up_reason is None
    assert answers_by_entry(replies) == {**ANSWERS, Entry(1, 1): UNKNOWN}
    assert reason in str(replies[Entry(1, 1)].reason)


def test_no_sent_request_has_the_fencing_flag() -> None:
    async def version_2_only(request: Request) -> None:
        await (request.entry() if request.version == 2 else request.status(503))

    with FakeBookie(LEDGER_ENTRIES, version_2_only) as bookie:
        read_entries(bookie)
    for request in bookie.requests:
        if request.version == 2:
            assert (len(request.data), request.data[:4]) == (20, bytes([2, 2, 0, 0]))
        else:
            assert request.data[:8].hex().startswith("0a0608031001")  # READ_ENTRY
            assert b"\xa0\x06" not in request.data  # field 100, a number: the flag


def rows(
    requests: list[tuple[str, int, int, int]], endpoints: dict[str, Endpoint]
) -> list[dict[str, object]]:
    names = ("bookie_id", "scope_id", "ledger_id", "entry_id")
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in requests])
    record_batches = list(read_rows([batch], endpoints, LONG_TIMEOUT))
    assert all(record_batch.schema.equals(WITNESS, check_metadata=True) for record_batch in record_batches)
    return [row for record_batch in record_batches for row in record_batch.to_pylist()]


def test_every_entry_of_every_bookie_has_a_row() -> None:
    async def refusing(request: Request) -> None:
        await request.send_refusal(502)

    with FakeBookie(LEDGER_ENTRIES, Request.entry) as a, FakeBookie(behaviour=refusing) as b:
        result_rows = rows(
            [("a", 0, 1, 0), ("a", 0, 1, 1), ("a", 7, 1, 0), ("b", 0, 1, 0), ("b", 0, 2, 0), ("c", 0, 1, 0)],
            {"a": (a.host, a.port), "b": (b.host, b.port), "c": "not registered"},
        )
        assert a.connections == b.connections == 1
    answers = {
        (row["bookie_id"], row["scope_id"], row["ledger_id"], row["entry_id"]): row["answer"]
        for row in result_rows
    }
    assert answers == {
        ("a", 0, 1, 0): "served",
        ("a", 0, 1, 1): "no-such-entry",
        ("a", 7, 1, 0): "unknown",
        ("b", 0, 1, 0): "refused",
        ("b", 0, 2, 0): "refused",
        ("c", 0, 1, 0): "unknown",
    }
    assert len(result_rows) == len(answers)
    reasons = {row["bookie_id"]: str(row["reason"]) for row in result_rows if row["reason"]}
    assert "scope 7" in reasons["a"]
    assert "not authorised" in reasons["b"]
    assert reasons["c"] == "not registered"
    assert {row["requests"] for row in result_rows if row["bookie_id"] == "c"} == {0}
