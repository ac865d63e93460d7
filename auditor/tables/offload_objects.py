"""offload_objects: copies of ledgers in an object store, from the topics' lists and the bucket's inventory.

    UUID-ledger-ID          the data of ledger ID; UUID is the one in its offload context
    UUID-ledger-ID-index    the positions of the ledger's entries in the data

A path may precede these names. Objects of streaming offloads (``UUID``, ``UUID-index``) name no ledger.
They are left out, like all other objects in the bucket. Source: DataBlockUtils of Pulsar's tiered storage.
"""

import pyarrow as pa

from auditor.model.columns import LEDGER, OWNER, make_schema
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

OFFLOAD_OBJECTS = make_schema(
    ("uid", pa.string(), "UUID in the names of the objects and in the offload context"),
    ("scope_id", pa.int64(), "always 0, because applications use no scopes"),
    ("ledger_id", pa.int64(), "the offloaded ledger"),
    ("objects", pa.int64(), "number of objects of this copy in the listing"),
    ("bytes", pa.int64(), "total size of the copy's objects in bytes"),
    ("has_data", pa.bool_(), "whether the listing contains the data object of the copy"),
    ("has_index", pa.bool_(), "whether the listing contains the index object of the copy"),
    ("fault", pa.string(), "fault of the copy: object-orphan or offload-object-missing; null: no fault"),
    ("why", pa.string(), "reason why the fault is unconfirmed; null: no reason"),
    (
        "application",
        pa.string(),
        "application that owns the ledger; null: no offload context mentions the copy",
    ),
    ("kind", pa.string(), "data"),
    ("tenant", pa.string(), "tenant"),
    ("namespace", pa.string(), "namespace"),
    ("topic", pa.string(), "local name of the topic"),
    (
        "cursor",
        pa.string(),
        "cursor to which the offloaded ledger belongs; null: the ledger has a topic's data",
    ),
    ("detail", pa.string(), "null"),
    ("path", pa.string(), "the topic's znode"),
    (
        "offload",
        pa.string(),
        "state of the offload: incomplete, complete, or deleted (the ledger was deleted from BookKeeper)",
    ),
    ("offload_time", pa.int64(), "time when the offload began or was completed (ms since 1970, UTC)"),
)

_COPY_KEY = ("uid", *LEDGER)
ORPHAN_FAULT, MISSING_FAULT = "object-orphan", "offload-object-missing"
_NAME_PATTERN = (
    "^(?:.*/)?([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})-ledger-([0-9]{1,19})(-index)?$"
)


def offload_objects(listing: DataFrame, owners: DataFrame, grace_ms: int) -> DataFrame:
    """Return the rows of `OFFLOAD_OBJECTS`: every offload context with a UUID, and every listed copy.

    The age of the inventory is not known. The newest offload context with objects in the inventory serves
    as the reference context. The inventory is not older than this context.

    Args:
        listing: The bucket's inventory, with the columns name and bytes.
        owners: The table ``owners``.
        grace_ms: Time in ms. An object that the inventory lacks counts as absent only under one condition:
            its offload context must be older than the reference context by at least this time.
    """
    # A full join: a copy without a context wastes space, and a context without a copy is a loss.
    offload_copies = _listed_copies(listing).join(_contexts_by_copy(owners), [*_COPY_KEY], "full_outer")
    # An unreadable value may name any of the copies, so one value puts all copies without a context in doubt.
    unread_owners = owners.where("status != 'ok'").agg(
        F.min(F.concat("path", F.lit(": "), "damage")).alias("unread")
    )
    newest_listed_offload = offload_copies.where("has_data and has_index").agg(
        F.max("offload_time").alias("reached")
    )
    offload_copies = offload_copies.crossJoin(F.broadcast(unread_owners)).crossJoin(
        F.broadcast(newest_listed_offload)
    )
    is_complete = F.coalesce(F.col("has_data") & F.col("has_index"), F.lit(False))
    object_fault = F.when(F.col("path").isNull(), ORPHAN_FAULT).when(
        F.col("offload").isin("complete", "deleted") & ~is_complete, MISSING_FAULT
    )
    # An offload without a time never counts as old, because the listing may be older.
    is_older_than_listing = F.coalesce(F.col("offload_time") <= F.col("reached") - grace_ms, F.lit(False))
    unread_reason = F.when((F.col("fault") == ORPHAN_FAULT) & F.col("unread").isNotNull(), F.col("unread"))
    unread_reason = unread_reason.when(
        (F.col("fault") == MISSING_FAULT) & ~is_older_than_listing, "the listing may be older than the copy"
    )
    offload_copies = offload_copies.withColumn("fault", object_fault).withColumn("why", unread_reason)
    offload_copies = offload_copies.fillna(0, ["objects", "bytes"]).fillna(False, ["has_data", "has_index"])
    return offload_copies.select(*OFFLOAD_OBJECTS.names)


def _listed_copies(listing: DataFrame) -> DataFrame:
    """Return one row for each copy in the listing."""
    name_columns = {
        column_name: F.regexp_extract("name", _NAME_PATTERN, group_number)
        for group_number, column_name in enumerate(("uid", "ledger", "index"), 1)
    }
    rows = listing.withColumns(name_columns).where("uid != ''")
    # Java writes UUIDs in lower case; try_cast, since 19 digits may be more than a ledger id can be.
    uid, ledger_id = F.lowercase_digits("uid"), F.expr("try_cast(ledger as bigint)")
    rows = rows.withColumns({"uid": uid, "ledger_id": ledger_id})
    rows = rows.withColumn("scope_id", F.lit(0).cast("bigint"))
    is_index = F.col("index") != ""
    return (
        rows.where("ledger_id is not null")
        .groupBy(*_COPY_KEY)
        .agg(
            F.count("*").alias("objects"),
            F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
            F.max(~is_index).alias("has_data"),
            F.max(is_index).alias("has_index"),
        )
    )


def _contexts_by_copy(owners: DataFrame) -> DataFrame:
    """Return one row for each copy that an offload context names.

    References of shadow topics are left out, because their copies belong to the source topics.
    """
    rows = owners.where("status = 'ok' and offload is not null and offload_uid is not null and not borrowed")
    rows = rows.withColumn("scope_id", F.lit(0).cast("bigint"))
    first_owner = F.min(
        F.struct(
            "path",
            "offload",
            "offload_time",
            *(column_name for column_name in OWNER if column_name != "path"),
        )
    )
    references_by_object = rows.groupBy(F.lowercase_digits("offload_uid").alias("uid"), *LEDGER).agg(
        first_owner.alias("one")
    )
    return references_by_object.select(*_COPY_KEY, "one.*")
