"""Bookies asked for single entries by plain reads: rows of the table witness, one for each entry and bookie.

    answered EOK                   it serves the entry
    answered "no such entry"       it does not
    answered "no such ledger"      it serves nothing of that ledger: the rest of it need not be asked for
    refused to authenticate or to  refused: it takes no reads from this client
      know the request
    another refusal, no answer     unknown: of that entry, or of the whole bookie

Entries are dropped as they arrive (`auditor.codecs.bookie.wire`). Every storage answers. A bookie that does
not speak protocol version 3 is asked in version 2.

What could not be asked is there too, unknown with its reason. What a bookie was not asked for since it has
no such ledger at all has no row: the answer for another entry of the ledger says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import pyarrow as pa

from auditor.codecs.bookie.wire import (
    HEAD_BYTES,
    IMPOSSIBLE_LEDGER,
    VERSION,
    VERSION_2,
    ReadAnswer,
    Status,
    read_answer,
    read_request,
    status_text,
    unaskable,
)
from auditor.errors import DecodeError
from auditor.model.columns import schema_of
from auditor.model.states import WitnessAnswer
from auditor.sources.bookies.rpc.client import (
    BookieClient,
    Conversation,
    columns,
    each_bookie,
    one_bookie_per_partition,
)
from auditor.sources.bookies.rpc.connection import BookieConnection, Endpoint, Wire
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import StoreOptions
from auditor.spark.part_tables import spark_types
from auditor.spark.types import DataFrame

_ANSWERS: dict[int, WitnessAnswer] = {
    Status.EOK: WitnessAnswer.SERVED,
    Status.ENOENTRY: WitnessAnswer.NO_SUCH_ENTRY,
    Status.ENOLEDGER: WitnessAnswer.NO_SUCH_LEDGER,
}


class Entry(NamedTuple):
    """An entry of a ledger of scope 0."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class ReadReply:
    """What a bookie says of one entry.

    ``reason`` is why the answer is unknown or refused. ``answered`` is when, in ms; null without an answer.
    ``requests`` is how often the bookie was asked for it.
    """

    entry: Entry
    answer: WitnessAnswer
    reason: str | None = None
    answered: int | None = None
    requests: int = 0


@dataclass(frozen=True)
class Reading:
    """The question for one entry, in one version of the protocol."""

    version: int

    def frame(self, number: int, subject: Entry) -> bytes:
        """The request."""
        return read_request(number, subject.ledger_id, subject.entry_id, version=self.version)

    def key(self, number: int, subject: Entry) -> Hashable:
        """Answers name the request; in version 2, only the entry."""
        return subject if self.version == VERSION_2 else number

    def head(self, length: int) -> int:
        """What comes before an entry's payload."""
        return min(length, HEAD_BYTES)

    def answer(self, head: bytes, length: int) -> tuple[Hashable, ReadAnswer]:
        """The answer, and which request it is for."""
        answer = read_answer(head, length, self.version)
        return (answer.ledger_id, answer.entry_id) if answer.txn_id is None else answer.txn_id, answer

    def mismatch(self, subject: Entry, answer: ReadAnswer) -> DecodeError | None:
        """An answer of another entry."""
        answer_key = (answer.ledger_id, answer.entry_id)
        if answer_key in (subject, (None, None)):
            return None
        reason = f"of entry {answer_key[1]} of ledger {answer_key[0]}; asked was {subject[1]} of {subject[0]}"
        return DecodeError("bookie's answer", 0, reason)


class ReadClient(BookieClient[Entry, ReadAnswer, ReadReply]):
    """Asks one bookie for entries: see `BookieClient`; a subject is an entry.

    ``requests`` counts how often each was asked for.
    """

    OPERATION = "read_entry"
    SUBJECTS = "entries"
    REFUSALS: ClassVar[dict[int, str]] = {
        Status.EBADREQ: "the bookie does not know the request for an entry",
        Status.EBADVERSION: "the bookie speaks neither protocol version 3 nor 2",
    }

    def __init__(self, host: str, port: int, options: StoreOptions) -> None:
        super().__init__(host, port, options)
        self._absent: set[int] = set()  # ledgers that the bookie says it does not have
        self.requests: Counter[Entry] = Counter()

    def wires(self) -> tuple[Wire[Entry, ReadAnswer], ...]:
        """Version 3; 2 for bookies that need it."""
        return Reading(VERSION), Reading(VERSION_2)

    def impossible(self) -> Entry:
        """An entry that nobody has."""
        return Entry(IMPOSSIBLE_LEDGER, 0)

    def status(self, answer: ReadAnswer) -> int:
        """The answer's status."""
        return answer.status

    def can_skip(self, subject: Entry) -> bool:
        """A bookie that has no such ledger has none of its entries."""
        return subject.ledger_id in self._absent

    def unknown(self, subject: Entry, reason: str) -> ReadReply:
        """An entry without an answer."""
        answer = WitnessAnswer.REFUSED if self.refuses else WitnessAnswer.UNKNOWN
        return ReadReply(subject, answer, reason, requests=self.requests[subject])

    def note(self, subject: Entry, answer: ReadAnswer) -> ReadReply:
        """What the bookie says of the entry."""
        witness_answer = _ANSWERS.get(answer.status, WitnessAnswer.UNKNOWN)
        if witness_answer is WitnessAnswer.NO_SUCH_LEDGER:
            self._absent.add(subject.ledger_id)
        reason = (
            f"the bookie refused: {status_text(answer.status)}"
            if witness_answer is WitnessAnswer.UNKNOWN
            else None
        )
        return ReadReply(subject, witness_answer, reason, now_ms(), self.requests[subject])

    async def _request(self, connection: BookieConnection[Entry, ReadAnswer], subject: Entry) -> ReadAnswer:
        self.requests[subject] += 1
        return await super()._request(connection, subject)


WITNESS = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entry_id", pa.int64(), "the entry that was asked for"),
    ("bookie_id", pa.string(), "the bookie that was asked"),
    ("answer", pa.string(), "served, no-such-entry, no-such-ledger, refused or unknown"),
    ("reason", pa.string(), "why the answer is refused or unknown"),
    ("answered", pa.int64(), "when the bookie answered, ms; null: it did not"),
    ("requests", pa.int32(), "reads that were sent to it; 0: it was not asked"),
)


def witness(requests: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions) -> DataFrame:
    """Ask bookies for entries by plain reads; rows of `WITNESS`.

    ``requests`` are scope_id, ledger_id, entry_id, bookie_id and place, each entry once per bookie; a bookie
    is asked in the order of ``place``. ``endpoints`` and ``options`` as for
    `auditor.sources.bookies.rpc.listings.rpc_availability`. Land it at once: whenever it is evaluated, it
    is asked for.
    """
    sorted_requests = one_bookie_per_partition(requests, len(endpoints), "place")
    work = partial(read_rows, endpoints=dict(endpoints), options=options)
    return sorted_requests.mapInArrow(work, spark_types(WITNESS))


def read_rows(
    batches: Iterable[pa.RecordBatch], endpoints: Mapping[str, Endpoint], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask for entries that are sorted by bookie, one bookie after another. Needs no Spark."""
    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    with Conversation(addresses, ReadClient, options) as conversation:
        for bookie_id, part in each_bookie(batches):
            requests = list(columns(part, "scope_id", "ledger_id", "entry_id"))
            foreign = [(scope, Entry(*entry_ids)) for scope, *entry_ids in requests if scope]
            for scope_id, entry in foreign:
                yield _rows(bookie_id, [_not_asked(entry, str(unaskable(scope_id)))], scope_id)
            entries = [Entry(*entry_ids) for scope, *entry_ids in requests if not scope]
            endpoint = endpoints[bookie_id]
            if isinstance(endpoint, str):
                yield _rows(bookie_id, [_not_asked(entry, endpoint) for entry in entries])
                continue
            unanswered_entries = dict.fromkeys(entries)
            absent: set[int] = set()
            for replies in conversation.ask(bookie_id, entries):
                yield _rows(bookie_id, replies)
                for reply in replies:
                    unanswered_entries.pop(reply.entry)
                    if reply.answer is WitnessAnswer.NO_SUCH_LEDGER:
                        absent.add(reply.entry.ledger_id)
            client = conversation.connect_to(bookie_id)
            if client.given_up is not None:
                unknown_entries = [entry for entry in unanswered_entries if entry.ledger_id not in absent]
                yield _rows(bookie_id, [client.unknown(entry, client.given_up) for entry in unknown_entries])


def _not_asked(entry: Entry, reason: str) -> ReadReply:
    return ReadReply(entry, WitnessAnswer.UNKNOWN, reason)


def _rows(bookie_id: str, replies: list[ReadReply], scope_id: int = 0) -> pa.RecordBatch:
    rows = [
        {
            "scope_id": scope_id,
            "ledger_id": reply.entry.ledger_id,
            "entry_id": reply.entry.entry_id,
            "bookie_id": bookie_id,
            "answer": reply.answer.value,
            "reason": reply.reason,
            "answered": reply.answered,
            "requests": reply.requests,
        }
        for reply in replies
    ]
    return pa.RecordBatch.from_pylist(rows, schema=WITNESS)
