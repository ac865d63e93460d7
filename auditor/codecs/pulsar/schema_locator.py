"""The ledger of each version of a topic's schema, from the value of its znode below ``/schemas``.

    PulsarSchemaLocator (schemas/pulsar_schema_storage.proto), never compressed

Each version is the only entry of a ledger. ``index`` contains all versions, including the newest. So a
topic owns all ledgers in ``index``, not only the ledger in ``info``.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.pulsar_schema_storage_pb2 import PulsarSchemaIndexEntry, PulsarSchemaLocator

FORMAT_NAME = "Pulsar schema locator"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a schema, and the entry that contains it. ``hash`` is the schema's hash in hexadecimal."""

    version: int
    ledger_id: int
    entry_id: int
    hash: str


@dataclass(frozen=True, slots=True)
class SchemaLocator:
    """All versions of a schema, in the order of the locator, and the newest version."""

    newest: SchemaVersion
    versions: tuple[SchemaVersion, ...]


def decode(data: bytes) -> SchemaLocator:
    """Read the value of a schema's znode. Raises `DecodeError` if it is damaged.

    >>> decode(bytes.fromhex("0a0a080012040804" "10001a00" "120a08001204080410001a00")).versions
    (SchemaVersion(version=0, ledger_id=4, entry_id=0, hash=''),)
    """
    message = proto_wire.parse(PulsarSchemaLocator, data, FORMAT_NAME)
    return SchemaLocator(_version(message.info), tuple(map(_version, message.index)))


def _version(entry: PulsarSchemaIndexEntry) -> SchemaVersion:
    return SchemaVersion(entry.version, entry.position.ledgerId, entry.position.entryId, entry.hash.hex())
