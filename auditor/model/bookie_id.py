r"""A bookie's id, what the server takes for one, and where a client looks for a bookie by it (BP-41).

The proposal allows ASCII letters, digits, ``:``, ``-`` and ``.``. The server's pattern has ``:-_`` inside a
character class, which is a range, and so also takes ``; < = > ? @ [ \ ] ^ _``. Of these only ``_`` was meant:
clusters have it, and it is let pass here. The server refuses ``readonly`` in
any case, the name of a directory among the registrations. Ids are compared as they are written.

A client looks for a bookie so (Java: ``DefaultBookieAddressResolver``):

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

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

ACCEPTED = r"[a-zA-Z0-9:-_.\-]+"
"""What the server's ``BookieId.validateBookieId`` takes whole, as Python and Java write it."""

PORTABLE = r"[a-zA-Z0-9:_.\-]+"
"""What BP-41 allows, and ``_``."""

RESERVED = r"(?i:readonly)"
"""What the server refuses all the same."""

_ACCEPTED = re.compile(ACCEPTED)
_RESERVED = re.compile(RESERVED)
_PORT = re.compile(r"[+-]?[0-9]{1,10}")


def is_accepted(id: str) -> bool:
    """Whether BookKeeper's ``BookieId.parse`` takes an id; it refuses a whole ledger over one it does not.

    >>> is_accepted("bk1:3181"), is_accepted("[::1]:3181"), is_accepted("ReadOnly"), is_accepted("a b")
    (True, True, False, False)
    """
    return _ACCEPTED.fullmatch(id) is not None and _RESERVED.fullmatch(id) is None


def legacy_address(id: str) -> tuple[str, int] | None:
    """Host and port of an id that is an address, as ids were before BP-41; None for a custom id.

    Reads what the server reads: parts after the port do not matter, and no port is too large.

    >>> legacy_address("bk1:3181"), legacy_address("bookie-7"), legacy_address("::1:3181")
    (('bk1', 3181), None, None)
    """
    host, colon, tail = id.partition(":")
    port = tail.partition(":")[0]
    if not colon or _PORT.fullmatch(port) is None or not -(2**31) <= int(port) < 2**31:
        return None
    return host, int(port)


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
