"""Paths of the znodes below Pulsar's root that refer to ledgers.

    managed-ledgers/T/NS/persistent/TOPIC[/CURSOR]             a topic, or one partition (NAME-partition-N)
    managed-ledgers/T/CLUSTER/NS/persistent/TOPIC[/CURSOR]     the same with V1 names, from old clusters
    managed-ledgers/T/NS/segment/TOPIC/SSSS-EEEE-ID[/CURSOR]   a segment of a scalable topic (Pulsar 5)
    schemas/T/NS/TOPIC                                         a schema; V1 names omit the cluster here
    pulsar/functions/LOG/IDENTIFIER/ledgers/SEGMENT            a segment of a DistributedLog
    pulsar/functions/LOG/IDENTIFIER/allocation                 a ledger that the log created in advance

T is a tenant and NS a namespace. Names of topics and cursors are encoded as by Java's URLEncoder: ``/`` as
``%2F``, and a space as ``+``. The position of the word ``persistent`` or ``segment`` determines the kind of
a path. The number of names in the path does not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote_plus

MANAGED_LEDGERS = "managed-ledgers"
SCHEMAS = "schemas"
FUNCTIONS = "pulsar/functions"

_PERSISTENT_DIRECTORY, _SEGMENT_DIRECTORY = "persistent", "segment"


class NodeKind(StrEnum):
    """Kind of a znode. `INNER` is a directory without content. `UNKNOWN` is a path with no known form."""

    INNER = "inner"
    TOPIC = "topic"
    CURSOR = "cursor"
    SCHEMA = "schema"
    LOG_SEGMENT = "log-segment"
    LOG_ALLOCATION = "log-allocation"
    UNKNOWN = "unknown"


class Names(NamedTuple):
    """The kind of a path, and the decoded names in it. A name is None if the path does not contain it.

    ``cluster`` is set only for V1 names. ``topic`` is the local name of a topic, including its partition or
    segment, or the name of a DistributedLog.
    """

    kind: NodeKind
    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    cursor: str | None = None
    cluster: str | None = None


def names_of(path: str) -> Names:
    """Return the names in the path of a znode below Pulsar's root.

    >>> names_of("managed-ledgers/shop/orders/persistent/a+b/sub%2Fone")[:5]
    (<NodeKind.CURSOR: 'cursor'>, 'shop', 'orders', 'a b', 'sub/one')
    >>> names_of("managed-ledgers/shop/east/orders/persistent/a").cluster
    'east'
    >>> names_of("schemas/shop/orders").kind
    <NodeKind.INNER: 'inner'>
    """
    if path == MANAGED_LEDGERS or path.startswith(f"{MANAGED_LEDGERS}/"):
        return _managed_names(path.split("/")[1:])
    if path == SCHEMAS or path.startswith(f"{SCHEMAS}/"):
        return _schema_names(path.split("/")[1:])
    if path == FUNCTIONS or path.startswith(f"{FUNCTIONS}/"):
        return _log_names(path.split("/")[2:])
    return Names(NodeKind.UNKNOWN)


def _managed_names(path_names: list[str]) -> Names:
    if len(path_names) > 2 and path_names[2] == _PERSISTENT_DIRECTORY:
        return _topic_names(path_names[:2], path_names[3:], None)
    if len(path_names) > 2 and path_names[2] == _SEGMENT_DIRECTORY:
        topic_parts = path_names[3:]
        topic_and_cursor_names = ["/".join(topic_parts[:2]), *topic_parts[2:]] if len(topic_parts) > 1 else []
        return _topic_names(path_names[:2], topic_and_cursor_names, None)
    if len(path_names) > 3 and path_names[3] == _PERSISTENT_DIRECTORY:
        return _topic_names([path_names[0], path_names[2]], path_names[4:], path_names[1])
    return Names(NodeKind.INNER if len(path_names) < 4 else NodeKind.UNKNOWN)


def _topic_names(tenant_names: list[str], names: list[str], cluster: str | None) -> Names:
    tenant, namespace = tenant_names
    decoded_topic_names = [unquote_plus(name) for name in names]
    if not decoded_topic_names:
        return Names(NodeKind.INNER, tenant, namespace, None, None, cluster)
    if len(decoded_topic_names) == 1:
        return Names(NodeKind.TOPIC, tenant, namespace, decoded_topic_names[0], None, cluster)
    kind = NodeKind.CURSOR if len(decoded_topic_names) == 2 else NodeKind.UNKNOWN
    return Names(kind, tenant, namespace, decoded_topic_names[0], decoded_topic_names[1], cluster)


def _schema_names(path_names: list[str]) -> Names:
    if len(path_names) < 3:
        return Names(NodeKind.INNER)
    kind = NodeKind.SCHEMA if len(path_names) == 3 else NodeKind.UNKNOWN
    return Names(kind, path_names[0], path_names[1], unquote_plus(path_names[2]))


def _log_names(path_names: list[str]) -> Names:
    name = unquote_plus(path_names[0]) if path_names else None
    if len(path_names) == 4 and path_names[2] == "ledgers":
        return Names(NodeKind.LOG_SEGMENT, topic=name)
    if len(path_names) == 3 and path_names[2] == "allocation":
        return Names(NodeKind.LOG_ALLOCATION, topic=name)
    return Names(NodeKind.INNER, topic=name)
