"""The values of the owners of a real Pulsar 4.2.4, and what its own classes read in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

_TESTS = Path(__file__).parents[2]


def values() -> dict[str, bytes]:
    """By path, below /managed-ledgers and /schemas, where the value is not empty."""
    packed = (_TESTS / "codecs" / "data" / "pulsar-values.json.gz").read_bytes()
    return {path: bytes.fromhex(value) for path, value in json.loads(gzip.decompress(packed)).items()}


def oracle() -> dict[str, Any]:
    """What Pulsar said of them, and which faults were planted."""
    packed = (_TESTS / "data" / "pulsar-a" / "oracle.json.gz").read_bytes()
    answers: dict[str, Any] = json.loads(gzip.decompress(packed))
    return answers


def topic_path(topic: str) -> str:
    """Where a broker keeps ``persistent://tenant/namespace/name`` (Java: ``URLEncoder``)."""
    tenant, namespace, local = topic.removeprefix("persistent://").split("/", 2)
    name = quote_plus(local, safe="*").replace("~", "%7E")
    return f"managed-ledgers/{tenant}/{namespace}/persistent/{name}"
