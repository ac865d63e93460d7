"""Requests to bookies for lists of the entries that they hold.

The answers become rows of the table ``availability``.

    answer EOK                     the bookie holds the listed entries
    answer "no such ledger"        the bookie holds no entry of the ledger
    another refusal, no answer     unknown, for the ledger or for the whole bookie

DbLedgerStorage (seen in 4.17.2) does not implement this request. A bookie with this storage answers for
ledgers that it lacks, but never for ledgers that it has. The client concludes that a bookie uses
DbLedgerStorage if two conditions hold: the bookie has listed no ledger, and it has not answered for several
real ledgers although the connection works. The client then stops asking this bookie.

If a reason applies to a whole bookie, the result is one row with state ``gap`` and no ledger. All ledgers
of the bookie without an earlier answer are then unknown.
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
    list_answer,
    list_request,
    status_text,
    unaskable_scope_reason,
)
from auditor.codecs.byte_column import binary_array
from auditor.errors import DecodeError
from auditor.model.columns import LEDGER, make_batch
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.rpc.client import (
    BookieClient,
    Conversation,
    one_bookie_per_partition,
    row_tuples,
    split_by_bookie,
)
from auditor.sources.bookies.rpc.connection import Address, Codec, Endpoint, address
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import StoreOptions
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_schema
from auditor.spark.types import DataFrame

CHUNK_BYTES = 64 << 20
"""Number of bytes of unfolded listings after which the client returns the listings."""
MAX_SILENT_REQUESTS = 3
"""Number of ledgers without an answer that identify DbLedgerStorage, if the bookie listed no ledger."""

DB_LEDGER_STORAGE = "the bookie does not list entries: it seems to use DbLedgerStorage"


@dataclass(frozen=True, slots=True)
class ListReply:
    """A bookie's reply for one ledger.

    Attributes:
        entry_groups: The sequence groups (BP-34) exactly as the bookie listed them. None without a usable
            answer.
        reason: The reason why ``entry_groups`` is None. None if ``entry_groups`` is set.
        fault_offset: The offset of the fault in the answer, in bytes. None if the answer has no fault.
        answered: The time when the bookie answered, in ms. None if it did not answer.
    """

    ledger_id: int
    entry_groups: Groups | None
    reason: str | None = None
    fault_offset: int | None = None
    answered: int | None = None


class ListRequest:
    """The request for a list of a ledger's entries that the bookie holds, in protocol version 3."""

    version = VERSION

    def request_bytes(self, request_number: int, subject: int) -> bytes:
        """Return the bytes of the request."""
        return list_request(request_number, subject)

    def request_key(self, request_number: int, subject: int) -> Hashable:
        """Return the number of the request. The answer contains the same number."""
        return request_number

    def needed_length(self, answer_length: int) -> int:
        """Return ``answer_length``, because all bytes of a listing are needed."""
        return answer_length

    def decode_answer(self, needed_bytes: bytes, answer_length: int) -> tuple[Hashable, BookieAnswer]:
        """Decode an answer. Return the number of its request, and the answer."""
        bookie_answer = list_answer(needed_bytes)
        return bookie_answer.txn_id, bookie_answer

    def find_mismatch(self, subject: int, answer: BookieAnswer) -> DecodeError | None:
        """Return an error if the answer names a different ledger. Otherwise return None."""
        if answer.ledger_id in (None, subject):
            return None
        return DecodeError(
            "bookie's answer",
            answer.availability_offset,
            f"the answer is for ledger {answer.ledger_id}; the request was for ledger {subject}",
        )


class ListingClient(BookieClient[int, BookieAnswer, ListReply]):
    """A client that asks one bookie which entries it holds. A subject is a ledger id (see `BookieClient`)."""

    REQUEST_NAME = "list_entries"
    SUBJECT_NOUN = "ledgers"
    REFUSAL_TEXTS: ClassVar[dict[int, str]] = {
        Status.EBADREQ: "the bookie does not know the request for a list of entries",
        Status.EBADVERSION: "the bookie does not speak protocol version 3",
    }

    _has_listed = False  # whether the bookie has listed any ledger
    _listed_bytes = 0

    def wire_protocols(self) -> tuple[Codec[int, BookieAnswer], ...]:
        """Return only protocol version 3. Version 2 does not have this request."""
        return (ListRequest(),)

    def absent_subject(self) -> int:
        """Return the id of a ledger that no bookie can have."""
        return IMPOSSIBLE_LEDGER

    def status(self, answer: BookieAnswer) -> int:
        """Return the status code of the answer."""
        return answer.status

    async def ask(self, waiting_subjects: deque[int]) -> list[ListReply]:
        """Ask as `BookieClient.ask` does. `CHUNK_BYTES` limits the size of the replies to one call."""
        self._listed_bytes = 0
        return await super().ask(waiting_subjects)

    def has_enough_replies(self) -> bool:
        """Return whether the listings of the current call have reached `CHUNK_BYTES`."""
        return self._listed_bytes >= CHUNK_BYTES

    def find_stop_reason(self, timeout_count: int) -> str | None:
        """Return a reason if the bookie seems to use DbLedgerStorage, which never lists entries."""
        if self._has_listed or timeout_count < MAX_SILENT_REQUESTS:
            return None
        return (
            f"{DB_LEDGER_STORAGE} (the bookie answers requests for ledgers that it lacks, but not for "
            f"{timeout_count} other ledgers)"
        )

    def unknown_reply(self, subject: int, reason: str) -> ListReply:
        """Return the reply for a ledger that got no answer."""
        return ListReply(subject, None, reason)

    def reply_from_answer(self, subject: int, answer: BookieAnswer) -> ListReply:
        """Return the reply with the decoded listing. The listing is empty if the bookie lacks the ledger.

        If the bookie refused, or if the listing cannot be decoded, the reply contains a reason instead.
        """
        answer_ms = now_ms()
        if answer.status == Status.ENOLEDGER:
            return ListReply(subject, _NO_ENTRIES, answered=answer_ms)
        if answer.availability is None:
            return ListReply(
                subject, None, f"the bookie refused: {status_text(answer.status)}", answered=answer_ms
            )
        self._has_listed = True
        self._listed_bytes += len(answer.availability)
        try:
            groups = availability.decode(answer.availability)
        except DecodeError as damage:
            fault_offset = answer.availability_offset + damage.offset
            return ListReply(subject, None, f"{damage.what}: {damage.reason}", fault_offset, answer_ms)
        return ListReply(subject, groups, answered=answer_ms)


_NO_ENTRIES: Groups = availability.decode(bytes(64))


RPC_STORAGE = "rpc"
PATH_WITHOUT_ADDRESS = "rpc:"
"""The path in rows of a bookie without an address."""

ASKABLE_CONDITION = "state != 'gap' and scope_id = 0"
"""SQL condition for rows that a bookie can be asked about. It excludes gaps and ledgers outside scope 0."""


def rpc_availability(pairs: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions) -> DataFrame:
    """Ask bookies which entries they hold. Returns rows of `auditor.sources.bookies.availability.SCHEMA`.

    Args:
        pairs: The columns scope_id, ledger_id and bookie_id, with each pair of a ledger and a bookie once.
        endpoints: The endpoint of every bookie in ``pairs`` (`auditor.sources.bookies.rpc.connection`).
        options: ``rate_limit`` is the number of requests per second to one bookie. ``in_flight`` is the
            number of unanswered requests to one bookie. ``timeout_s`` is the longest time to wait for an
            answer, in seconds.

    Returns:
        A row with state ok or unreadable for each pair. There is one exception. If a bookie cannot be asked,
        or stops answering, one row with state gap covers all its pairs that have no row. Write the rows at
        once, because each evaluation of the result asks the bookies again.
    """
    schema = spark_schema(SCHEMA)
    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    unreachable_bookies = {
        name: endpoint for name, endpoint in endpoints.items() if isinstance(endpoint, str)
    }
    reachable_pairs = pairs.where(~F.col("bookie_id").isin(list(unreachable_bookies)))
    requests = one_bookie_per_partition(reachable_pairs.select("bookie_id", *LEDGER), len(addresses), *LEDGER)
    rows = requests.mapInArrow(partial(rpc_rows, addresses=addresses, options=options), schema)
    gap_table = pa.Table.from_batches(
        [
            _gap_row(name, PATH_WITHOUT_ADDRESS, unreachable_bookies[name])
            for name in sorted(unreachable_bookies)
        ],
        SCHEMA,
    )
    return rows.unionByName(pairs.sparkSession.createDataFrame(gap_table, schema))


def rpc_rows(
    batches: Iterator[pa.RecordBatch], addresses: Mapping[str, Address], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask about pairs of a ledger and a bookie, one bookie after another. This function needs no Spark.

    The pairs must be sorted by bookie. This yields the rows of `rpc_availability`. Its memory is bounded by
    one batch of pairs and by `auditor.sources.bookies.rpc.listings.CHUNK_BYTES` of listings.
    """
    with Conversation(addresses, ListingClient, options) as conversation:
        for bookie_id, bookie_pairs in split_by_bookie(batches):
            client = conversation.connect_to(bookie_id)
            if client.give_up_reason is None:
                path = address(*addresses[bookie_id])
                pairs = list(row_tuples(bookie_pairs, *LEDGER))
                unaskable_replies = [
                    (scope_id, ListReply(ledger_id, None, unaskable_scope_reason(scope_id)))
                    for scope_id, ledger_id in pairs
                    if scope_id
                ]
                if unaskable_replies:
                    yield _rows(bookie_id, path, unaskable_replies)
                for replies in conversation.ask(
                    bookie_id, (ledger_id for scope_id, ledger_id in pairs if not scope_id)
                ):
                    yield _rows(bookie_id, path, [(0, reply) for reply in replies])
                if client.give_up_reason is not None:
                    yield _gap_row(bookie_id, path, client.give_up_reason)


def _rows(bookie_id: str, path: str, replies: list[tuple[int, ListReply]]) -> pa.RecordBatch:
    """Return one row of ``availability`` per reply.

    Each reply comes with the scope (the upper 64 bits) of its ledger id. The sequence groups (BP-34) of all
    replies are normalised in one call.
    """
    group_lists = [
        b"" if reply.entry_groups is None else reply.entry_groups.tobytes() for _, reply in replies
    ]
    end_bytes = np.cumsum([0, *map(len, group_lists)], dtype=np.int64)
    folded_groups = fold(GroupBatch.frombytes(b"".join(group_lists), end_bytes))
    columns = {
        "bookie_id": bookie_id,
        "scope_id": [scope_id for scope_id, _ in replies],
        "ledger_id": [reply.ledger_id for _, reply in replies],
        "groups": binary_array(folded_groups.tobytes(), folded_groups.offsets * GROUP.itemsize),
        "state": [
            IndexState.UNREADABLE if reply.entry_groups is None else IndexState.OK for _, reply in replies
        ],
        "reason": [reply.reason for _, reply in replies],
        "offset": [reply.fault_offset for _, reply in replies],
        "path": path,
        "storage": RPC_STORAGE,
        "answered": [reply.answered for _, reply in replies],
        "reused": False,
    }
    return make_batch(SCHEMA, len(replies), columns)


def _gap_row(bookie_id: str, path: str, reason: str) -> pa.RecordBatch:
    """Return a row of state gap (not read) for a bookie that the client cannot ask, or has stopped asking."""
    gap_columns = {"state": IndexState.GAP, "reason": reason, "path": path, "storage": RPC_STORAGE}
    return make_batch(SCHEMA, 1, {"bookie_id": bookie_id, "groups": b"", **gap_columns})
