"""One bookie asked for listings: every kind of answer, silence and broken connection."""

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
from tests.sources.fake_bookie import FakeBookie, Request, framed, unfolded

PATIENT = StoreOptions(rate_limit=0, in_flight=4, timeout_s=10.0)
HASTY = StoreOptions(rate_limit=0, in_flight=4, timeout_s=0.5)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "FIRST_PAUSE_S", 0.001)


def asked(
    bookie: FakeBookie, ledgers: Iterable[int], options: StoreOptions = PATIENT
) -> tuple[dict[int, ListReply], ListingClient]:
    """Everything heard, by ledger, and the client that heard it."""
    return asyncio.run(_asked(bookie, deque(ledgers), options))


async def _asked(
    bookie: FakeBookie, waiting: deque[int], options: StoreOptions
) -> tuple[dict[int, ListReply], ListingClient]:
    client = ListingClient(bookie.host, bookie.port, options)
    heard: list[ListReply] = []
    while waiting and client.give_up_reason is None:
        heard += await client.ask(waiting)
    await client.close()
    assert len({each.ledger_id for each in heard}) == len(heard)
    return {each.ledger_id: each for each in heard}, client


def entries(heard: ListReply) -> list[int] | None:
    return None if heard.entry_groups is None else availability.expand(heard.entry_groups).tolist()


HOLDS = {ledger: range(0, ledger, 1 + ledger % 3) for ledger in range(60)}


def test_what_a_bookie_lists_is_heard() -> None:
    before = int(time.time() * 1000)
    with FakeBookie(HOLDS) as bookie:
        heard, client = asked(bookie, HOLDS)
    assert {ledger: entries(each) for ledger, each in heard.items()} == {
        ledger: list(held) for ledger, held in HOLDS.items()
    }
    assert client.give_up_reason is None
    assert bookie.connections == 1
    assert client.operations == {"connect": 1, "list_entries": 60}
    assert all(each.answered is not None and before <= each.answered for each in heard.values())


@given(st.dictionaries(st.integers(0, 2**63 - 1), st.sets(st.integers(0, 100)), max_size=20))
@settings(deadline=None, max_examples=examples(20))
def test_whatever_it_holds_is_heard(holds: dict[int, set[int]]) -> None:
    with FakeBookie(holds) as bookie:
        heard, _ = asked(bookie, holds)
    assert {ledger: entries(each) for ledger, each in heard.items()} == {
        ledger: sorted(held) for ledger, held in holds.items()
    }


def test_a_listing_larger_than_any_frame_that_a_server_takes_is_heard() -> None:
    runs = range(0, 500_000, 2)  # a bookie of 4.17.2 sent as many
    with FakeBookie({1: runs}) as bookie:
        heard, client = asked(bookie, [1])
    assert client.give_up_reason is None
    assert heard[1].entry_groups is not None
    assert heard[1].entry_groups.nbytes > 5 << 20
    assert entries(heard[1]) == list(runs)


def test_a_ledger_that_it_lacks_is_held_with_no_entry() -> None:
    with FakeBookie({1: [0]}) as bookie:
        heard, client = asked(bookie, [1, 2])
    assert entries(heard[1]) == [0]
    assert entries(heard[2]) == []
    assert heard[2].reason is None
    assert client.give_up_reason is None


@pytest.mark.parametrize("in_flight", [1, 3, 8])
def test_answers_may_come_in_any_order_and_requests_stay_bounded(in_flight: int) -> None:
    together: list[Request] = []

    async def last_first(request: Request) -> None:
        together.append(request)
        if len(together) == in_flight:
            await asyncio.sleep(0.01)  # were there more to come, they would be here
            waiting, together[:] = together[::-1], []
            for each in waiting:
                await each.listing()

    holds = {ledger: [ledger] for ledger in range(in_flight * 5)}
    with FakeBookie(holds, last_first) as bookie:
        heard, _ = asked(bookie, holds, StoreOptions(rate_limit=0, in_flight=in_flight))
    assert {ledger: entries(each) for ledger, each in heard.items()} == holds
    assert bookie.most_unanswered == in_flight


def test_no_more_is_asked_a_second_than_the_limit_allows() -> None:
    rate = 40

    async def for_a_while(bookie: FakeBookie) -> float:
        client = ListingClient(bookie.host, bookie.port, StoreOptions(rate_limit=rate))
        start = time.monotonic()
        asking = asyncio.create_task(client.ask(deque(range(10_000))))
        await asyncio.sleep(0.5)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await client.close()
        return time.monotonic() - start

    with FakeBookie() as bookie:
        took = asyncio.run(for_a_while(bookie))
    assert 1 <= len(bookie.asked) <= rate * (took + BURST_SECONDS) + 1


def test_one_ledger_without_an_answer_is_unknown_and_no_other() -> None:
    async def silent_on_one(request: Request) -> None:
        if request.ledger_id != 7:
            await request.listing()

    with FakeBookie(HOLDS, silent_on_one) as bookie:
        heard, client = asked(bookie, HOLDS, HASTY)
    assert client.give_up_reason is None
    assert [ledger for ledger, each in heard.items() if each.entry_groups is None] == [7]
    assert "no answer within 0.5 s" in str(heard[7].reason)
    assert heard[7].answered is None
    assert heard.keys() == HOLDS.keys()


def test_a_bookie_that_answers_only_for_what_it_lacks_is_named_and_asked_no_more() -> None:
    async def db_ledger_storage(request: Request) -> None:
        if request.ledger_id not in HOLDS:
            await request.listing()

    ledgers = [1000, *range(1, 60), 1001]
    with FakeBookie(HOLDS, db_ledger_storage) as bookie:
        heard, client = asked(bookie, ledgers, HASTY)
    assert str(client.give_up_reason).startswith(
        "the bookie does not list entries: it seems to use DbLedgerStorage"
    )
    assert entries(heard[1000]) == []
    assert len(bookie.asked) < 12
    assert IMPOSSIBLE_LEDGER in bookie.asked
    assert all(each.entry_groups is None for ledger, each in heard.items() if ledger != 1000)


def test_two_silent_ledgers_are_not_enough_to_name_a_storage() -> None:
    async def silent(request: Request) -> None:
        if request.ledger_id >= 0:
            return
        await request.status(402)

    with FakeBookie(behaviour=silent) as bookie:
        heard, client = asked(bookie, [1, 2], HASTY)
    assert client.give_up_reason is None
    assert [each.entry_groups for each in heard.values()] == [None, None]


def test_a_bookie_that_lists_some_and_is_silent_on_many_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "MAX_SILENT_SUBJECTS", 6)

    async def silent_on_even(request: Request) -> None:
        if request.ledger_id % 2 or request.ledger_id < 0:
            await request.listing()

    with FakeBookie(HOLDS, silent_on_even) as bookie:
        _, client = asked(bookie, HOLDS, StoreOptions(rate_limit=0, in_flight=4, timeout_s=0.1))
    assert "no answer for" in str(client.give_up_reason)
    assert "DbLedgerStorage" not in str(client.give_up_reason)


def test_an_answer_after_its_time_is_not_taken_for_another() -> None:
    async def slow(request: Request) -> None:
        await asyncio.sleep(HASTY.timeout_s * (1.5 if request.ledger_id == 3 else 0.4))
        await request.listing()

    with FakeBookie(HOLDS, slow) as bookie:
        heard, client = asked(bookie, range(3, 20), HASTY)
    assert client.give_up_reason is None
    assert bookie.connections == 1
    assert [ledger for ledger, each in heard.items() if each.entry_groups is None] == [3]


def test_a_connection_that_is_dead_and_does_not_say_so_is_made_again() -> None:
    async def dead_at_first(request: Request) -> None:
        if request.connection > 1:
            await request.listing()

    with FakeBookie(HOLDS, dead_at_first) as bookie:
        heard, client = asked(bookie, HOLDS, HASTY)
    assert client.give_up_reason is None
    assert bookie.connections == 2
    assert {ledger: entries(each) for ledger, each in heard.items()} == {
        ledger: list(held) for ledger, held in HOLDS.items()
    }


def test_a_bookie_that_never_answers_anything_is_given_up_after_a_few_connections() -> None:
    async def dead(request: Request) -> None:
        pass

    with FakeBookie(HOLDS, dead) as bookie:
        _, client = asked(bookie, HOLDS, StoreOptions(rate_limit=0, timeout_s=0.1))
    assert "4 connections in a row without an answer: no answer within 0.1 s" in str(client.give_up_reason)
    assert bookie.connections == bookie_client.MAX_FAILED_CONNECTIONS


def test_what_a_reset_left_unanswered_is_asked_again() -> None:
    async def reset_once(request: Request) -> None:
        if request.ledger_id == 20 and request.connection == 1:
            request.reset()
        else:
            await request.listing()

    with FakeBookie(HOLDS, reset_once) as bookie:
        heard, client = asked(bookie, HOLDS)
    assert client.give_up_reason is None
    assert bookie.connections == 2
    assert {ledger: entries(each) for ledger, each in heard.items()} == {
        ledger: list(held) for ledger, held in HOLDS.items()
    }


HALF = framed(1, 0, 1, unfolded(range(0, 50, 2)))[:77]
STRANGE = {
    "a reset": (None, "connection"),
    "half an answer, then nothing": (HALF, "no answer within"),
    "an announcement beyond the limit": (LENGTH.pack(MAX_FRAME_BYTES + 1), "a frame of"),
    "an empty frame": (LENGTH.pack(0), "a frame of 0 bytes"),
    "garbage": (LENGTH.pack(5) + b"\xff" * 5, "cut off or invalid"),
    "an answer to no request": (framed(2**40, 402, 1), "which was never sent"),
}


@pytest.mark.parametrize(("sent", "reason"), STRANGE.values(), ids=STRANGE)
def test_one_ledger_that_breaks_every_connection_takes_no_other_along(
    sent: bytes | None, reason: str
) -> None:
    async def one_breaks(request: Request) -> None:
        if request.ledger_id != 20:
            await request.listing()
        elif sent is None:
            request.reset()
        else:
            await request.raw(sent)

    with FakeBookie(HOLDS, one_breaks) as bookie:
        heard, client = asked(bookie, HOLDS, HASTY)
    assert client.give_up_reason is None
    assert [ledger for ledger, each in heard.items() if each.entry_groups is None] == [20]
    assert "2 single requests failed" in str(heard[20].reason)
    assert reason in str(heard[20].reason)
    assert heard.keys() == HOLDS.keys()
    assert bookie.connections == 4  # the first, two that ledger 20 broke, and the one for the rest


def test_an_answer_for_another_ledger_is_not_believed() -> None:
    async def mistaken(request: Request) -> None:
        await request.raw(framed(request.txn_id, 402, request.ledger_id + 1))

    with FakeBookie(behaviour=mistaken) as bookie:
        heard, client = asked(bookie, [1, 2, 3])
    assert not any(each.entry_groups is not None for each in heard.values())
    assert "4 connections in a row" in str(client.give_up_reason)
    assert "for ledger" in str(client.give_up_reason)


def test_a_connection_that_keeps_breaking_is_not_made_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "MAX_CONNECTIONS", 10)
    answered = 0

    async def one_answer_a_connection(request: Request) -> None:
        nonlocal answered
        if answered < request.connection:
            answered = request.connection
            await request.listing()
        else:
            request.reset()

    with FakeBookie(HOLDS, one_answer_a_connection) as bookie:
        _, client = asked(bookie, list(HOLDS))
    assert bookie.connections == 10
    assert "the connection was lost 10 times" in str(client.give_up_reason)


def test_nobody_there_is_said_with_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        absent = FakeBookie()
        absent.port = taken.getsockname()[1]
        heard, client = asked(absent, [1, 2])
    assert heard == {}
    assert "no connection" in str(client.give_up_reason)
    assert client.operations["connect"] == bookie_client.MAX_FAILED_CONNECTIONS


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "a\0b"])
def test_a_host_that_is_none_is_said_with_the_reason(host: str) -> None:
    absent = FakeBookie()
    absent.host, absent.port = host, 1
    heard, client = asked(absent, [1])
    assert heard == {}
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
def test_a_refusal_of_every_request_leaves_the_bookie_unread(status: int, words: str) -> None:
    async def refusing(request: Request) -> None:
        await request.refused_at_the_door(status)

    with FakeBookie(HOLDS, refusing) as bookie:
        heard, client = asked(bookie, HOLDS)
    assert heard == {}
    assert words in str(client.give_up_reason)
    assert len(bookie.asked) <= PATIENT.in_flight


@pytest.mark.parametrize("status", [403, 501, 504, 505, 507, 999])
def test_a_refusal_of_one_ledger_leaves_that_unknown(status: int) -> None:
    async def refusing_one(request: Request) -> None:
        await (request.status(status) if request.ledger_id == 5 else request.listing())

    with FakeBookie(HOLDS, refusing_one) as bookie:
        heard, client = asked(bookie, HOLDS)
    assert client.give_up_reason is None
    assert [ledger for ledger, each in heard.items() if each.entry_groups is None] == [5]
    assert str(status) in str(heard[5].reason)


def test_a_busy_bookie_is_asked_again_after_a_pause() -> None:
    refused: dict[int, int] = {}

    async def busy_twice(request: Request) -> None:
        refused[request.ledger_id] = refused.get(request.ledger_id, 0) + 1
        await (request.status(506) if refused[request.ledger_id] <= 2 else request.listing())

    with FakeBookie(HOLDS, busy_twice) as bookie:
        heard, _ = asked(bookie, HOLDS)
    assert all(each.entry_groups is not None for each in heard.values())
    assert len(bookie.asked) == 3 * len(HOLDS)


def test_a_bookie_that_stays_busy_is_not_asked_for_ever() -> None:
    async def busy(request: Request) -> None:
        await request.status(506)

    with FakeBookie(HOLDS, busy) as bookie:
        heard, _ = asked(bookie, [1, 2])
    assert ["ETOOMANYREQUESTS" in str(each.reason) for each in heard.values()] == [True, True]
    assert len(bookie.asked) == 2 * bookie_client.MAX_BUSY_ATTEMPTS


def test_a_listing_that_is_damaged_is_that_ledgers_alone_and_says_where() -> None:
    async def damaged(request: Request) -> None:
        if request.ledger_id == 5:
            await request.value(b"\0\0\0\1" + bytes(60))
        else:
            await request.listing()

    with FakeBookie(HOLDS, damaged) as bookie:
        heard, client = asked(bookie, HOLDS)
    assert client.give_up_reason is None
    assert bookie.connections == 1
    assert [ledger for ledger, each in heard.items() if each.entry_groups is None] == [5]
    assert (heard[5].reason, heard[5].fault_offset) == ("availability: version 1, not 0", 19)
    assert heard[5].answered is not None


def test_listings_are_handed_on_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "CHUNK_BYTES", 200)

    async def one_chunk(bookie: FakeBookie) -> tuple[int, int]:
        client = ListingClient(bookie.host, bookie.port, PATIENT)
        waiting = deque(HOLDS)
        heard = await client.ask(waiting)
        await client.close()
        return len(heard), len(waiting)

    with FakeBookie(HOLDS) as bookie:
        heard, waiting = asyncio.run(one_chunk(bookie))
        everything, _ = asked(bookie, HOLDS)
    assert heard + waiting == len(HOLDS)
    assert heard <= 10
    assert everything.keys() == HOLDS.keys()
