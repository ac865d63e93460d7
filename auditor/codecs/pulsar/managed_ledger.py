"""The ledgers of a topic, or of one partition: the value of its znode below ``/managed-ledgers``.

    PulsarManagedLedgerInfo (schemas/pulsar_managed_ledger.proto), plain or compressed
    (`auditor.codecs.pulsar.compression`); no bytes at all: a topic whose first ledger is not listed yet

The open ledger is the last one; it has neither entries nor size, and 0 or nothing for its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import (
    PulsarLedgerInfo,
    PulsarManagedLedgerInfo,
    PulsarOffloadContext,
)
from auditor.codecs.pulsar.compression import UNCOMPRESSED, parse

WHAT = "Pulsar managed ledger"

SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
"""The property of a shadow topic that names the topic whose ledgers it borrows."""


class Position(NamedTuple):
    """An entry of a ledger; entry -1 lies before the first."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class Offload:
    """How far the copy of a ledger in an object store is.

    ``uid`` names the objects (``UID-ledger-ID``), None where no copy was ever begun. ``complete``: the copy
    is whole; ``bookkeeper_deleted``: the ledger was given up for it. ``timestamp`` is in ms. Of the driver's
    properties the bucket alone is kept.
    """

    uid: str | None
    complete: bool
    bookkeeper_deleted: bool
    timestamp: int | None = None
    driver: str | None = None
    bucket: str | None = None
    segments: int = 0


class ListedLedger(NamedTuple):
    """One ledger of a topic; ``entries``, ``size`` and ``timestamp`` (bytes, ms) are None of the open one."""

    ledger_id: int
    entries: int | None = None
    size: int | None = None
    timestamp: int | None = None
    offload: Offload | None = None


@dataclass(frozen=True, slots=True)
class ManagedLedger:
    """What is known of a topic: its ledgers, oldest first, and where it was terminated, if it was."""

    ledgers: tuple[ListedLedger, ...] = ()
    terminated: Position | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    compression: str = UNCOMPRESSED

    @property
    def shadow_source(self) -> str | None:
        """The topic that the ledgers are borrowed from; None where they are its own."""
        return self.properties.get(SHADOW_SOURCE)


def decode(data: bytes) -> ManagedLedger:
    """Read the value of a topic's znode. Raises `DecodeError`.

    >>> decode(bytes.fromhex("0a0408031000")).ledgers
    (ListedLedger(ledger_id=3, entries=0, size=None, timestamp=None, offload=None),)
    """
    message, compression = parse(PulsarManagedLedgerInfo, data, WHAT)
    ended = message.terminatedPosition if message.HasField("terminatedPosition") else None
    return ManagedLedger(
        tuple(_ledger(info) for info in message.ledgerInfo),
        Position(ended.ledgerId, ended.entryId) if ended is not None else None,
        {text(item.key): text(item.value) for item in message.properties},
        compression,
    )


def text(data: bytes) -> str:
    """A text of a message; bytes that are none are kept as escapes.

    >>> text(b"a\\xff")
    'a\\\\xff'
    """
    return data.decode("utf-8", "backslashreplace")


def _ledger(info: PulsarLedgerInfo) -> ListedLedger:
    return ListedLedger(
        info.ledgerId,
        info.entries if info.HasField("entries") else None,
        info.size if info.HasField("size") else None,
        # The open ledger has 0, or nothing: neither is a time.
        info.timestamp or None,
        _offload(info.offloadContext) if info.HasField("offloadContext") else None,
    )


def _offload(context: PulsarOffloadContext) -> Offload:
    driver = context.driverMetadata if context.HasField("driverMetadata") else None
    buckets = [text(item.value) for item in driver.properties if item.key == b"bucket"] if driver else []
    begun = context.uidMsb or context.uidLsb
    # Two signed longs, as Java's UUID has them, are one number of 128 bits.
    uid = UUID(int=(context.uidMsb % 2**64) << 64 | context.uidLsb % 2**64)
    return Offload(
        str(uid) if begun else None,
        context.complete,
        context.bookkeeperDeleted,
        context.timestamp or None,
        text(driver.name) if driver else None,
        buckets[0] if buckets else None,
        len(context.offloadSegment),
    )
