"""Speed of requesting listings from one bookie, compared with sending one request at a time.

The bookie is a stand-in in its own process. It answers each request after half a millisecond, with a
listing of ten runs. It handles any number of requests at the same time. There is no rate limit.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import encode_unfolded
from auditor.codecs.bookie.wire import LENGTH
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.sources.bookies.rpc.listings import rpc_rows
from auditor.sources.metadata.store import StoreOptions
from benchmarks.measure import Line, alternate

LEDGERS, ANSWER_DELAY_SECONDS = 5_000, 0.0005
IN_FLIGHT_COUNTS = (1, 4, 16, 64)
ENCODED_LISTING = encode_unfolded(np.array([(0, 27, 2, 3)], GROUP))


def serve(port_pipe: Connection, delay_s: float) -> None:
    """Serve listings on a free port until killed; send the port through ``port_pipe``."""

    async def answer(writer: asyncio.StreamWriter, response_bytes: bytes) -> None:
        request = pb.ListRequest.FromString(response_bytes)
        if delay_s:
            await asyncio.sleep(delay_s)
        response_body = pb.GetListOfEntriesOfLedgerResponse(
            status=0,
            ledgerId=request.getListOfEntriesOfLedgerRequest.ledgerId,
            availabilityOfEntriesOfLedger=ENCODED_LISTING,
        )
        response_header = pb.ResponseHeader(version=3, operation=11, txnId=request.header.txnId)
        message = pb.ListResponse(
            header=response_header, status=0, getListOfEntriesOfLedgerResponse=response_body
        ).SerializeToString()
        writer.write(LENGTH.pack(len(message)) + message)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer_tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                (request_length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                answer_task = asyncio.create_task(answer(writer, await reader.readexactly(request_length)))
                answer_tasks.add(answer_task)
                answer_task.add_done_callback(answer_tasks.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port_pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def ask(port: int, ledgers: int, in_flight: int) -> None:
    """Request the listing of every ledger and build the finished rows."""
    batch = pa.RecordBatch.from_pydict(
        {"bookie_id": ["b"] * ledgers, "scope_id": [0] * ledgers, "ledger_id": list(range(ledgers))}
    )
    options = StoreOptions(rate_limit=0, in_flight=in_flight)
    answer_count = sum(rows.num_rows for rows in rpc_rows(iter([batch]), {"b": ("127.0.0.1", port)}, options))
    if answer_count != ledgers:
        sys.exit(f"{answer_count} of {ledgers} ledgers were answered")


def lines() -> Iterator[Line]:
    """Yield lines that compare several requests in flight on one connection with one request at a time."""
    process_context = get_context("spawn")
    receiver, sender = process_context.Pipe()
    bookie = process_context.Process(target=serve, args=(sender, ANSWER_DELAY_SECONDS), daemon=True)
    bookie.start()
    port = receiver.recv()
    try:
        seconds_by_count = alternate(
            *(partial(ask, port, LEDGERS, in_flight) for in_flight in IN_FLIGHT_COUNTS)
        )
    finally:
        bookie.kill()
    for in_flight, seconds in zip(IN_FLIGHT_COUNTS[1:], seconds_by_count[1:], strict=True):
        yield Line(
            f"rpc, {in_flight} in flight, {ANSWER_DELAY_SECONDS * 1000:g} ms each",
            LEDGERS,
            "ledgers",
            seconds,
            "one at a time",
            LEDGERS,
            seconds_by_count[0],
        )
