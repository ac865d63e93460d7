r"""Bookie ids: which ids the server accepts, and how a client finds a bookie by its id (BP-41).

The proposal allows ASCII letters, digits, ``:``, ``-`` and ``.``. The server's pattern has ``:-_`` inside a
character class, which makes it a range. The server therefore also accepts ``; < = > ? @ [ \ ] ^ _``. Of
these, only ``_`` was intended. Clusters use ``_``, and `PORTABLE_PATTERN` allows it. The server refuses
``readonly`` in upper or lower case, because a directory among the registrations has that name. Ids are
compared exactly as they are written.

A client finds a bookie as follows (Java: ``DefaultBookieAddressResolver``):

    registration of the bookie          address of the bookie
    ----------------------------------  --------------------------------------------------------
    with a bookie-rpc endpoint          the host and port of its first bookie-rpc endpoint
    with other endpoints only           none
    without data (before 4.11)          its id, read as host:port; none for a custom id
    with unreadable data                none, as if it were not registered
    none                                none, even if its id is an address
    none, and its id ends with :0       its id: placement policies use such ids to stand for a host

    client that ignores registrations   its id, read as host:port; none for a custom id

The last line applies to a client with ``bookieAddressResolverEnabled=false``, and to any client of etcd.
The etcd driver (as of 4.17) stores no endpoints, and resolves every id to itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

ACCEPTED_PATTERN = r"[a-zA-Z0-9:-_.\-]+"
"""Regular expression of ``BookieId.validateBookieId``, which the whole id must match in Python as in Java."""

PORTABLE_PATTERN = r"[a-zA-Z0-9:_.\-]+"
"""Pattern of the ids that BP-41 allows, with ``_`` added."""

RESERVED_PATTERN = r"(?i:readonly)"
"""Pattern of the ids that the server refuses although `ACCEPTED_PATTERN` matches them."""

_ACCEPTED_ID = re.compile(ACCEPTED_PATTERN)
_RESERVED_ID = re.compile(RESERVED_PATTERN)
_PORT_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


def is_accepted(id: str) -> bool:
    """Return whether BookKeeper's ``BookieId.parse`` accepts an id.

    BookKeeper refuses a ledger if its ensembles contain an id that is not accepted.

    >>> is_accepted("bk1:3181"), is_accepted("[::1]:3181"), is_accepted("ReadOnly"), is_accepted("a b")
    (True, True, False, False)
    """
    return _ACCEPTED_ID.fullmatch(id) is not None and _RESERVED_ID.fullmatch(id) is None


def legacy_address(id: str) -> tuple[str, int] | None:
    """Return the host and port in an id, or None for a custom id.

    Before BP-41, every id had the form host:port. Like the server, the function ignores parts after the
    port, and accepts any 32-bit number as a port.

    >>> legacy_address("bk1:3181"), legacy_address("bookie-7"), legacy_address("::1:3181")
    (('bk1', 3181), None, None)
    """
    host, separator, port_and_rest = id.partition(":")
    port = port_and_rest.partition(":")[0]
    if not separator or _PORT_NUMBER.fullmatch(port) is None or not -(2**31) <= int(port) < 2**31:
        return None
    return host, int(port)


BOOKIE_RPC = "bookie-rpc"


class EndpointLike(Protocol):
    """The attributes of an endpoint that `resolve_address` uses.

    `auditor.codecs.store.service_info.Endpoint` has these attributes.
    """

    @property
    def host(self) -> str: ...  # noqa: D102
    @property
    def port(self) -> int: ...  # noqa: D102
    @property
    def protocol(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Registration:
    """A bookie's registration.

    ``endpoints`` is None if the registration contains no data at all. ``damage`` is the reason why the data
    cannot be read, or None if it can be read.
    """

    endpoints: Sequence[EndpointLike] | None
    damage: str | None = None


class NoAddressReason(StrEnum):
    """Reason why a client cannot find a bookie."""

    NOT_REGISTERED = "not-registered"
    NO_RPC_ENDPOINT = "no-rpc-endpoint"
    NO_ADDRESS = "no-address"  # the id is not host:port
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a bookie.

    ``is_from_id`` is True if the address was parsed from the bookie's id. It is False if the address comes
    from the bookie's registration.
    """

    host: str
    port: int
    is_from_id: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnresolvedBookie:
    """A bookie without an address. Clients fail on it with BookieIdNotResolvedException."""

    reason_kind: NoAddressReason
    reason: str


def resolve_address(
    bookie_id: str, registration: Registration | None, *, reads_registrations: bool = True
) -> Address | UnresolvedBookie:
    """Return the address at which a client looks for a bookie.

    If a bookie has a writable and a read-only registration, clients use the writable one.

    >>> str(resolve_address("bk1:3181", Registration(None)))
    'bk1:3181'
    >>> resolve_address("bk1:3181", None).reason_kind.value
    'not-registered'
    >>> str(resolve_address("bk1:3181", None, reads_registrations=False))
    'bk1:3181'

    Args:
        bookie_id: id of the bookie.
        registration: the bookie's registration, or None if it is not registered.
        reads_registrations: whether the client reads registrations at all.
    """
    if not reads_registrations:
        return _address_from_id(bookie_id, "and clients know the bookie only by its id")
    if registration is not None and registration.damage is None:
        if registration.endpoints is None:
            return _address_from_id(bookie_id, "and the bookie registered no endpoint")
        for endpoint in registration.endpoints:
            if endpoint.protocol == BOOKIE_RPC:
                return Address(endpoint.host, endpoint.port, is_from_id=False)
        protocols = ", ".join(sorted({endpoint.protocol for endpoint in registration.endpoints})) or "none"
        reason = f"{bookie_id} registered no {BOOKIE_RPC} endpoint (endpoints: {protocols})"
        return UnresolvedBookie(NoAddressReason.NO_RPC_ENDPOINT, reason)
    if bookie_id.endswith(":0"):
        return _address_from_id(bookie_id, "and port 0 stands for a host, not for a bookie")
    if registration is not None:
        reason = f"the registration of {bookie_id} cannot be read: {registration.damage}"
        return UnresolvedBookie(NoAddressReason.UNREADABLE, reason)
    return UnresolvedBookie(NoAddressReason.NOT_REGISTERED, f"{bookie_id} is not registered")


def _address_from_id(bookie_id: str, id_note: str) -> Address | UnresolvedBookie:
    address = legacy_address(bookie_id)
    if address is None:
        return UnresolvedBookie(NoAddressReason.NO_ADDRESS, f"{bookie_id} is not an address, {id_note}")
    return Address(*address, is_from_id=True)
