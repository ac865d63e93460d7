"""Results of the bookkeeper-server 4.17.2 classes for availability and striping."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "data" / "bp34-vectors.json.gz"


@cache
def _load() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(_FILE.read_bytes()))
    return loaded


def vectors(part: str) -> list[dict[str, Any]]:
    """Return one part of the vectors: "availability", "availabilityDecode" or "striping"."""
    cases: list[dict[str, Any]] = _load()[part]
    return cases


def bytes_of(vector: dict[str, Any]) -> bytes:
    if "bytesGz" in vector:
        return gzip.decompress(base64.b64decode(vector["bytesGz"]))
    return bytes.fromhex(vector["bytes"])


def entries_of(vector: dict[str, Any]) -> list[int]:
    """Return the encoded entry ids in their order; ``pattern`` is a list of [start, stop, step]."""
    if "pattern" in vector:
        return [entry for span in vector["pattern"] for entry in range(*span)]
    entries: list[int] = vector["entries"]
    return entries
