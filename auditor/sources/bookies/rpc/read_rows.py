"""What bookies say of single entries, as rows of the table witness: one for each entry and bookie asked.

What could not be asked is there too, unknown with its reason. What a bookie was not asked for since it has
no such ledger at all has no row: the answer for another entry of the ledger says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.codecs.bookie.wire import unaskable
from auditor.model.columns import schema_of
from auditor.model.states import WitnessAnswer
from auditor.sources.bookies.rpc.conversation import (
    Conversation,
    columns,
    each_bookie,
    one_bookie_per_partition,
)
from auditor.sources.bookies.rpc.pairs import Endpoint
from auditor.sources.bookies.rpc.reads import Entry, ReadClient, ReadHeard
from auditor.sources.metadata.store import StoreOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITNESS = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entry_id", pa.int64(), "the entry that was asked for"),
    ("bookie_id", pa.string(), "the bookie that was asked"),
    ("answer", pa.string(), "served, no-such-entry, no-such-ledger or unknown"),
    ("reason", pa.string(), "why the answer is unknown"),
    ("answered", pa.int64(), "when the bookie answered, ms; null: it did not"),
    ("requests", pa.int32(), "reads that were sent to it; 0: it was not asked"),
)


def witness(requests: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions) -> DataFrame:
    """Ask bookies for entries by plain reads; rows of `WITNESS`.

    ``requests`` are scope_id, ledger_id, entry_id, bookie_id and place, each entry once per bookie; a bookie
    is asked in the order of ``place``. ``endpoints`` and ``options`` as for
    `auditor.sources.bookies.rpc.listing_rows.rpc_availability`. Land it at once: whenever it is evaluated, it
    is asked for.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    asked = one_bookie_per_partition(requests, len(endpoints), "place")
    work = partial(read_rows, endpoints=dict(endpoints), options=options)
    return asked.mapInArrow(work, from_arrow_schema(WITNESS))


def read_rows(
    batches: Iterable[pa.RecordBatch], endpoints: Mapping[str, Endpoint], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask for entries that are sorted by bookie, one bookie after another. Needs no Spark."""
    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    with Conversation(addresses, ReadClient, options) as conversation:
        for bookie_id, part in each_bookie(batches):
            wanted = list(columns(part, "scope_id", "ledger_id", "entry_id"))
            foreign = [(scope, Entry(*rest)) for scope, *rest in wanted if scope]
            for scope_id, entry in foreign:
                yield _rows(bookie_id, [_not_asked(entry, str(unaskable(scope_id)))], scope_id)
            entries = [Entry(*rest) for scope, *rest in wanted if not scope]
            endpoint = endpoints[bookie_id]
            if isinstance(endpoint, str):
                yield _rows(bookie_id, [_not_asked(entry, endpoint) for entry in entries])
                continue
            left = dict.fromkeys(entries)
            absent: set[int] = set()
            for heard in conversation.ask(bookie_id, entries):
                yield _rows(bookie_id, heard)
                for each in heard:
                    left.pop(each.entry)
                    if each.answer is WitnessAnswer.NO_SUCH_LEDGER:
                        absent.add(each.entry.ledger_id)
            client = conversation.turn_to(bookie_id)
            if client.given_up is not None:
                rest = [entry for entry in left if entry.ledger_id not in absent]
                yield _rows(bookie_id, [client.unknown(entry, client.given_up) for entry in rest])


def _not_asked(entry: Entry, reason: str) -> ReadHeard:
    return ReadHeard(entry, WitnessAnswer.UNKNOWN, reason)


def _rows(bookie_id: str, heard: list[ReadHeard], scope_id: int = 0) -> pa.RecordBatch:
    rows = [
        {
            "scope_id": scope_id,
            "ledger_id": each.entry.ledger_id,
            "entry_id": each.entry.entry_id,
            "bookie_id": bookie_id,
            "answer": each.answer.value,
            "reason": each.reason,
            "answered": each.answered,
            "requests": each.requests,
        }
        for each in heard
    ]
    return pa.RecordBatch.from_pylist(rows, schema=WITNESS)
