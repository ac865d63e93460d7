"""The protobuf message that formats 2 and 3 of ledger metadata share, and how BookKeeper interprets it."""

from __future__ import annotations

from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.model.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState, Segment

STATES = {
    LedgerMetadataFormat.OPEN: LedgerState.OPEN,
    LedgerMetadataFormat.IN_RECOVERY: LedgerState.IN_RECOVERY,
    LedgerMetadataFormat.CLOSED: LedgerState.CLOSED,
}
# The message says HMAC where the API says MAC.
DIGESTS = {
    LedgerMetadataFormat.CRC32: "CRC32",
    LedgerMetadataFormat.HMAC: "MAC",
    LedgerMetadataFormat.CRC32C: "CRC32C",
    LedgerMetadataFormat.DUMMY: "DUMMY",
}


def text(value: str | bytes) -> str:
    """Return a string of a message, with bytes that are not UTF-8 replaced as in the server.

    >>> text("bk1:3181"), text(b"bk\\xff")
    ('bk1:3181', 'bk�')
    """
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def interpret(version: int, message: LedgerMetadataFormat, store_ctime: int | None) -> LedgerMetadata:
    """Convert a complete message to ledger metadata (Java: ``LedgerMetadataSerDe.decode``).

    Length and last entry are used only for a closed ledger. The digest type is used only if there is a
    password. A password without a digest type means CRC32. ``store_ctime`` is the creation time in the
    store, in ms, or None if unknown. It is used if the message itself contains no creation time.
    """
    state = STATES[message.state]
    is_closed = state is LedgerState.CLOSED
    has_password = message.HasField("password")
    return LedgerMetadata(
        format_version=version,
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
        state=state,
        length=message.length if is_closed else 0,
        last_entry_id=message.lastEntryId if is_closed else NO_ENTRY,
        segments=tuple(
            Segment(segment.firstEntryId, tuple(map(text, segment.ensembleMember)))
            for segment in message.segment
        ),
        digest_type=DIGESTS[message.digestType] if has_password else None,
        ctime=message.ctime if message.HasField("ctime") else store_ctime,
        ctoken=message.cToken,
        custom_metadata={text(custom_item.key): custom_item.value for custom_item in message.customMetadata},
        has_password=has_password,
    )
