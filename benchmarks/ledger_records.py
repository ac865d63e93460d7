"""Ledger metadata like those of a Pulsar cluster, from a fixed random seed.

The module can also write the metadata as a ZooKeeper snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.proto import serialize_length_prefixed

from auditor.codecs.ledger_metadata.one import MAGIC
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.keys.ledger_tree import LayoutKind, to_path
from benchmarks import snapshot_file
from benchmarks.snapshot_file import record

RANDOM_SEED = 34
BOOKIE_IDS = [f"bookie-{number}.svc:3181" for number in range(500)]
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2
MAX_ENTRIES = 50_000
ROOT = "/ledgers"
LAYOUT = LayoutKind.HIERARCHICAL

_LAYOUT_DATA = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"


def make_messages(count: int) -> list[LedgerMetadataFormat]:
    """Return the metadata of closed ledgers on 3 of 500 bookies each, with Pulsar's custom metadata.

    Half of the ledgers had one bookie replaced and therefore have two segments.
    """
    random_generator = random.Random(RANDOM_SEED)
    records = []
    for number in range(count):
        entries = random_generator.randrange(2, MAX_ENTRIES)
        *ensemble, replacement_bookie = random_generator.sample(BOOKIE_IDS, ENSEMBLE + 1)
        message = LedgerMetadataFormat(
            quorumSize=WRITE_QUORUM,
            ensembleSize=ENSEMBLE,
            ackQuorumSize=ACK_QUORUM,
            length=entries * 1024,
            lastEntryId=entries - 1,
            state=LedgerMetadataFormat.CLOSED,
            digestType=LedgerMetadataFormat.CRC32C,
            password=b"",
        )
        message.segment.add(firstEntryId=0, ensembleMember=ensemble)
        if number % 2:
            ensemble[random_generator.randrange(ENSEMBLE)] = replacement_bookie
            message.segment.add(firstEntryId=random_generator.randrange(1, entries), ensembleMember=ensemble)
        for metadata_key, metadata_value in (
            ("application", b"pulsar"),
            ("component", b"managed-ledger"),
            ("pulsar/managed-ledger", b"public/default/persistent/topic-%d" % (number % 1000)),
        ):
            message.customMetadata.add(key=metadata_key, value=metadata_value)
        records.append(message)
    return records


def encode_binary(message: LedgerMetadataFormat) -> bytes:
    """Encode ledger metadata in format 3."""
    message_body = BytesIO()
    serialize_length_prefixed(message, message_body)
    return MAGIC + b"3\n" + message_body.getvalue()


def encode_text(message: LedgerMetadataFormat) -> bytes:
    """Encode ledger metadata in format 2, with the server's layout of lines."""
    return MAGIC + b"2\n" + text_format.MessageToString(message).encode()


def encode_lines(message: LedgerMetadataFormat) -> bytes:
    """Encode ledger metadata in format 1, which has no custom metadata."""
    header_lines = [f"{message.quorumSize}", f"{message.ensembleSize}", f"{message.length}"]
    segments = [
        f"{segment.firstEntryId}\t" + "\t".join(segment.ensembleMember) for segment in message.segment
    ]
    return MAGIC + b"1\n" + "\n".join([*header_lines, *segments, f"{message.lastEntryId}\tCLOSED"]).encode()


def write_snapshot(directory: Path, encoded_records: Sequence[bytes]) -> Path:
    """Write a ZooKeeper snapshot of a cluster with these ledgers, with ids from 0; return its path."""
    inner_paths: dict[str, None] = {}
    ledger_znodes = []
    for ledger, metadata_value in enumerate(encoded_records):
        path = f"{ROOT}/{to_path(LAYOUT, ledger)}"
        inner_paths.update(dict.fromkeys((path.rsplit("/", 2)[0], path.rsplit("/", 1)[0])))
        ledger_znodes.append((path, metadata_value))
    root_znodes = [("", b""), (ROOT, b""), (f"{ROOT}/LAYOUT", _LAYOUT_DATA), (f"{ROOT}/INSTANCEID", b"1")]
    znodes = (*root_znodes, *((path, b"") for path in inner_paths), *ledger_znodes)
    return snapshot_file.write(directory / "snapshot.1", (record(path, data) for path, data in znodes))
