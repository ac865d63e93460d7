"""The addresses of a registered bookie (BP-38), from the value of ``available/<id>`` in binary protobuf.

Bookies before 4.11, and all bookies on etcd, register without data. Then the bookie's id is its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.codecs.ledger_metadata.message import text
from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.errors import RuleError
from auditor.model.bookie_id import legacy_address

FORMAT_NAME = "service info"
BOOKIE_RPC = "bookie-rpc"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a bookie. ``id`` is the name that distinguishes it from the bookie's other addresses."""

    id: str
    host: str
    port: int
    protocol: str
    auth: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """All addresses that a bookie registered, and its properties."""

    endpoints: tuple[Endpoint, ...]
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


def decode(data: bytes, bookie_id: str) -> ServiceInfo:
    """Read the service info that the bookie ``bookie_id`` registered.

    If there is no data, the id is used as the address. Raises `DecodeError` if the data is damaged. Raises
    `RuleError` (``endpoint-missing``) if there is no data and the id is not an address.

    >>> decode(b"", "bk1:3181").endpoints[0]
    Endpoint(id='bk1:3181', host='bk1', port=3181, protocol='bookie-rpc', auth=(), extensions=())
    """
    if not data:
        address = legacy_address(bookie_id)
        if address is None:
            reason = f"{bookie_id[:120]!r} registered no endpoint, and its id is not an address"
            raise RuleError(FORMAT_NAME, "endpoint-missing", reason, ServiceInfo(()))
        return ServiceInfo((Endpoint(bookie_id, *address, BOOKIE_RPC),))
    message = proto_wire.parse(BookieServiceInfoFormat, data, FORMAT_NAME)
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
