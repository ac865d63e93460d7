"""The addresses of a registered bookie (BP-38): the value of ``available/<id>``, binary protobuf.

Bookies before 4.11, and all bookies on etcd, register without data. The id of such a bookie is its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.codecs.ledger_metadata.message import text
from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.errors import RuleError
from auditor.model.bookie_id import legacy_address

WHAT = "service info"
BOOKIE_RPC = "bookie-rpc"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a bookie. ``id`` is the name of the address among the addresses of the bookie."""

    id: str
    host: str
    port: int
    protocol: str
    auth: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """All addresses that a bookie registered, with its properties."""

    endpoints: tuple[Endpoint, ...]
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


def decode(data: bytes, bookie_id: str) -> ServiceInfo:
    """Read the service info of the bookie ``bookie_id``. Without data, the id is the address.

    Raises `DecodeError` for broken bytes, and `RuleError` (``endpoint-missing``) if there is no data and the
    id is not an address.

    >>> decode(b"", "bk1:3181").endpoints[0]
    Endpoint(id='bk1:3181', host='bk1', port=3181, protocol='bookie-rpc', auth=(), extensions=())
    """
    if not data:
        address = legacy_address(bookie_id)
        if address is None:
            reason = f"{bookie_id[:120]!r} registered no endpoint and is not an address itself"
            raise RuleError(WHAT, "endpoint-missing", reason, ServiceInfo(()))
        return ServiceInfo((Endpoint(bookie_id, *address, BOOKIE_RPC),))
    message = proto_wire.parse(BookieServiceInfoFormat, data, WHAT)
    return ServiceInfo(
        tuple(
            Endpoint(
                text(endpoint.id),
                text(endpoint.host),
                endpoint.port,
                text(endpoint.protocol),
                tuple(text(auth) for auth in endpoint.auth),
                tuple(text(extension) for extension in endpoint.extensions),
            )
            for endpoint in message.endpoints
        ),
        dict(message.properties),
    )
