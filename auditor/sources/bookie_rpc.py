"""One bookie, asked which entries of which ledgers it holds, and what to make of its silences and refusals.

    answered EOK                   it holds what it lists
    answered "no such ledger"      it holds nothing of that ledger
    another refusal, no answer     unknown: of that ledger, or of the whole bookie

A connection that broke is made again a bounded number of times. What it left unanswered is then asked one
ledger at a time, so that a ledger whose answer breaks the connection does not take others along.

DbLedgerStorage (seen in 4.17.2) answers for ledgers that it lacks, and never for those it has: the request is
not implemented there. So after a time-out the bookie is asked for a ledger that cannot exist. If it answers
that, the connection is well; if several real ledgers stayed silent and none was ever listed, it is such a
bookie, and is asked no more. If it does not, the connection is as good as broken.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass

from auditor.codecs import availability
from auditor.codecs.bookie_wire import Answer, Status, named
from auditor.codecs.groups import Groups
from auditor.errors import DecodeError, UnreadError
from auditor.sources.bookie_rpc_connection import BookieConnection, open_connection
from auditor.sources.rate_limit import RateLimit
from auditor.sources.store import StoreOptions

IMPOSSIBLE_LEDGER = -2
"""The ledger that no bookie can hold: clients refuse to make ids below 0, and every id from 0 to 2^63 - 1 may
be somebody's. -1 is avoided, being the server's own word for "no ledger". The storages of 4.17.2 answer "no
such ledger" for it, and nothing comes to be by asking."""
CHUNK_BYTES = 64 << 20
"""Listings, unfolded, that are heard before they are handed on."""
CONNECTIONS = 4
"""Connections in a row that brought no answer, before a bookie is given up."""
MOST_CONNECTIONS = 32
ALONE = 2
"""How often a ledger is asked for by itself after the connection broke with it."""
SILENT = 3
"""Ledgers without an answer, beside none with a listing, that tell DbLedgerStorage."""
MOST_SILENT = 40
"""Ledgers without an answer, before a bookie that does list others is given up."""
PAUSE_S = 0.1
"""The first wait before connecting again, or after "too many requests"; each next one is twice as long."""
BUSY = 5
"""How often a ledger is asked for while the bookie says "too many requests"."""

DB_LEDGER_STORAGE = "does not list entries: DbLedgerStorage"

# A refusal of these says nothing of a ledger: every other request would meet it as well.
_WHOLE_BOOKIE: dict[int, str] = {
    Status.EUA: "not authorised: the bookie wants its clients to authenticate",
    Status.EBADREQ: "the bookie does not know the request for a list of entries",
    Status.EBADVERSION: "the bookie does not speak protocol version 3",
}


@dataclass(frozen=True, slots=True)
class Heard:
    """What a bookie says of one ledger.

    ``groups``, as listed and not folded, is None where it said nothing that helps; ``reason`` then says why,
    and ``offset`` is the byte of its answer at fault, if one is. ``answered`` is when, in ms, null without an
    answer.
    """

    ledger_id: int
    groups: Groups | None
    reason: str | None = None
    offset: int | None = None
    answered: int | None = None


class BookieClient:
    """Asks one bookie, ``options.in_flight`` requests at a time and ``options.rate_limit`` a second.

    A request whose time is over counts as in flight no more, though the bookie may still have it.
    ``given_up`` is the reason why it is asked no more; whatever it has not said by then is unknown.
    ``operations`` counts connections and requests.
    """

    def __init__(self, host: str, port: int, options: StoreOptions) -> None:
        self.given_up: str | None = None
        self.operations: Counter[str] = Counter()
        self._host = host
        self._port = port
        self._options = options
        self._limit = RateLimit(options.rate_limit)
        self._connection: BookieConnection | None = None
        self._barren = 0  # connections opened since the last answer
        self._listed = False  # it has listed some ledger
        self._silent = 0
        self._heard: list[Heard] = []
        self._bytes = 0

    async def ask(self, waiting: deque[int]) -> list[Heard]:
        """Ask for ledgers, taken from the left, until none waits, enough was heard, or there is no use.

        What is neither among the answers nor still waiting stays unknown; the bookie is given up then.
        """
        self._heard, self._bytes = [], 0
        while waiting and self.given_up is None and self._bytes < CHUNK_BYTES:
            for ledger_id in await self._side_by_side(waiting):
                await self._alone(ledger_id)
        return self._heard

    async def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _side_by_side(self, waiting: deque[int]) -> list[int]:
        """Ask until something goes wrong; the ledgers that are to be asked again, one by one."""
        connection = await self._connected()
        if connection is None:
            return []
        silent: list[int] = []
        lost: list[int] = []

        async def work() -> None:
            while waiting and not silent and not lost and not self.given_up and self._bytes < CHUNK_BYTES:
                ledger_id = waiting.popleft()
                try:
                    await self._hear(connection, ledger_id)
                except TimeoutError:
                    silent.append(ledger_id)
                except UnreadError:
                    lost.append(ledger_id)

        await asyncio.gather(*(work() for _ in range(self._options.in_flight)))
        if silent and not lost and await self._is_well(connection):
            self._note_silence(silent)
            return []
        return silent + lost

    async def _alone(self, ledger_id: int) -> None:
        """Ask for a ledger that may be to blame for a lost connection."""
        broken = ""
        for _ in range(ALONE):
            connection = await self._connected()
            if connection is None:
                return
            try:
                await self._hear(connection, ledger_id)
                return
            except TimeoutError:
                if await self._is_well(connection):
                    self._note_silence([ledger_id])
                    return
                broken = f"no answer within {self._options.timeout_s:g} s, to anything"
            except UnreadError as error:
                broken = error.reason
        self._heard.append(Heard(ledger_id, None, f"asked for by itself {ALONE} times: {broken}"))

    async def _hear(self, connection: BookieConnection, ledger_id: int) -> None:
        for attempt in range(BUSY):
            heard = await self._request(connection, ledger_id)
            if heard.status != Status.ETOOMANYREQUESTS:
                break
            if attempt < BUSY - 1:
                await asyncio.sleep(PAUSE_S * 2**attempt)
        self._note(ledger_id, heard)

    async def _request(self, connection: BookieConnection, ledger_id: int) -> Answer:
        wait = self._limit.due(1)
        if wait:
            await asyncio.sleep(wait)
        self.operations["list_entries"] += 1
        heard = await connection.list_entries(ledger_id)
        self._barren = 0
        return heard

    async def _is_well(self, connection: BookieConnection) -> bool:
        """Whether a connection answers at all: asked is what no bookie can hold."""
        try:
            await self._request(connection, IMPOSSIBLE_LEDGER)
        except TimeoutError:
            connection.lose(f"no answer within {self._options.timeout_s:g} s, to anything")
        except UnreadError:
            return False  # the connection knows why
        return connection.lost is None

    def _note(self, ledger_id: int, heard: Answer) -> None:
        now = int(time.time() * 1000)
        if heard.status in _WHOLE_BOOKIE:
            self.given_up = f"{_WHOLE_BOOKIE[heard.status]}: {named(heard.status)}"
        elif heard.status == Status.ENOLEDGER:
            self._heard.append(Heard(ledger_id, _NOTHING, answered=now))
        elif heard.availability is None:
            reason = f"the bookie refused: {named(heard.status)}"
            self._heard.append(Heard(ledger_id, None, reason, answered=now))
        else:
            self._listed = True
            self._bytes += len(heard.availability)
            try:
                groups = availability.decode(heard.availability)
            except DecodeError as damage:
                at = heard.at + damage.offset
                self._heard.append(Heard(ledger_id, None, f"{damage.what}: {damage.reason}", at, now))
            else:
                self._heard.append(Heard(ledger_id, groups, answered=now))

    def _note_silence(self, ledger_ids: list[int]) -> None:
        """Real ledgers got no answer on a connection that is well."""
        self._silent += len(ledger_ids)
        waited = (
            f"no answer within {self._options.timeout_s:g} s, though the bookie answers for other ledgers"
        )
        self._heard += [Heard(ledger_id, None, waited) for ledger_id in ledger_ids]
        if not self._listed and self._silent >= SILENT:
            self.given_up = (
                f"{DB_LEDGER_STORAGE} (it answers for what it lacks, not for {self._silent} others)"
            )
        elif self._silent >= MOST_SILENT:
            self.given_up = f"no answer for {self._silent} ledgers, each within {self._options.timeout_s:g} s"

    async def _connected(self) -> BookieConnection | None:
        """The connection, made again if it was lost; None, and given up, where that leads nowhere."""
        while self.given_up is None:
            if self._connection is not None and self._connection.lost is None:
                return self._connection
            lost = self._connection.lost if self._connection else None
            await self.close()
            if lost is not None:
                self._give_up_on(lost)
            if self.given_up is None:
                if self._barren:
                    await asyncio.sleep(PAUSE_S * 2 ** (self._barren - 1))
                self._barren += 1
                self.operations["connect"] += 1
                try:
                    self._connection = await open_connection(self._host, self._port, self._options.timeout_s)
                except UnreadError as error:
                    self._give_up_on(error)
        return None

    def _give_up_on(self, error: UnreadError) -> None:
        """A connection failed: if it was one too many, that is the end."""
        if self._barren >= CONNECTIONS:
            self.given_up = f"{CONNECTIONS} connections in a row without an answer: {error.reason}"
        elif self.operations["connect"] >= MOST_CONNECTIONS:
            self.given_up = f"the connection was lost {MOST_CONNECTIONS} times: {error.reason}"


_NOTHING: Groups = availability.decode(bytes(64))
