"""A proxy for clients that present no certificate: it accepts their TLS and presents one to the server.

Pulsar's driver for Oxia is such a client. The proxy forwards bytes without reading them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from tests.servers.certificates import Certificates

CHUNK_BYTES = 64 * 1024
PROTOCOLS = ["h2"]
"""What gRPC wants to agree on in the handshake."""


@contextmanager
def running_sidecar(host: str, port: int, server: tuple[str, int], files: Certificates) -> Iterator[None]:
    """Listen at ``host`` and ``port``, and forward connections to ``server`` as long as the block runs."""
    inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inward.load_cert_chain(files.server, files.server_key)
    outward = ssl.create_default_context(cafile=str(files.ca))
    outward.load_cert_chain(files.client, files.client_key)
    for context in (inward, outward):
        context.set_alpn_protocols(PROTOCOLS)
    loop = asyncio.new_event_loop()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                to_server = await asyncio.open_connection(*server, ssl=outward)
                await asyncio.gather(_copy(reader, to_server[1]), _copy(to_server[0], writer))
        finally:
            writer.close()

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(pass_on, host, port, ssl=inward)

    listener = loop.run_until_complete(listen())
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(listener.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()
