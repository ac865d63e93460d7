"""What Pulsar writes of its topics, as ``bkaudit decode`` shows it: with ids of ledgers as text.

They exceed what JSON numbers hold. `auditor.cli.kinds` names the functions.
"""

from __future__ import annotations

from typing import Any

from auditor.cli.plain import jsonable
from auditor.codecs.pulsar import log_segment, managed_cursor, managed_ledger, schema_locator

_IDS = ("ledger_id", "compacted_ledger")


def decode_managed_ledger(data: bytes) -> Any:
    """The ledgers of a topic, or of one partition."""
    return _ids_as_text(jsonable(managed_ledger.decode(data)))


def decode_cursor(data: bytes) -> Any:
    """A cursor's znode, with the compacted ledger that it names, if it does."""
    cursor = managed_cursor.decode(data)
    buckets = {name: str(ledger) for name, ledger in cursor.buckets.items()}
    shown = {**jsonable(cursor), "buckets": buckets, "compacted_ledger": cursor.compacted_ledger}
    return _ids_as_text(shown)


def decode_cursor_position(data: bytes) -> Any:
    """An entry of a cursor's ledger, with the compacted ledger that it names, if it does."""
    position = managed_cursor.decode_position(data)
    return _ids_as_text({**jsonable(position), "compacted_ledger": position.compacted_ledger})


def decode_schema_locator(data: bytes) -> Any:
    """The versions of a topic's schema."""
    return _ids_as_text(jsonable(schema_locator.decode(data)))


def decode_log_segment(data: bytes) -> Any:
    """A segment of a DistributedLog."""
    return _ids_as_text(jsonable(log_segment.decode(data)))


def decode_log_allocation(data: bytes) -> Any:
    """The ledger that a DistributedLog has made in advance."""
    return _ids_as_text({"ledger_id": log_segment.decode_allocation(data)})


def _ids_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: str(item) if key in _IDS and item is not None else _ids_as_text(item)
            for key, item in value.items()
        }
    return [_ids_as_text(item) for item in value] if isinstance(value, list) else value
