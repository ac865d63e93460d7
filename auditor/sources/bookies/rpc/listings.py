"""Bookies asked which entries of which ledgers they hold: rows of the table availability.

    answered EOK                   it holds what it lists
    answered "no such ledger"      it holds nothing of that ledger
    another refusal, no answer     unknown: of that ledger, or of the whole bookie

DbLedgerStorage (seen in 4.17.2) answers for ledgers that it lacks, and never for those it has: the request is
not implemented there. So if several real ledgers stayed silent on a connection that is well, and none was
ever listed, it is such a bookie, and is asked no more.

What a whole bookie explains is one row of state gap, whose ledger is null: what the bookie did not say before
it is unknown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GROUP, GroupBatch, Groups
from auditor.codecs.bookie.wire import (
    IMPOSSIBLE_LEDGER,
    VERSION,
    BookieAnswer,
    Status,
    answer,
    list_request,
    status_text,
    unaskable,
)
from auditor.codecs.byte_column import binary_array
from auditor.errors import DecodeError
from auditor.model.columns import LEDGER, rows_of_columns
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.rpc.client import (
    BookieClient,
    Conversation,
    columns,
    each_bookie,
    one_bookie_per_partition,
)
from auditor.sources.bookies.rpc.connection import Address, Endpoint, Wire, address
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import StoreOptions
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_schema
from auditor.spark.types import DataFrame

CHUNK_BYTES = 64 << 20
"""Listings, unfolded, that are heard before they are handed on."""
SILENT = 3
"""Ledgers without an answer, beside none with a listing, that tell DbLedgerStorage."""

DB_LEDGER_STORAGE = "does not list entries: DbLedgerStorage"


@dataclass(frozen=True, slots=True)
class Reply:
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


class Listing:
    """The question which entries of a ledger a bookie holds, over protocol version 3."""

    version = VERSION

    def frame(self, number: int, subject: int) -> bytes:
        """The request."""
        return list_request(number, subject)

    def key(self, number: int, subject: int) -> Hashable:
        """Answers name the request."""
        return number

    def head(self, length: int) -> int:
        """All of a listing is wanted."""
        return length

    def answer(self, head: bytes, length: int) -> tuple[Hashable, BookieAnswer]:
        """The answer, and which request it is for."""
        bookie_answer = answer(head)
        return bookie_answer.txn_id, bookie_answer

    def mismatch(self, subject: int, answer: BookieAnswer) -> DecodeError | None:
        """An answer of another ledger."""
        if answer.ledger_id in (None, subject):
            return None
        return DecodeError("bookie's answer", answer.at, f"of ledger {answer.ledger_id}; asked was {subject}")


class ListingClient(BookieClient[int, BookieAnswer, Reply]):
    """Asks one bookie which entries of which ledgers it holds: see `BookieClient`; a subject is a ledger."""

    OPERATION = "list_entries"
    SUBJECTS = "ledgers"
    REFUSALS: ClassVar[dict[int, str]] = {
        Status.EBADREQ: "the bookie does not know the request for a list of entries",
        Status.EBADVERSION: "the bookie does not speak protocol version 3",
    }

    _listed = False  # it has listed some ledger
    _bytes = 0

    def wires(self) -> tuple[Wire[int, BookieAnswer], ...]:
        """Version 2 has no such question."""
        return (Listing(),)

    def impossible(self) -> int:
        """A ledger that nobody has."""
        return IMPOSSIBLE_LEDGER

    def status(self, answer: BookieAnswer) -> int:
        """The answer's status."""
        return answer.status

    async def ask(self, waiting: deque[int]) -> list[Reply]:
        """As any client; what is handed on at once is bounded by `CHUNK_BYTES`."""
        self._bytes = 0
        return await super().ask(waiting)

    def enough(self) -> bool:
        """Listings are large."""
        return self._bytes >= CHUNK_BYTES

    def mute(self, silent: int) -> str | None:
        """DbLedgerStorage says nothing of what it has."""
        if self._listed or silent < SILENT:
            return None
        return f"{DB_LEDGER_STORAGE} (it answers for what it lacks, not for {silent} others)"

    def unknown(self, subject: int, reason: str) -> Reply:
        """A ledger without an answer."""
        return Reply(subject, None, reason)

    def note(self, subject: int, answer: BookieAnswer) -> Reply:
        """The listing, decoded; nothing where the bookie lacks the ledger."""
        answer_time = now_ms()
        if answer.status == Status.ENOLEDGER:
            return Reply(subject, _NOTHING, answered=answer_time)
        if answer.availability is None:
            return Reply(
                subject, None, f"the bookie refused: {status_text(answer.status)}", answered=answer_time
            )
        self._listed = True
        self._bytes += len(answer.availability)
        try:
            groups = availability.decode(answer.availability)
        except DecodeError as damage:
            offset = answer.at + damage.offset
            return Reply(subject, None, f"{damage.what}: {damage.reason}", offset, answer_time)
        return Reply(subject, groups, answered=answer_time)


_NOTHING: Groups = availability.decode(bytes(64))


STORAGE = "rpc"
NOWHERE = "rpc:"
"""The path of a bookie without an address."""

ASKABLE_ROWS = "state != 'gap' and scope_id = 0"
"""Rows that a request was sent for, in SQL: a gap is of a whole bookie, other scopes are not asked for."""


def rpc_availability(pairs: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions) -> DataFrame:
    """Ask bookies which entries they hold; rows of `auditor.sources.bookies.availability.SCHEMA`.

    ``pairs`` are scope_id, ledger_id, bookie_id, each once. ``endpoints`` has every bookie among them
    (`auditor.sources.bookies.rpc.connection`). Of ``options``, ``rate_limit`` is requests per second to one
    bookie, ``in_flight`` how many of its requests may be unanswered, ``timeout_s`` seconds to wait for one
    answer.

    Each pair becomes a row of state ok or unreadable. A bookie that cannot be asked, or can no more, becomes
    a row of state gap, and its other pairs none. Land it at once: whenever it is evaluated, it is asked for.
    """
    schema = spark_schema(SCHEMA)
    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    absent = {name: endpoint for name, endpoint in endpoints.items() if isinstance(endpoint, str)}
    reachable = pairs.where(~F.col("bookie_id").isin(list(absent)))
    requests = one_bookie_per_partition(reachable.select("bookie_id", *LEDGER), len(addresses), *LEDGER)
    rows = requests.mapInArrow(partial(rpc_rows, addresses=addresses, options=options), schema)
    gaps = pa.Table.from_batches([_gap(name, NOWHERE, absent[name]) for name in sorted(absent)], SCHEMA)
    return rows.unionByName(pairs.sparkSession.createDataFrame(gaps, schema))


def rpc_rows(
    batches: Iterator[pa.RecordBatch], addresses: Mapping[str, Address], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask for pairs that are sorted by bookie, one bookie after another. Needs no Spark.

    Rows as `rpc_availability` has them; memory is bounded by one batch of pairs and
    `auditor.sources.bookies.rpc.listings.CHUNK_BYTES` of listings.
    """
    with Conversation(addresses, ListingClient, options) as conversation:
        for bookie_id, part in each_bookie(batches):
            client = conversation.connect_to(bookie_id)
            if client.given_up is None:
                path = address(*addresses[bookie_id])
                pairs = list(columns(part, *LEDGER))
                foreign = [
                    (scope_id, Reply(ledger_id, None, unaskable(scope_id)))
                    for scope_id, ledger_id in pairs
                    if scope_id
                ]
                if foreign:
                    yield _rows(bookie_id, path, foreign)
                for replies in conversation.ask(bookie_id, (ledger for scope, ledger in pairs if not scope)):
                    yield _rows(bookie_id, path, [(0, reply) for reply in replies])
                if client.given_up is not None:
                    yield _gap(bookie_id, path, client.given_up)


def _rows(bookie_id: str, path: str, replies: list[tuple[int, Reply]]) -> pa.RecordBatch:
    """Rows of the replies, each with its scope; the listings are folded together."""
    listings = [b"" if reply.groups is None else reply.groups.tobytes() for _, reply in replies]
    ends = np.cumsum([0, *map(len, listings)], dtype=np.int64)
    folded = fold(GroupBatch.frombytes(b"".join(listings), ends))
    columns = {
        "bookie_id": bookie_id,
        "scope_id": [scope_id for scope_id, _ in replies],
        "ledger_id": [reply.ledger_id for _, reply in replies],
        "groups": binary_array(folded.tobytes(), folded.offsets * GROUP.itemsize),
        "state": [IndexState.UNREADABLE if reply.groups is None else IndexState.OK for _, reply in replies],
        "reason": [reply.reason for _, reply in replies],
        "offset": [reply.offset for _, reply in replies],
        "path": path,
        "storage": STORAGE,
        "answered": [reply.answered for _, reply in replies],
        "reused": False,
    }
    return rows_of_columns(SCHEMA, len(replies), columns)


def _gap(bookie_id: str, path: str, reason: str) -> pa.RecordBatch:
    """The one row of a bookie that says no more."""
    gap_columns = {"state": IndexState.GAP, "reason": reason, "path": path, "storage": STORAGE}
    return rows_of_columns(SCHEMA, 1, {"bookie_id": bookie_id, "groups": b"", **gap_columns})
