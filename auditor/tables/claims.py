"""The owner (such as a topic) that a ledger's custom metadata claims: its znode and namespace.

Pulsar writes this custom metadata. The component in it determines the owner's znode:

    component              the owner's znode, below the root of its store
    managed-ledger         /managed-ledgers/ + pulsar/managed-ledger [+ / + pulsar/cursor]
    schema                 /schemas/ + pulsar/schemaId
    compacted-ledger       the topic's znode (pulsar/compactedTopic) + /__compaction
    delayed-index-bucket   the topic's znode (pulsar/delayedIndexTopic) + / + pulsar/delayedIndexCursor

For the first two components, Pulsar stores names in the same form as in their paths. For the last two, this
module encodes full topic names, and the cursors of buckets, as Java does (`auditor.keys.pulsar`). The custom
metadata does not name a store. So two Pulsar clusters with the same namespaces write the same claims.
"""

from collections.abc import Mapping

from auditor.keys.pulsar import MANAGED_LEDGERS, SCHEMAS
from auditor.spark import functions as F
from auditor.spark.types import Column

_FULL_NAME = "^([a-z]+)://([^/]+)/([^/]+)/(.+)$"


def application_of(custom_metadata: Column) -> Column:
    """Return the application that a ledger's custom metadata names as its writer, or null."""
    return _text_of_bytes(custom_metadata, "application")


def claim_of(custom_metadata: Column) -> Column:
    """Return the znode of the owner that a ledger's custom metadata names, or null if it names no owner."""
    component_name = _text_of_bytes(custom_metadata, "component")
    cursor = F.concat(F.lit("/"), _text_of_bytes(custom_metadata, "pulsar/cursor"))
    managed_ledger_path = F.concat(
        F.lit(f"/{MANAGED_LEDGERS}/"),
        _text_of_bytes(custom_metadata, "pulsar/managed-ledger"),
        F.coalesce(cursor, F.lit("")),
    )
    schema_path = F.concat(F.lit(f"/{SCHEMAS}/"), _text_of_bytes(custom_metadata, "pulsar/schemaId"))
    compacted_ledger_path = F.concat(
        _topic_path(_text_of_bytes(custom_metadata, "pulsar/compactedTopic")), F.lit("/__compaction")
    )
    cursor_name = _text_of_bytes(custom_metadata, "pulsar/delayedIndexCursor")
    # Brokers store the cursor name encoded or not. An encoded name has % or +.
    encoded_cursor_name = F.when(cursor_name.rlike("[%+]"), cursor_name).otherwise(F.url_encode(cursor_name))
    bucket_path = F.concat(
        _topic_path(_text_of_bytes(custom_metadata, "pulsar/delayedIndexTopic")),
        F.lit("/"),
        encoded_cursor_name,
    )
    return (
        F.when(component_name == "managed-ledger", managed_ledger_path)
        .when(component_name == "schema", schema_path)
        .when(component_name == "compacted-ledger", compacted_ledger_path)
        .when(component_name == "delayed-index-bucket", bucket_path)
    )


def namespace_of(path: Column) -> Column:
    """Return ``tenant/namespace`` of a path below Pulsar's root, or null if the path has none.

    V1 names have a cluster between tenant and namespace. The result omits this cluster. For schemas of V1
    names the result is null.
    """
    path_levels = F.split(path, "/", 7)
    tree_name, tenant = F.try_element_at(path_levels, F.lit(2)), F.try_element_at(path_levels, F.lit(3))
    level_name = {level: F.try_element_at(path_levels, F.lit(level)) for level in (4, 5, 6)}
    topic_namespace = F.when(level_name[5].isin("persistent", "segment"), level_name[4]).when(
        level_name[6] == "persistent", level_name[5]
    )
    namespace = F.when(tree_name == SCHEMAS, level_name[4]).when(
        tree_name == MANAGED_LEDGERS, topic_namespace
    )
    return F.concat(tenant, F.lit("/"), namespace)


def path_below_root(chroots: Mapping[str, str]) -> Column:
    """Return the column ``path`` without the chroot of its store.

    ``chroots`` maps values of the column ``store`` to chroots.
    """
    path = F.col("path")
    path_below_store = path
    for store, chroot in chroots.items():
        if chroot:
            path_below_store = F.when(
                F.col("store") == store, F.expr(f"substring(path, {len(chroot) + 1})")
            ).otherwise(path_below_store)
    return path_below_store


def _topic_path(name: Column) -> Column:
    """Return the path of a topic from its full name, or null if the text has a different form."""
    name_parts = [F.regexp_extract(name, _FULL_NAME, group_number) for group_number in (2, 3, 1)]
    local_name = F.url_encode(F.regexp_extract(name, _FULL_NAME, 4))
    path = F.concat_ws("/", F.lit(f"/{MANAGED_LEDGERS}"), *name_parts, local_name)
    return F.when(name.rlike(_FULL_NAME), path)


def _text_of_bytes(custom_metadata: Column, metadata_key: str) -> Column:
    # Any client may write any bytes there. Bytes that are not text give null.
    return F.try_validate_utf8(F.try_element_at(custom_metadata, F.lit(metadata_key)).cast("string"))
