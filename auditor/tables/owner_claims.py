"""Whose a ledger says it is: the znode of its owner, from the custom metadata that the application wrote.

    component              the owner's znode
    managed-ledger         /managed-ledgers/ + pulsar/managed-ledger [+ / + pulsar/cursor]
    schema                 /schemas/ + pulsar/schemaId
    compacted-ledger       the topic's (pulsar/compactedTopic) + /__compaction
    delayed-index-bucket   the topic's (pulsar/delayedIndexTopic) + / + pulsar/delayedIndexCursor

The first two are kept as their paths have them; full names of topics, and cursors of buckets, are encoded
here as Java does (`auditor.keys.pulsar`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.keys.pulsar import MANAGED_LEDGERS, SCHEMAS
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_FULL_NAME = "^([a-z]+)://([^/]+)/([^/]+)/(.+)$"


def application_of(custom: Column) -> Column:
    """The application that wrote a ledger's custom metadata; null where none says."""
    return _text(custom, "application")


def claim_of(custom: Column, chroot: str = "") -> Column:
    """The znode of the owner that a ledger's custom metadata names; null where it names none."""
    component = _text(custom, "component")
    cursor = F.concat(F.lit("/"), _text(custom, "pulsar/cursor"))
    managed = F.concat(
        F.lit(f"{chroot}/{MANAGED_LEDGERS}/"),
        _text(custom, "pulsar/managed-ledger"),
        F.coalesce(cursor, F.lit("")),
    )
    schema = F.concat(F.lit(f"{chroot}/{SCHEMAS}/"), _text(custom, "pulsar/schemaId"))
    compacted = F.concat(_topic(_text(custom, "pulsar/compactedTopic"), chroot), F.lit("/__compaction"))
    reader = _text(custom, "pulsar/delayedIndexCursor")
    # Brokers keep the name as they have it; one that is encoded already has one of these.
    encoded = F.when(reader.rlike("[%+]"), reader).otherwise(F.url_encode(reader))
    bucket = F.concat(_topic(_text(custom, "pulsar/delayedIndexTopic"), chroot), F.lit("/"), encoded)
    return (
        F.when(component == "managed-ledger", managed)
        .when(component == "schema", schema)
        .when(component == "compacted-ledger", compacted)
        .when(component == "delayed-index-bucket", bucket)
    )


def _topic(name: Column, chroot: str) -> Column:
    """The path of a topic by its full name; null of another text."""
    parts = [F.regexp_extract(name, _FULL_NAME, group) for group in (2, 3, 1)]
    local = F.url_encode(F.regexp_extract(name, _FULL_NAME, 4))
    path = F.concat_ws("/", F.lit(f"{chroot}/{MANAGED_LEDGERS}"), *parts, local)
    return F.when(name.rlike(_FULL_NAME), path)


def _text(custom: Column, key: str) -> Column:
    # Anybody may write anything there: what is not text says nothing.
    return F.try_validate_utf8(F.try_element_at(custom, F.lit(key)).cast("string"))
