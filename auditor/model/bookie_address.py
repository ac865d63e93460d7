"""Where a client looks for a bookie (BP-41; Java: ``DefaultBookieAddressResolver``).

    the client reads registrations      the bookie is looked for at
    ----------------------------------  --------------------------------------------------------
    registered, with an endpoint        the host and port of its first endpoint of bookie-rpc
    registered, without such endpoint   nowhere
    registered with no data (< 4.11)    its id, read as host:port; a custom id is nowhere
    registered with unreadable data     nowhere, as if it were not registered
    not registered                      nowhere, even if its id is an address
    not registered, id ends with :0     its id: the stand-in of a host, made by placement policies

    the client reads none               its id, read as host:port; a custom id is nowhere

The last is a client with ``bookieAddressResolverEnabled=false``, and any client of etcd: its driver (as of
4.17) keeps no endpoints, and resolves every id to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from auditor.model.bookie_id import legacy_address

BOOKIE_RPC = "bookie-rpc"


class EndpointLike(Protocol):
    """What counts of an endpoint (`auditor.codecs.store.service_info.Endpoint` is one)."""

    @property
    def host(self) -> str: ...  # noqa: D102
    @property
    def port(self) -> int: ...  # noqa: D102
    @property
    def protocol(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Registration:
    """What a bookie registered: its endpoints, None where it registered no data at all.

    ``damage`` says why its data cannot be read.
    """

    endpoints: Sequence[EndpointLike] | None
    damage: str | None = None


class Nowhere(StrEnum):
    """Why a client cannot find a bookie."""

    NOT_REGISTERED = "not-registered"
    NO_RPC_ENDPOINT = "no-rpc-endpoint"
    NO_ADDRESS = "no-address"  # the id would have to be host:port, and is not
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a bookie is looked for. ``from_id``: nothing says so but its id."""

    host: str
    port: int
    from_id: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnresolvedBookie:
    """A bookie that a client cannot look for: it fails with BookieIdNotResolvedException."""

    why: Nowhere
    reason: str


def resolve(
    bookie_id: str, registered: Registration | None, *, reads_registrations: bool = True
) -> Address | UnresolvedBookie:
    """Where a client looks for the bookie ``bookie_id``; ``registered`` is None where it is not.

    One that is registered twice is looked for at what it registered as writable.

    >>> str(resolve("bk1:3181", Registration(None))), resolve("bk1:3181", None).why.value
    ('bk1:3181', 'not-registered')
    >>> str(resolve("bk1:3181", None, reads_registrations=False))
    'bk1:3181'
    """
    if not reads_registrations:
        return _by_id(bookie_id, "and its clients know it by its id alone")
    if registered is not None and registered.damage is None:
        if registered.endpoints is None:
            return _by_id(bookie_id, "and it registered no endpoint")
        for endpoint in registered.endpoints:
            if endpoint.protocol == BOOKIE_RPC:
                return Address(endpoint.host, endpoint.port, from_id=False)
        protocols = ", ".join(sorted({endpoint.protocol for endpoint in registered.endpoints})) or "none"
        reason = f"{bookie_id} registered no endpoint of {BOOKIE_RPC} (endpoints: {protocols})"
        return UnresolvedBookie(Nowhere.NO_RPC_ENDPOINT, reason)
    if bookie_id.endswith(":0"):
        return _by_id(bookie_id, "and it stands for a host")
    if registered is not None:
        reason = f"what {bookie_id} registered cannot be read: {registered.damage}"
        return UnresolvedBookie(Nowhere.UNREADABLE, reason)
    return UnresolvedBookie(Nowhere.NOT_REGISTERED, f"{bookie_id} is not registered")


def _by_id(bookie_id: str, because: str) -> Address | UnresolvedBookie:
    address = legacy_address(bookie_id)
    if address is None:
        return UnresolvedBookie(Nowhere.NO_ADDRESS, f"{bookie_id} is not an address, {because}")
    return Address(*address, from_id=True)
