"""The position of a Pulsar subscription, from the cursor's znode and an entry of the cursor's ledger.

    znode     PulsarManagedCursorInfo (schemas/pulsar_managed_ledger.proto), plain or compressed
              (`auditor.codecs.pulsar.managed_ledger`); no bytes at all: a cursor that was never written
    entry     PulsarPositionInfo, never compressed; the last entry of the ledger counts

If a cursor has a ledger of its own, it writes its position there. The position in its znode is then older.
For a cursor without a ledger, ``cursorsLedgerId`` is -1, and the znode contains everything. After its
position, a cursor has ranges of acknowledged entries, which this module only counts. In the cursor's ledger,
they are stored as ranges or as bits (managedLedgerPersistIndividualAckAsLongArray). In the znode, they are
ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import (
    PulsarEntryBits,
    PulsarLongProperty,
    PulsarManagedCursorInfo,
    PulsarPositionInfo,
)
from auditor.codecs.pulsar.managed_ledger import UNCOMPRESSED, Position, parse, text
from auditor.errors import DecodeError

FORMAT_NAME = "Pulsar cursor"
POSITION_FORMAT_NAME = "Pulsar cursor position"

COMPACTED_LEDGER = "CompactedTopicLedger"
"""Property of the cursor ``__compaction`` with the id of the compacted ledger (``Compactor``)."""

BUCKET_PREFIX = "#pulsar.internal.delayed.bucket_"
"""Prefix of the cursor properties whose values are ids of delayed-delivery buckets, as decimal text."""

_NO_LEDGER = -1
_LEDGER_ID = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class ManagedCursor:
    """The content of a cursor's znode.

    ``ledger_id`` is the ledger that contains the cursor's newer positions, or None if there is no such
    ledger. ``buckets`` maps names of properties to ids of ledgers that store delayed messages.
    ``properties`` are the numbers stored with the position. ``holes`` is the number of acknowledged ranges
    of entries after the position. ``last_active`` is a time in ms.
    """

    ledger_id: int | None
    mark_delete: Position | None = None
    buckets: Mapping[str, int] = field(default_factory=dict, hash=False)
    properties: Mapping[str, int] = field(default_factory=dict, hash=False)
    holes: int = 0
    last_active: int | None = None
    compression: str = UNCOMPRESSED

    @property
    def compacted_ledger(self) -> int | None:
        """Return the compacted topic's ledger id from ``properties``, or None if it is not there."""
        return self.properties.get(COMPACTED_LEDGER)


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """One entry of a cursor's ledger: the position, and the properties stored with it."""

    mark_delete: Position
    properties: Mapping[str, int] = field(default_factory=dict, hash=False)
    holes: int = 0

    @property
    def compacted_ledger(self) -> int | None:
        """Return the compacted topic's ledger id from ``properties``, or None if it is not there."""
        return self.properties.get(COMPACTED_LEDGER)


def decode(data: bytes) -> ManagedCursor:
    """Read the value of a cursor's znode. Raises `DecodeError` if it is damaged.

    >>> decode(bytes.fromhex("0807100518ffffffffffffffffff01")).mark_delete
    Position(ledger_id=5, entry_id=-1)
    """
    if not data:
        return ManagedCursor(None)
    message, compression = parse(PulsarManagedCursorInfo, data, FORMAT_NAME)
    has_position = message.HasField("markDeleteLedgerId")
    return ManagedCursor(
        None if message.cursorsLedgerId == _NO_LEDGER else message.cursorsLedgerId,
        Position(message.markDeleteLedgerId, message.markDeleteEntryId) if has_position else None,
        dict(_find_bucket_ledgers(message)),
        _longs_by_name(message.properties),
        len(message.individualDeletedMessages),
        message.lastActive or None,
        compression,
    )


def decode_position(data: bytes) -> CursorPosition:
    """Read an entry of a cursor's ledger. Raises `DecodeError` if it is damaged.

    >>> decode_position(bytes.fromhex("08051003")).mark_delete
    Position(ledger_id=5, entry_id=3)
    """
    message = proto_wire.parse(PulsarPositionInfo, data, POSITION_FORMAT_NAME)
    return CursorPosition(
        Position(message.ledgerId, message.entryId),
        _longs_by_name(message.properties),
        len(message.individualDeletedMessages) + sum(map(_count_ranges, message.individualDeletedEntries)),
    )


def _longs_by_name(properties: Iterable[PulsarLongProperty]) -> dict[str, int]:
    return {text(long_property.name): long_property.value for long_property in properties}


def _count_ranges(entry_bits: PulsarEntryBits) -> int:
    """Return the number of ranges of consecutive acknowledged entries in a ledger.

    The bits in ``entry_bits`` flag the acknowledged entries.
    """
    bit_words = b"".join(bit_word.to_bytes(8, "little", signed=True) for bit_word in entry_bits.words)
    bits = int.from_bytes(bit_words, "little")
    return (bits & ~(bits << 1)).bit_count()


def _find_bucket_ledgers(message: PulsarManagedCursorInfo) -> Iterable[tuple[str, int]]:
    for cursor_property in message.cursorProperties:
        name, value = text(cursor_property.name), text(cursor_property.value)
        if not name.startswith(BUCKET_PREFIX):
            continue
        if not _LEDGER_ID.fullmatch(value):
            raise DecodeError(FORMAT_NAME, 0, f"{name} is {value[:40]!r}, which is not the id of a ledger")
        yield name, int(value)
