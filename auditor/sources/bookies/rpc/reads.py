"""Plain reads of single entries from bookies. Each row of the table ``witness`` is one bookie's answer.

    answer EOK                         the bookie serves the entry
    answer "no such entry"             the bookie does not serve the entry
    answer "no such ledger"            the bookie serves no entry of the ledger. The other entries of the
                                       ledger need no request
    bookie refuses the login           refused: the bookie serves no reads to this client
    bookie does not know the request   refused, as above
    another refusal, no answer         unknown, for the entry or for the whole bookie

The client drops the payload of an entry as it arrives (`auditor.codecs.bookie.wire`). Bookies with any
storage answer reads. If a bookie does not speak protocol version 3, the client uses version 2.

If the program could not request an entry, the entry's row has the answer ``unknown`` and the reason. If a
bookie lacks a whole ledger, only the entry that the program requested has a row.
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
    unaskable_scope_reason,
)
from auditor.errors import DecodeError
from auditor.model.columns import make_schema
from auditor.model.states import WitnessAnswer
from auditor.sources.bookies.rpc.client import (
    BookieClient,
    Conversation,
    one_bookie_per_partition,
    row_tuples,
    split_by_bookie,
)
from auditor.sources.bookies.rpc.connection import BookieConnection, Codec, Endpoint
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import StoreOptions
from auditor.spark.part_tables import spark_types
from auditor.spark.types import DataFrame

_ANSWER_BY_STATUS: dict[int, WitnessAnswer] = {
    Status.EOK: WitnessAnswer.SERVED,
    Status.ENOENTRY: WitnessAnswer.NO_SUCH_ENTRY,
    Status.ENOLEDGER: WitnessAnswer.NO_SUCH_LEDGER,
}


class Entry(NamedTuple):
    """An entry of a ledger with a 64-bit id (scope 0)."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A bookie's reply for one entry.

    Attributes:
        reason: The reason for the answers unknown and refused. None for any other answer.
        answer_ms: The time when the bookie answered, in ms. None if it did not answer.
        request_count: The number of requests that were sent for this entry.
    """

    entry: Entry
    answer: WitnessAnswer
    reason: str | None = None
    answer_ms: int | None = None
    request_count: int = 0


@dataclass(frozen=True)
class ReadRequest:
    """The request to read one entry, in one protocol version."""

    version: int

    def request_bytes(self, request_number: int, subject: Entry) -> bytes:
        """Return the bytes of the request."""
        return read_request(request_number, subject.ledger_id, subject.entry_id, version=self.version)

    def request_key(self, request_number: int, subject: Entry) -> Hashable:
        """Return the number of the request. In version 2, return the ledger and entry instead.

        In version 2, answers do not contain the number of the request.
        """
        return subject if self.version == VERSION_2 else request_number

    def needed_length(self, answer_length: int) -> int:
        """Return how many bytes at the start of the answer are needed, without the entry's payload."""
        return min(answer_length, HEAD_BYTES)

    def decode_answer(self, needed_bytes: bytes, answer_length: int) -> tuple[Hashable, ReadAnswer]:
        """Decode an answer. Return the key of its request, and the answer."""
        answer = read_answer(needed_bytes, answer_length, self.version)
        return (answer.ledger_id, answer.entry_id) if answer.txn_id is None else answer.txn_id, answer

    def find_mismatch(self, subject: Entry, answer: ReadAnswer) -> DecodeError | None:
        """Return an error if the answer names a different entry. Otherwise return None."""
        answered_entry = (answer.ledger_id, answer.entry_id)
        if answered_entry in (subject, (None, None)):
            return None
        reason = (
            f"the answer is for entry {answered_entry[1]} of ledger {answered_entry[0]}; the request was "
            f"for entry {subject[1]} of ledger {subject[0]}"
        )
        return DecodeError("bookie's answer", 0, reason)


class ReadClient(BookieClient[Entry, ReadAnswer, ReadReply]):
    """A client that reads entries from one bookie. A subject is an entry (see `BookieClient`).

    ``request_counts`` counts the requests that were sent for each entry.
    """

    REQUEST_NAME = "read_entry"
    SUBJECT_NOUN = "entries"
    REFUSAL_TEXTS: ClassVar[dict[int, str]] = {
        Status.EBADREQ: "the bookie does not know the request for an entry",
        Status.EBADVERSION: "the bookie speaks neither protocol version 3 nor 2",
    }

    def __init__(self, host: str, port: int, options: StoreOptions) -> None:
        super().__init__(host, port, options)
        self._absent_ledgers: set[int] = set()  # ledgers for which the bookie answered "no such ledger"
        self.request_counts: Counter[Entry] = Counter()

    def wire_protocols(self) -> tuple[Codec[Entry, ReadAnswer], ...]:
        """Return protocol version 3, and then version 2 for bookies that do not speak version 3."""
        return ReadRequest(VERSION), ReadRequest(VERSION_2)

    def absent_subject(self) -> Entry:
        """Return an entry that no bookie can have."""
        return Entry(IMPOSSIBLE_LEDGER, 0)

    def status(self, answer: ReadAnswer) -> int:
        """Return the status code of the answer."""
        return answer.status

    def is_needless(self, subject: Entry) -> bool:
        """Return whether the bookie has already answered that it lacks the entry's ledger."""
        return subject.ledger_id in self._absent_ledgers

    def unknown_reply(self, subject: Entry, reason: str) -> ReadReply:
        """Return the reply for an entry that got no answer.

        The reply's answer is ``refused`` if the bookie refuses this client. Otherwise, it is ``unknown``.
        """
        answer = WitnessAnswer.REFUSED if self.refuses_all else WitnessAnswer.UNKNOWN
        return ReadReply(subject, answer, reason, request_count=self.request_counts[subject])

    def reply_from_answer(self, subject: Entry, answer: ReadAnswer) -> ReadReply:
        """Return the reply for an entry from the bookie's answer."""
        entry_answer = _ANSWER_BY_STATUS.get(answer.status, WitnessAnswer.UNKNOWN)
        if entry_answer is WitnessAnswer.NO_SUCH_LEDGER:
            self._absent_ledgers.add(subject.ledger_id)
        reason = (
            f"the bookie refused: {status_text(answer.status)}"
            if entry_answer is WitnessAnswer.UNKNOWN
            else None
        )
        return ReadReply(subject, entry_answer, reason, now_ms(), self.request_counts[subject])

    async def _request(self, connection: BookieConnection[Entry, ReadAnswer], subject: Entry) -> ReadAnswer:
        self.request_counts[subject] += 1
        return await super()._request(connection, subject)


WITNESS = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entry_id", pa.int64(), "the entry that was asked for"),
    ("bookie_id", pa.string(), "the bookie that was asked"),
    ("answer", pa.string(), "the bookie's answer: served, no-such-entry, no-such-ledger, refused or unknown"),
    ("reason", pa.string(), "reason for the answers refused and unknown"),
    ("answered", pa.int64(), "time of the bookie's answer, in ms; null: no answer"),
    ("requests", pa.int32(), "number of read requests sent; 0: the bookie was not asked"),
)


def ask_for_entries(
    requests: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions
) -> DataFrame:
    """Ask bookies for entries with plain reads. Returns rows of `WITNESS`.

    Args:
        requests: The columns scope_id, ledger_id, entry_id, bookie_id and place. Each entry occurs once per
            bookie. The column ``place`` gives the order in which requests are sent to a bookie.
        endpoints: The same as for `auditor.sources.bookies.rpc.listings.rpc_availability`.
        options: The same as for that function.

    Returns:
        The rows. Write them at once, because each evaluation of the result asks the bookies again.
    """
    sorted_requests = one_bookie_per_partition(requests, len(endpoints), "place")
    read_batches = partial(read_rows, endpoints=dict(endpoints), options=options)
    return sorted_requests.mapInArrow(read_batches, spark_types(WITNESS))


def read_rows(
    batches: Iterable[pa.RecordBatch], endpoints: Mapping[str, Endpoint], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask for entries, one bookie after another. This function needs no Spark.

    The requests in ``batches`` must be sorted by bookie.
    """
    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    with Conversation(addresses, ReadClient, options) as conversation:
        for bookie_id, bookie_requests in split_by_bookie(batches):
            requests = list(row_tuples(bookie_requests, "scope_id", "ledger_id", "entry_id"))
            unaskable_entries = [
                (scope_id, Entry(*entry_ids)) for scope_id, *entry_ids in requests if scope_id
            ]
            for scope_id, entry in unaskable_entries:
                yield _rows(
                    bookie_id, [_unasked_reply(entry, str(unaskable_scope_reason(scope_id)))], scope_id
                )
            entries = [Entry(*entry_ids) for scope_id, *entry_ids in requests if not scope_id]
            endpoint = endpoints[bookie_id]
            if isinstance(endpoint, str):
                yield _rows(bookie_id, [_unasked_reply(entry, endpoint) for entry in entries])
                continue
            unanswered_entries = dict.fromkeys(entries)
            absent_ledgers: set[int] = set()
            for replies in conversation.ask(bookie_id, entries):
                yield _rows(bookie_id, replies)
                for reply in replies:
                    unanswered_entries.pop(reply.entry)
                    if reply.answer is WitnessAnswer.NO_SUCH_LEDGER:
                        absent_ledgers.add(reply.entry.ledger_id)
            client = conversation.connect_to(bookie_id)
            if client.give_up_reason is not None:
                unknown_entries = [
                    entry for entry in unanswered_entries if entry.ledger_id not in absent_ledgers
                ]
                yield _rows(
                    bookie_id,
                    [client.unknown_reply(entry, client.give_up_reason) for entry in unknown_entries],
                )


def _unasked_reply(entry: Entry, reason: str) -> ReadReply:
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
            "answered": reply.answer_ms,
            "requests": reply.request_count,
        }
        for reply in replies
    ]
    return pa.RecordBatch.from_pylist(rows, schema=WITNESS)
