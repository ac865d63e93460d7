"""The values of the ledger owners of a real Pulsar 4.2.4, and how Pulsar's own classes read them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

_TESTS = Path(__file__).parents[2]


def values() -> dict[str, bytes]:
    """Return the non-empty values below /managed-ledgers and /schemas, by path."""
    packed = (_TESTS / "codecs" / "data" / "pulsar-values.json.gz").read_bytes()
    return {path: bytes.fromhex(value) for path, value in json.loads(gzip.decompress(packed)).items()}


def oracle() -> dict[str, Any]:
    """Return Pulsar's own answers about the values, and the planted faults."""
    packed = (_TESTS / "data" / "pulsar-a" / "oracle.json.gz").read_bytes()
    answers: dict[str, Any] = json.loads(gzip.decompress(packed))
    return answers


def topic_path(topic: str) -> str:
    """Return the path where a broker keeps ``persistent://tenant/namespace/name`` (Java: ``URLEncoder``)."""
    tenant, namespace, local = topic.removeprefix("persistent://").split("/", 2)
    name = quote_plus(local, safe="*").replace("~", "%7E")
    return f"managed-ledgers/{tenant}/{namespace}/persistent/{name}"
