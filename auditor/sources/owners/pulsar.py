"""Pulsar's owners: topics, subscriptions, schemas, and the logs of its function packages.

The kinds of references, and where each kind comes from:

    data             the list of a topic's ledgers; borrowed if the topic is a shadow topic
    cursor           a subscription; if it has no ledger, the row has no ledger either
    delayed-bucket   properties of a subscription
    compacted        a property of the subscription ``__compaction``. If the subscription has a cursor
                     ledger, the last entry of that ledger may have a newer reference
    schema           every version of a schema
    log-segment, log-allocation   the znodes of a DistributedLog
"""

from __future__ import annotations

from auditor.codecs.pulsar import log_segment, managed_cursor, managed_ledger, schema_locator
from auditor.codecs.pulsar.managed_ledger import ListedLedger, Offload
from auditor.keys.pulsar import Names, NodeKind, names_of
from auditor.sources.owners.applications import OffloadState, Owner, OwnerKind, OwnerNames, Reference

COMPACTION = "__compaction"


def read_owner(path: str, data: bytes) -> Owner | None:
    """Decode one znode of Pulsar. ``path`` is relative to Pulsar's root.

    >>> owner = read_owner("managed-ledgers/shop/orders/persistent/a/sub", bytes.fromhex("08071005"))
    >>> owner.names.cursor, owner.references[0].ledger_id
    ('sub', 7)

    Returns:
        The owner (such as a topic) that the znode describes. None for a znode that holds no reference.

    Raises:
        DecodeError: the value is damaged.
        ValueError: the path does not fit any known layout.
    """
    names = names_of(path)
    if names.kind is NodeKind.INNER:
        return None
    if names.kind is NodeKind.UNKNOWN:
        raise ValueError("not the path of a topic, subscription or schema")
    owner = OwnerNames(names.tenant, names.namespace, names.topic, names.cursor)
    if names.kind is NodeKind.TOPIC:
        return _decode_topic(owner, data)
    if names.kind is NodeKind.CURSOR:
        return _decode_cursor(owner, names, data)
    if names.kind is NodeKind.SCHEMA:
        return _decode_schema(owner, data)
    if names.kind is NodeKind.LOG_SEGMENT:
        return Owner(owner, (Reference(OwnerKind.LOG_SEGMENT, log_segment.decode(data).ledger_id),))
    return Owner(owner, (Reference(OwnerKind.LOG_ALLOCATION, log_segment.decode_allocation(data)),))


def _decode_topic(owner: OwnerNames, data: bytes) -> Owner:
    topic = managed_ledger.decode(data)
    is_borrowed, ledger_count = topic.shadow_source is not None, len(topic.ledgers)
    listed_references = tuple(
        _reference(ledger, list_position, ledger_count, is_borrowed=is_borrowed)
        for list_position, ledger in enumerate(topic.ledgers)
    )
    return Owner(owner, listed_references or (Reference(OwnerKind.DATA, None),), None, topic.compression)


def _reference(
    ledger: ListedLedger, list_position: int, ledger_count: int, *, is_borrowed: bool
) -> Reference:
    offload = ledger.offload
    return Reference(
        OwnerKind.DATA,
        ledger.ledger_id,
        list_position,
        ledger_count,
        ledger.entries,
        ledger.size,
        ledger.timestamp,
        _offload_state(offload) if offload else None,
        offload.uid if offload else None,
        offload.timestamp if offload else None,
        is_borrowed,
    )


def _offload_state(offload: Offload) -> OffloadState | None:
    if offload.complete:
        return OffloadState.DELETED if offload.bookkeeper_deleted else OffloadState.COMPLETE
    # Segments of a streaming offload alone do not count: no broker deletes a ledger because of them.
    return OffloadState.INCOMPLETE if offload.uid else None


def _decode_cursor(owner: OwnerNames, names: Names, data: bytes) -> Owner:
    cursor = managed_cursor.decode(data)
    references = [Reference(OwnerKind.CURSOR, cursor.ledger_id)]
    references += [
        Reference(OwnerKind.DELAYED_BUCKET, ledger_id, detail=name)
        for name, ledger_id in cursor.buckets.items()
    ]
    if names.cursor == COMPACTION and (cursor.compacted_ledger is not None or cursor.ledger_id is not None):
        may_be_stale = cursor.ledger_id is not None
        references.append(Reference(OwnerKind.COMPACTED, cursor.compacted_ledger, stale=may_be_stale))
    return Owner(owner, tuple(references), cursor.mark_delete, cursor.compression)


def _decode_schema(owner: OwnerNames, data: bytes) -> Owner:
    schema_locator_record = schema_locator.decode(data)
    versions_by_number = {
        version.version: version
        for version in (*schema_locator_record.versions, schema_locator_record.newest)
    }
    references = tuple(
        Reference(OwnerKind.SCHEMA, version.ledger_id, detail=str(version.version))
        for version in versions_by_number.values()
        if version.ledger_id >= 0
    )
    return Owner(owner, references or (Reference(OwnerKind.SCHEMA, None),))
