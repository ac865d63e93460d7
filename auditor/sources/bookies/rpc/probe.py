"""A probe that finds out whether bookies serve this client. It asks each for an entry that cannot exist."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from auditor.codecs.bookie.wire import IMPOSSIBLE_LEDGER, VERSION, VERSION_2, Status, status_text
from auditor.errors import RefusedError, UnreadError
from auditor.sources.bookies.rpc.access import CLEAR_ACCESS, AuthRequirement, BookieAccess, find_requirement
from auditor.sources.bookies.rpc.connection import Address, connect, open_connection, wait_closed
from auditor.sources.bookies.rpc.reads import Entry, ReadRequest


class ProbeOutcome(StrEnum):
    """A bookie's reaction to this client."""

    SERVED = "served"
    LOGIN_REQUIRED = "login required"
    CERTIFICATE_REQUIRED = "TLS and certificate required"
    REFUSED = "refused"  # the bookie rejects the credentials
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of probing one bookie.

    ``reason`` says why the bookie serves no reads. It is empty if the bookie serves reads.
    """

    outcome: ProbeOutcome
    reason: str = ""


def probe_bookies(
    addresses: Mapping[str, Address], access: BookieAccess, timeout_s: float
) -> dict[str, ProbeResult]:
    """Send one read to each bookie. All reads run in parallel.

    If a bookie refuses the read, find out which authentication it requires.
    """

    async def probe_all() -> list[ProbeResult]:
        return await asyncio.gather(
            *(_probe(host, port, access, timeout_s) for host, port in addresses.values())
        )

    return dict(zip(addresses, asyncio.run(probe_all()), strict=True))


async def _probe(host: str, port: int, access: BookieAccess, timeout_s: float) -> ProbeResult:
    probe_result = await _read_status(host, port, VERSION, access, timeout_s)
    if isinstance(probe_result, UnreadError) and not isinstance(probe_result, RefusedError):
        # A bookie that does not speak version 3 closes the connection.
        older_version_result = await _read_status(host, port, VERSION_2, access, timeout_s)
        probe_result = probe_result if isinstance(older_version_result, UnreadError) else older_version_result
    if isinstance(probe_result, RefusedError):
        return ProbeResult(ProbeOutcome.REFUSED, probe_result.reason)
    if isinstance(probe_result, UnreadError):
        return ProbeResult(ProbeOutcome.SILENT, probe_result.reason)
    if probe_result != Status.EUA:
        return ProbeResult(ProbeOutcome.SERVED)
    if access.tls is not None or access.sasl is not None:
        return ProbeResult(ProbeOutcome.REFUSED, f"{access.refusal_text}: {status_text(probe_result)}")
    return await _probe_requirement(host, port, timeout_s)


async def _read_status(
    host: str, port: int, version: int, access: BookieAccess, timeout_s: float
) -> int | UnreadError:
    """Send a read, and return the status of the answer. Return the error if there is no answer."""
    try:
        connection = await open_connection(host, port, timeout_s, ReadRequest(version), access)
    except UnreadError as error:
        return error
    try:
        answer = await connection.ask(Entry(IMPOSSIBLE_LEDGER, 0))
    except TimeoutError:
        return UnreadError(connection.address_text, f"no answer to a read within {timeout_s:g} s")
    except UnreadError as error:
        return error
    finally:
        await connection.close()
    return answer.status


_RESULT_BY_REQUIREMENT = {
    AuthRequirement.LOGIN: ProbeResult(
        ProbeOutcome.LOGIN_REQUIRED,
        "the bookie requires a login by SASL; add [bookies.sasl] to the credentials file",
    ),
    AuthRequirement.CERTIFICATE: ProbeResult(
        ProbeOutcome.CERTIFICATE_REQUIRED,
        "the bookie requires TLS and a client certificate with one of its roles; add [bookies.tls] to the "
        "credentials file",
    ),
    AuthRequirement.OTHER: ProbeResult(
        ProbeOutcome.REFUSED,
        "the bookie requires an authentication that bkaudit does not support: neither SASL nor certificates",
    ),
}


async def _probe_requirement(host: str, port: int, timeout_s: float) -> ProbeResult:
    try:
        address_text, reader, writer = await connect(host, port, timeout_s)
    except UnreadError as error:
        return ProbeResult(ProbeOutcome.REFUSED, f"{CLEAR_ACCESS.refusal_text} ({error.reason})")
    try:
        return _RESULT_BY_REQUIREMENT[await find_requirement(reader, writer, address_text, timeout_s)]
    except UnreadError:
        return ProbeResult(ProbeOutcome.REFUSED, CLEAR_ACCESS.refusal_text)
    finally:
        writer.close()
        await wait_closed(writer)
