"""Results of the bookkeeper-server 4.17.2 classes for metadata, paths, cookies, ids and layouts."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from auditor.model.ledger_metadata import LedgerMetadata

Vector = dict[str, Any]

_FILE = Path(__file__).parent / "data" / "metadata-vectors.json.gz"
_CORPORA = Path(__file__).parents[1] / "data"


@cache
def _load() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(_FILE.read_bytes()))
    return loaded


def vectors(part: str) -> list[Vector]:
    """Return one part: metadata, metadataCorrupt, paths, cookies, bookieIds, socketAddresses or layouts."""
    cases: list[Vector] = _load()[part]
    return cases


def bytes_of(vector: Vector) -> bytes:
    return base64.b64decode(vector["bytesBase64"])


def expected(decoded: Vector) -> Vector:
    """Return the values that Java read, without the password (never kept) and the id (not in the bytes)."""
    return {key: value for key, value in decoded.items() if key not in ("password", "ledgerId")}


def described(metadata: LedgerMetadata) -> Vector:
    """Return decoded metadata with the field names of the vectors."""
    return {
        "metadataFormatVersion": metadata.format_version,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorumSize": metadata.write_quorum,
        "ackQuorumSize": metadata.ack_quorum,
        "state": str(metadata.state),
        "closed": metadata.state == "CLOSED",
        "lastEntryId": metadata.last_entry_id,
        "length": metadata.length,
        "hasPassword": metadata.has_password,
        "digestType": metadata.digest_type,
        "ctime": -1 if metadata.ctime is None else metadata.ctime,
        "cToken": metadata.ctoken,
        "customMetadata": {
            key: base64.b64encode(value).decode() for key, value in metadata.custom_metadata.items()
        },
        "segments": [
            {"firstEntryId": segment.first_entry_id, "ensemble": list(segment.ensemble)}
            for segment in metadata.segments
        ],
    }


def corpus_ledgers(corpus: str) -> list[tuple[str, bytes, int, Vector]]:
    """Return every ledger of a corpus: path below the root, bytes, the store's ctime, and Java's decoding."""
    oracle = json.loads(gzip.decompress((_CORPORA / corpus / "oracle.json.gz").read_bytes()))
    lines = gzip.decompress((_CORPORA / corpus / "metadata.jsonl.gz").read_bytes()).splitlines()
    nodes = {node["path"].removeprefix("/ledgers/"): node for node in map(json.loads, lines)}
    by_id = {int(id): ledger["decoded"] for id, ledger in oracle["ledgers"].items() if "decoded" in ledger}
    ledgers = []
    for rel, node in nodes.items():
        name = rel.rpartition("/")[2]
        digits = "".join(character for character in rel if character.isdigit())
        if name.startswith("L") and name != "LAYOUT" and int(digits) in by_id:
            decoded = by_id[int(digits)]
            ledgers.append((rel, base64.b64decode(node["data"]), node["ctime"], decoded))
    return ledgers
