"""How fast one bookie is asked for listings, against asking for one ledger at a time.

    python benchmarks/rpc.py [--ledgers 5000] [--delay 0.5]

The bookie is a stand-in in a process of its own: it answers each request with a listing of ten runs, and
takes `--delay` milliseconds for each, as many side by side as are asked. No rate limit. All ways ask in
alternation; the smallest of three times counts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa

from auditor.codecs import availability
from auditor.codecs.bookie_wire import LENGTH
from auditor.codecs.groups import GROUP
from auditor.codecs.pb import bookie_wire_pb2 as pb
from auditor.sources.rpc_rows import rpc_rows
from auditor.sources.store import StoreOptions

REPEATS = 3
LISTING = availability.encode_unfolded(np.array([(0, 27, 2, 3)], GROUP))


def serve(told: Connection, delay_s: float) -> None:
    """Answer everything on a free port until killed."""

    async def answer(writer: asyncio.StreamWriter, data: bytes) -> None:
        request = pb.ListRequest.FromString(data)
        if delay_s:
            await asyncio.sleep(delay_s)
        body = pb.GetListOfEntriesOfLedgerResponse(
            status=0,
            ledgerId=request.getListOfEntriesOfLedgerRequest.ledgerId,
            availabilityOfEntriesOfLedger=LISTING,
        )
        header = pb.ResponseHeader(version=3, operation=11, txnId=request.header.txnId)
        message = pb.ListResponse(
            header=header, status=0, getListOfEntriesOfLedgerResponse=body
        ).SerializeToString()
        writer.write(LENGTH.pack(len(message)) + message)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering: set[asyncio.Task[None]] = set()
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                task = asyncio.create_task(answer(writer, await reader.readexactly(length)))
                answering.add(task)
                task.add_done_callback(answering.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def ask(port: int, ledgers: int, in_flight: int) -> None:
    """Ask for every ledger, to finished rows."""
    batch = pa.RecordBatch.from_pydict(
        {"bookie_id": ["b"] * ledgers, "scope_id": [0] * ledgers, "ledger_id": list(range(ledgers))}
    )
    options = StoreOptions(rate_limit=0, in_flight=in_flight)
    found = sum(rows.num_rows for rows in rpc_rows(iter([batch]), {"b": ("127.0.0.1", port)}, options))
    assert found == ledgers


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--ledgers", type=int, default=5_000)
    arguments.add_argument("--delay", type=float, default=0.5)
    options = arguments.parse_args()
    context = get_context("spawn")
    here, there = context.Pipe()
    bookie = context.Process(target=serve, args=(there, options.delay / 1000), daemon=True)
    bookie.start()
    port = here.recv()
    ways = (1, 4, 16, 64)
    times: dict[int, list[float]] = {in_flight: [] for in_flight in ways}
    try:
        for _ in range(REPEATS):
            for in_flight in ways:
                start = time.perf_counter()
                ask(port, options.ledgers, in_flight)
                times[in_flight].append(time.perf_counter() - start)
    finally:
        bookie.kill()
    load = os.getloadavg()[0]
    print(f"{options.ledgers} ledgers, {options.delay:g} ms each, load {load:.1f}, smallest of {REPEATS}")
    print(f"{'in flight':>9} {'s':>7} {'ledgers/s':>10} {'against one at a time':>22}")
    for in_flight in ways:
        best = min(times[in_flight])
        print(f"{in_flight:9} {best:7.3f} {options.ledgers / best:10,.0f} {min(times[1]) / best:21.2f}x")


if __name__ == "__main__":
    main()
