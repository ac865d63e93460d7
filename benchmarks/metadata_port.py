"""A snapshot reader ported literally from the server: one method per field, one object per record.

The benchmark `benchmarks.metadata` compares the auditor's reader with this one. This one makes no object
that it does not return.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auditor.codecs.ledger_metadata.one import MAGIC
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat

V3_HEADER = MAGIC + b"3\n"


@dataclass(slots=True)
class Stat:
    """The stat of a znode: everything that the server stores about the znode, except its data."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    pzxid: int


@dataclass(slots=True)
class Record:
    """A znode."""

    path: str
    data: bytes
    acl: int
    stat: Stat


@dataclass(slots=True)
class Ledger:
    """A ledger: its id, the version and the times of its znode, and the fields of its metadata."""

    id: int
    version: int
    ctime: int
    mtime: int
    state: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    length: int
    last_entry_id: int
    segments: list[tuple[int, list[str]]]
    custom_metadata: dict[str, bytes]


class JuteReader:
    """A reader like the server's ``InputArchive``."""

    def __init__(self, record_data: bytes) -> None:
        self.data = record_data
        self.offset = 0

    def read_int(self) -> int:
        start = self.offset
        self.offset = start + 4
        return int.from_bytes(self.data[start : start + 4], "big", signed=True)

    def read_long(self) -> int:
        start = self.offset
        self.offset = start + 8
        return int.from_bytes(self.data[start : start + 8], "big", signed=True)

    def read_buffer(self) -> bytes:
        length = self.read_int()
        start = self.offset
        self.offset = start + max(length, 0)
        return self.data[start : self.offset]

    def read_string(self) -> str:
        return self.read_buffer().decode()

    def read_stat(self) -> Stat:
        return Stat(
            self.read_long(),
            self.read_long(),
            self.read_long(),
            self.read_long(),
            self.read_int(),
            self.read_int(),
            self.read_int(),
            self.read_long(),
            self.read_long(),
        )

    def skip_header(self) -> None:
        """Skip the magic and version, the sessions, and the access control lists."""
        self.offset = 16  # magic, version and database id
        for _ in range(self.read_int()):
            self.offset += 12  # a session: its id (long) and timeout (int)
        for _ in range(self.read_int()):
            self.read_long()
            for _ in range(self.read_int()):
                self.read_int()
                self.read_string()
                self.read_string()


def read_records(file: Path) -> Iterator[Record]:
    """Yield every znode of a snapshot."""
    jute_reader = JuteReader(file.read_bytes())
    jute_reader.skip_header()
    while (path := jute_reader.read_string()) != "/":
        yield Record(path, jute_reader.read_buffer(), jute_reader.read_long(), jute_reader.read_stat())


def read_ledgers(file: Path, root: str) -> list[Ledger]:
    """Return every ledger of a snapshot with the hierarchical layout and metadata in format 3."""
    path_pattern = re.compile(re.escape(root) + r"/([0-9]{2})/([0-9]{4})/L([0-9]{4})")
    snapshot_ledgers = []
    for record in read_records(file):
        path_match = path_pattern.fullmatch(record.path)
        if path_match is not None:
            snapshot_ledgers.append(_ledger(int("".join(path_match.groups())), record))
    return snapshot_ledgers


def parse_message(record_data: bytes) -> LedgerMetadataFormat:
    """Parse the metadata of a ledger in format 3."""
    if not record_data.startswith(V3_HEADER):
        raise ValueError("another format")
    offset, bit_shift, message_bytes = len(V3_HEADER), 0, 0
    while True:
        length_byte = record_data[offset]
        message_bytes |= (length_byte & 0x7F) << bit_shift
        offset, bit_shift = offset + 1, bit_shift + 7
        if length_byte < 0x80:
            return LedgerMetadataFormat.FromString(record_data[offset : offset + message_bytes])


def _ledger(ledger_id: int, record: Record) -> Ledger:
    message = parse_message(record.data)
    return Ledger(
        ledger_id,
        record.stat.version,
        record.stat.ctime,
        record.stat.mtime,
        message.state,
        message.ensembleSize,
        message.quorumSize,
        message.ackQuorumSize,
        message.length,
        message.lastEntryId,
        [(segment.firstEntryId, list(segment.ensembleMember)) for segment in message.segment],
        {entry.key: entry.value for entry in message.customMetadata},
    )
