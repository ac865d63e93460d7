"""Tests that ask one bookie for listings: every kind of answer, silence and broken connection."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability import wire as availability
from auditor.codecs.bookie.wire import IMPOSSIBLE_LEDGER, LENGTH, MAX_FRAME_BYTES
from auditor.sources.bookies.rpc import client as bookie_client
from auditor.sources.bookies.rpc import listings
from auditor.sources.bookies.rpc.listings import ListingClient, ListReply
from auditor.sources.clock import BURST_SECONDS
from auditor.sources.metadata.store import StoreOptions
from tests.examples import examples
from tests.sources.fake_bookie import FakeBookie, Request, encode_listing, list_frame

LONG_TIMEOUT = StoreOptions(rate_limit=0, in_flight=4, timeout_s=10.0)
SHORT_TIMEOUT = StoreOptions(rate_limit=0, in_flight=4, timeout_s=0.5)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "FIRST_PAUSE_S", 0.001)


def request_listings(
    bookie: FakeBookie, ledgers: Iterable[int], options: StoreOptions = LONG_TIMEOUT
) -> tuple[dict[int, ListReply], ListingClient]:
    """Return all replies by ledger, and the client that received them."""
    return asyncio.run(_request_listings(bookie, deque(ledgers), options))


async def _request_listings(
    bookie: FakeBookie, waiting: deque[int], options: StoreOptions
) -> tuple[dict[int, ListReply], ListingClient]:
    client = ListingClient(bookie.host, bookie.port, options)
    replies: list[ListReply] = []
    while waiting and client.give_up_reason is None:
        replies += await client.ask(waiting)
    await client.close()
    assert len({reply.ledger_id for reply in replies}) == len(replies)
    return {reply.ledger_id: reply for reply in replies}, client


def entries(reply: ListReply) -> list[int] | None:
    return None if reply.entry_groups is None else availability.expand(reply.entry_groups).tolist()


LEDGER_ENTRIES = {ledger: range(0, ledger, 1 + ledger % 3) for ledger in range(60)}


def test_listings_are_read_over_one_connection() -> None:
    before = int(time.time() * 1000)
    with FakeBookie(LEDGER_ENTRIES) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES)
    assert {ledger: entries(reply) for ledger, reply in replies.items()} == {
        ledger: list(entry_ids) for ledger, entry_ids in LEDGER_ENTRIES.items()
    }
    assert client.give_up_reason is None
    assert bookie.connections == 1
    assert client.operations == {"connect": 1, "list_entries": 60}
    assert all(reply.answered is not None and before <= reply.answered for reply in replies.values())


@given(st.dictionaries(st.integers(0, 2**63 - 1), st.sets(st.integers(0, 100)), max_size=20))
@settings(deadline=None, max_examples=examples(20))
def test_any_listings_are_read_exactly(holds: dict[int, set[int]]) -> None:
    with FakeBookie(holds) as bookie:
        replies, _ = request_listings(bookie, holds)
    assert {ledger: entries(reply) for ledger, reply in replies.items()} == {
        ledger: sorted(entry_ids) for ledger, entry_ids in holds.items()
    }


def test_listing_larger_than_a_server_frame_is_read() -> None:
    runs = range(0, 500_000, 2)  # a bookie of 4.17.2 sent as many
    with FakeBookie({1: runs}) as bookie:
        replies, client = request_listings(bookie, [1])
    assert client.give_up_reason is None
    assert replies[1].entry_groups is not None
    assert replies[1].entry_groups.nbytes > 5 << 20
    assert entries(replies[1]) == list(runs)


def test_absent_ledger_has_an_empty_listing() -> None:
    with FakeBookie({1: [0]}) as bookie:
        replies, client = request_listings(bookie, [1, 2])
    assert entries(replies[1]) == [0]
    assert entries(replies[2]) == []
    assert replies[2].reason is None
    assert client.give_up_reason is None


@pytest.mark.parametrize("in_flight", [1, 3, 8])
def test_answers_may_arrive_in_any_order_and_unanswered_requests_stay_bounded(in_flight: int) -> None:
    pending: list[Request] = []

    async def last_first(request: Request) -> None:
        pending.append(request)
        if len(pending) == in_flight:
            await asyncio.sleep(0.01)  # were there more to come, they would be here
            waiting, pending[:] = pending[::-1], []
            for pending_request in waiting:
                await pending_request.listing()

    holds = {ledger: [ledger] for ledger in range(in_flight * 5)}
    with FakeBookie(holds, last_first) as bookie:
        replies, _ = request_listings(bookie, holds, StoreOptions(rate_limit=0, in_flight=in_flight))
    assert {ledger: entries(reply) for ledger, reply in replies.items()} == holds
    assert bookie.most_unanswered == in_flight


def test_request_rate_stays_within_the_limit() -> None:
    rate = 40

    async def ask_half_a_second(bookie: FakeBookie) -> float:
        client = ListingClient(bookie.host, bookie.port, StoreOptions(rate_limit=rate))
        start = time.monotonic()
        asking = asyncio.create_task(client.ask(deque(range(10_000))))
        await asyncio.sleep(0.5)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await client.close()
        return time.monotonic() - start

    with FakeBookie() as bookie:
        took = asyncio.run(ask_half_a_second(bookie))
    assert 1 <= len(bookie.ledger_ids) <= rate * (took + BURST_SECONDS) + 1


def test_one_unanswered_ledger_is_unknown_and_the_other_ledgers_are_read() -> None:
    async def silent_on_one(request: Request) -> None:
        if request.ledger_id != 7:
            await request.listing()

    with FakeBookie(LEDGER_ENTRIES, silent_on_one) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES, SHORT_TIMEOUT)
    assert client.give_up_reason is None
    assert [ledger for ledger, reply in replies.items() if reply.entry_groups is None] == [7]
    assert "no answer within 0.5 s" in str(replies[7].reason)
    assert replies[7].answered is None
    assert replies.keys() == LEDGER_ENTRIES.keys()


def test_bookie_that_answers_only_for_absent_ledgers_is_reported_and_given_up() -> None:
    async def db_ledger_storage(request: Request) -> None:
        if request.ledger_id not in LEDGER_ENTRIES:
            await request.listing()

    ledgers = [1000, *range(1, 60), 1001]
    with FakeBookie(LEDGER_ENTRIES, db_ledger_storage) as bookie:
        replies, client = request_listings(bookie, ledgers, SHORT_TIMEOUT)
    assert str(client.give_up_reason).startswith(
        "the bookie does not list entries: it seems to use DbLedgerStorage"
    )
    assert entries(replies[1000]) == []
    assert len(bookie.ledger_ids) < 12
    assert IMPOSSIBLE_LEDGER in bookie.ledger_ids
    assert all(reply.entry_groups is None for ledger, reply in replies.items() if ledger != 1000)


def test_two_unanswered_ledgers_do_not_identify_the_storage() -> None:
    async def silent(request: Request) -> None:
        if request.ledger_id >= 0:
            return
        await request.status(402)

    with FakeBookie(behaviour=silent) as bookie:
        replies, client = request_listings(bookie, [1, 2], SHORT_TIMEOUT)
    assert client.give_up_reason is None
    assert [reply.entry_groups for reply in replies.values()] == [None, None]


def test_bookie_that_leaves_many_ledgers_unanswered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "MAX_SILENT_SUBJECTS", 6)

    async def silent_on_even(request: Request) -> None:
        if request.ledger_id % 2 or request.ledger_id < 0:
            await request.listing()

    with FakeBookie(LEDGER_ENTRIES, silent_on_even) as bookie:
        _, client = request_listings(
            bookie, LEDGER_ENTRIES, StoreOptions(rate_limit=0, in_flight=4, timeout_s=0.1)
        )
    assert "no answer for" in str(client.give_up_reason)
    assert "DbLedgerStorage" not in str(client.give_up_reason)


def test_late_answer_is_not_assigned_to_another_ledger() -> None:
    async def slow(request: Request) -> None:
        await asyncio.sleep(SHORT_TIMEOUT.timeout_s * (1.5 if request.ledger_id == 3 else 0.4))
        await request.listing()

    with FakeBookie(LEDGER_ENTRIES, slow) as bookie:
        replies, client = request_listings(bookie, range(3, 20), SHORT_TIMEOUT)
    assert client.give_up_reason is None
    assert bookie.connections == 1
    assert [ledger for ledger, reply in replies.items() if reply.entry_groups is None] == [3]


def test_unresponsive_connection_is_replaced() -> None:
    async def dead_at_first(request: Request) -> None:
        if request.connection > 1:
            await request.listing()

    with FakeBookie(LEDGER_ENTRIES, dead_at_first) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES, SHORT_TIMEOUT)
    assert client.give_up_reason is None
    assert bookie.connections == 2
    assert {ledger: entries(reply) for ledger, reply in replies.items()} == {
        ledger: list(entry_ids) for ledger, entry_ids in LEDGER_ENTRIES.items()
    }


def test_bookie_that_never_answers_is_given_up_after_a_few_connections() -> None:
    async def dead(request: Request) -> None:
        pass

    with FakeBookie(LEDGER_ENTRIES, dead) as bookie:
        _, client = request_listings(bookie, LEDGER_ENTRIES, StoreOptions(rate_limit=0, timeout_s=0.1))
    assert "4 connections in a row without an answer: no answer within 0.1 s" in str(client.give_up_reason)
    assert bookie.connections == bookie_client.MAX_FAILED_CONNECTIONS


def test_requests_lost_by_a_reset_are_repeated() -> None:
    async def reset_once(request: Request) -> None:
        if request.ledger_id == 20 and request.connection == 1:
            request.reset()
        else:
            await request.listing()

    with FakeBookie(LEDGER_ENTRIES, reset_once) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES)
    assert client.give_up_reason is None
    assert bookie.connections == 2
    assert {ledger: entries(reply) for ledger, reply in replies.items()} == {
        ledger: list(entry_ids) for ledger, entry_ids in LEDGER_ENTRIES.items()
    }


HALF_ANSWER = list_frame(1, 0, 1, encode_listing(range(0, 50, 2)))[:77]
INVALID_ANSWERS = {
    "a reset": (None, "connection"),
    "half an answer, then nothing": (HALF_ANSWER, "no answer within"),
    "an announcement beyond the limit": (LENGTH.pack(MAX_FRAME_BYTES + 1), "a frame of"),
    "an empty frame": (LENGTH.pack(0), "a frame of 0 bytes"),
    "garbage": (LENGTH.pack(5) + b"\xff" * 5, "cut off or invalid"),
    "an answer to no request": (list_frame(2**40, 402, 1), "which was never sent"),
}


@pytest.mark.parametrize(("sent", "reason"), INVALID_ANSWERS.values(), ids=INVALID_ANSWERS)
def test_ledger_that_breaks_every_connection_does_not_affect_other_ledgers(
    sent: bytes | None, reason: str
) -> None:
    async def one_breaks(request: Request) -> None:
        if request.ledger_id != 20:
            await request.listing()
        elif sent is None:
            request.reset()
        else:
            await request.raw(sent)

    with FakeBookie(LEDGER_ENTRIES, one_breaks) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES, SHORT_TIMEOUT)
    assert client.give_up_reason is None
    assert [ledger for ledger, reply in replies.items() if reply.entry_groups is None] == [20]
    assert "2 single requests failed" in str(replies[20].reason)
    assert reason in str(replies[20].reason)
    assert replies.keys() == LEDGER_ENTRIES.keys()
    assert bookie.connections == 4  # the first, two that ledger 20 broke, and the one for the rest


def test_answer_for_another_ledger_is_rejected() -> None:
    async def wrong_ledger(request: Request) -> None:
        await request.raw(list_frame(request.txn_id, 402, request.ledger_id + 1))

    with FakeBookie(behaviour=wrong_ledger) as bookie:
        replies, client = request_listings(bookie, [1, 2, 3])
    assert not any(reply.entry_groups is not None for reply in replies.values())
    assert "4 connections in a row" in str(client.give_up_reason)
    assert "for ledger" in str(client.give_up_reason)


def test_number_of_connections_to_a_failing_bookie_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "MAX_CONNECTIONS", 10)
    answered = 0

    async def one_answer_a_connection(request: Request) -> None:
        nonlocal answered
        if answered < request.connection:
            answered = request.connection
            await request.listing()
        else:
            request.reset()

    with FakeBookie(LEDGER_ENTRIES, one_answer_a_connection) as bookie:
        _, client = request_listings(bookie, list(LEDGER_ENTRIES))
    assert bookie.connections == 10
    assert "the connection was lost 10 times" in str(client.give_up_reason)


def test_refused_connection_is_reported_with_its_reason() -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))  # bound and not listening: refused
        absent = FakeBookie()
        absent.port = bound_socket.getsockname()[1]
        replies, client = request_listings(absent, [1, 2])
    assert replies == {}
    assert "no connection" in str(client.give_up_reason)
    assert client.operations["connect"] == bookie_client.MAX_FAILED_CONNECTIONS


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "a\0b"])
def test_invalid_host_is_reported(host: str) -> None:
    absent = FakeBookie()
    absent.host, absent.port = host, 1
    replies, client = request_listings(absent, [1])
    assert replies == {}
    assert "no connection" in str(client.give_up_reason)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            502,
            "not authorised: the bookie requires authentication; add [bookies.sasl] or [bookies.tls] to the "
            "credentials file: EUA (502)",
        ),
        (404, "does not know the request"),
        (503, "does not speak protocol version 3"),
    ],
)
def test_bookie_that_refuses_every_request_is_given_up(status: int, words: str) -> None:
    async def refusing(request: Request) -> None:
        await request.send_refusal(status)

    with FakeBookie(LEDGER_ENTRIES, refusing) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES)
    assert replies == {}
    assert words in str(client.give_up_reason)
    assert len(bookie.ledger_ids) <= LONG_TIMEOUT.in_flight


@pytest.mark.parametrize("status", [403, 501, 504, 505, 507, 999])
def test_refused_ledger_is_unknown_and_the_other_ledgers_are_read(status: int) -> None:
    async def refusing_one(request: Request) -> None:
        await (request.status(status) if request.ledger_id == 5 else request.listing())

    with FakeBookie(LEDGER_ENTRIES, refusing_one) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES)
    assert client.give_up_reason is None
    assert [ledger for ledger, reply in replies.items() if reply.entry_groups is None] == [5]
    assert str(status) in str(replies[5].reason)


def test_busy_bookie_is_asked_again_until_it_answers() -> None:
    refused: dict[int, int] = {}

    async def busy_twice(request: Request) -> None:
        refused[request.ledger_id] = refused.get(request.ledger_id, 0) + 1
        await (request.status(506) if refused[request.ledger_id] <= 2 else request.listing())

    with FakeBookie(LEDGER_ENTRIES, busy_twice) as bookie:
        replies, _ = request_listings(bookie, LEDGER_ENTRIES)
    assert all(reply.entry_groups is not None for reply in replies.values())
    assert len(bookie.ledger_ids) == 3 * len(LEDGER_ENTRIES)


def test_requests_to_a_bookie_that_stays_busy_are_limited() -> None:
    async def busy(request: Request) -> None:
        await request.status(506)

    with FakeBookie(LEDGER_ENTRIES, busy) as bookie:
        replies, _ = request_listings(bookie, [1, 2])
    assert ["ETOOMANYREQUESTS" in str(reply.reason) for reply in replies.values()] == [True, True]
    assert len(bookie.ledger_ids) == 2 * bookie_client.MAX_BUSY_ATTEMPTS


def test_damaged_listing_of_one_ledger_is_reported_with_its_offset() -> None:
    async def damaged(request: Request) -> None:
        if request.ledger_id == 5:
            await request.value(b"\0\0\0\1" + bytes(60))
        else:
            await request.listing()

    with FakeBookie(LEDGER_ENTRIES, damaged) as bookie:
        replies, client = request_listings(bookie, LEDGER_ENTRIES)
    assert client.give_up_reason is None
    assert bookie.connections == 1
    assert [ledger for ledger, reply in replies.items() if reply.entry_groups is None] == [5]
    assert (replies[5].reason, replies[5].fault_offset) == ("availability: version 1, not 0", 19)
    assert replies[5].answered is not None


def test_listings_are_returned_in_chunks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "CHUNK_BYTES", 200)

    async def one_chunk(bookie: FakeBookie) -> tuple[int, int]:
        client = ListingClient(bookie.host, bookie.port, LONG_TIMEOUT)
        waiting = deque(LEDGER_ENTRIES)
        replies = await client.ask(waiting)
        await client.close()
        return len(replies), len(waiting)

    with FakeBookie(LEDGER_ENTRIES) as bookie:
        reply_count, waiting = asyncio.run(one_chunk(bookie))
        everything, _ = request_listings(bookie, LEDGER_ENTRIES)
    assert reply_count + waiting == len(LEDGER_ENTRIES)
    assert reply_count <= 10
    assert everything.keys() == LEDGER_ENTRIES.keys()
