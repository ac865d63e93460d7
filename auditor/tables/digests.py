"""digests: whether the digests of sampled entries are right, and which copies of the same entry differ.

The reader of the entries checked each entry against every digest type
(`auditor.sources.bookies.entry_logs.whole_entries`). The ledger's metadata names the ledger's type, except
in metadata of format 1. For such a ledger, a digest that matches any type is right. If none matches, the
type is unknown, and the digest may be right or wrong.

An HMAC that does not match is wrong only if another entry of the ledger matches under the same password.
Otherwise the password may belong to a different ledger. The master key of a ledger in a bookie's index is
checked in the same way. Without a password, the key that most of the ledger's bookies have counts as right.
"""

from collections.abc import Callable

import pyarrow as pa

from auditor.codecs.bookie.entry import DIGEST_BYTES
from auditor.model.columns import LEDGER, make_schema
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import DigestState, UncheckedReason
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame

DIGESTS = make_schema(
    ("bookie_id", pa.string(), "the bookie that holds the copy"),
    ("logger", pa.int32(), "number of the entry logger that wrote the log, as in the table entry_logs"),
    ("log_id", pa.int64(), "id of the entry log that contains the entry"),
    ("entry_offset", pa.int64(), "byte offset at which the entry begins in the log"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    (
        "ledger_id",
        pa.int64(),
        "the ledger; null: the row only counts sampled entries of a bookie that were not read",
    ),
    ("entry_id", pa.int64(), "the entry"),
    ("entry_bytes", pa.int64(), "length of the entry in bytes, including header and digest"),
    ("digest_type", pa.string(), "CRC32, CRC32C, MAC or DUMMY; null: not known"),
    ("state", pa.string(), "result of the digest check: right, wrong or not-checked"),
    (
        "reason",
        pa.string(),
        "reason why the digest was not checked. budget: --digest-budget was used up. log: the log is "
        "unreadable. other-entry: the log has a different entry at this offset. metadata: no such ledger, "
        "or its metadata is unreadable. type: the digest type is unknown. dummy: the entry has no digest. "
        "no-password: no password is known. other-password: the password may belong to another ledger",
    ),
    (
        "there_ledger_id",
        pa.int64(),
        "for the reason other-entry: the ledger of the entry that is at this offset; null: no entry is there",
    ),
    (
        "there_entry_id",
        pa.int64(),
        "for the reason other-entry: the id of the entry that is at this offset",
    ),
    ("payload_bytes", pa.int64(), "length of the payload in bytes; null: the digest type is not known"),
    (
        "payload_crc32c",
        pa.int64(),
        "CRC-32C of the payload, without header and digest; the same for all intact copies of an entry",
    ),
    (
        "comparable",
        pa.bool_(),
        "whether this copy can be compared with other copies: the bookie is in an ensemble of the ledger, "
        "and the entry is not beyond the ledger's end",
    ),
    (
        "entries",
        pa.int64(),
        "number of entries that the row stands for: 1, or the number of unread entries if ledger_id is null",
    ),
    (
        "master_key",
        pa.string(),
        "verdict on the ledger's master key in the bookie's index: right, wrong, or differs (it is "
        "unknown which bookie is right). The key is compared with the password, or else with the key "
        "on most of the ledger's bookies. null: no key is known, or there is nothing to compare it "
        "with",
    ),
)
"""The table ``digests``."""


def digests(whole_entries: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return the rows of `DIGESTS`, made from rows of `WHOLE_ENTRIES` and the table ``ledgers``."""
    identified_ledgers = ledgers.where(F.col("ledger_id").isNotNull()).select(
        *LEDGER,
        "digest_type",
        F.when(F.col("state") == LedgerState.CLOSED, F.col("last_entry_id")).alias("end"),
        F.coalesce(F.transform("replicas", lambda replica: replica["bookie_id"]), F.array()).alias("members"),
        F.col("state").isNotNull().alias("listed"),
    )
    # If two metadata records claim the same ledger, nothing is known about its entries.
    facts_by_ledger = identified_ledgers.groupBy(*LEDGER).agg(
        F.first("digest_type").alias("said"),
        F.first("end").alias("end"),
        F.first("members").alias("members"),
        ((F.count("*") == 1) & F.first("listed")).alias("listed"),
    )
    rows = whole_entries.join(facts_by_ledger, [*LEDGER], "left").withColumn(
        "listed", F.coalesce("listed", F.lit(False))
    )
    ledger_window = F.Window.partitionBy(*LEDGER)
    # A password is known to be right if an entry or a master key of the ledger matches it.
    is_password_known = F.max(
        F.greatest(F.coalesce("mac_right", F.lit(False)), F.coalesce("key_right", F.lit(False)))
    )
    # A worker that copies a ledger without a password in its metadata uses its own password.
    has_comparable_key = (
        F.col("listed") & F.col("said").isNotNull() & F.array_contains("members", F.col("bookie_id"))
    )
    has_comparable_key = has_comparable_key & F.col("key_tag").isNotNull()
    keys = F.collect_set(F.when(has_comparable_key, F.struct("bookie_id", "key_tag")))
    rows_with_type = rows.withColumns(
        {
            "master_keys": F.when(has_comparable_key, keys.over(ledger_window)["key_tag"]),
            "digest_type": _digest_type(),
            "password_known": is_password_known.over(ledger_window),
        }
    )
    digest_bytes = _select_by_type(lambda name: F.lit(DIGEST_BYTES[name]))
    payload_bytes = F.greatest(F.col("entry_bytes") - F.col("header_bytes") - digest_bytes, F.lit(0))
    checked_rows = rows_with_type.withColumn("reason", _not_checked_reason()).withColumn(
        "state", _digest_state()
    )
    return (
        checked_rows.withColumns(
            {
                "payload_bytes": payload_bytes.cast("long"),
                "payload_crc32c": _select_by_type(lambda name: F.col(f"payload_{name.lower()}")),
                "comparable": _is_comparable(),
            }
        )
        .withColumn("master_key", _master_key())
        .select(*DIGESTS.names)
    )


def differing_copies(digests: DataFrame) -> DataFrame:
    """Find sampled entries whose copies differ: ``scope_id``, ``ledger_id``, ``entry_id`` and ``copies``.

    ``copies`` has the distinct payloads of the entry, most frequent first. Each payload has the ``bookies``
    that hold it. Copies with a wrong digest are left out.
    """
    usable_rows = digests.where(
        (F.col("state") != DigestState.WRONG) & F.col("payload_crc32c").isNotNull() & F.col("comparable")
    )
    equal_copies = usable_rows.groupBy(*LEDGER, "entry_id", "payload_bytes", "payload_crc32c").agg(
        F.array_sort(F.collect_set("bookie_id")).alias("bookies")
    )
    copy_struct = F.struct(
        (-F.size("bookies")).alias("order"),
        "payload_bytes",
        F.lowercase_digits(F.lpad(F.hex("payload_crc32c"), 8, "0")).alias("payload_crc32c"),
        "bookies",
    )
    copies = equal_copies.groupBy(*LEDGER, "entry_id").agg(
        F.array_sort(F.collect_list(copy_struct)).alias("copies")
    )
    return copies.where(F.size("copies") > 1).withColumn(
        "copies",
        F.transform(
            "copies",
            lambda entry_copy: F.struct(
                *(entry_copy[name] for name in ("payload_bytes", "payload_crc32c", "bookies"))
            ),
        ),
    )


def _digest_type() -> Column:
    """Return the digest type in the ledger's metadata. Without it, return the type that the entry matches.

    The type is null if the metadata does not list the ledger, or if neither gives a type.
    """
    matching_copies = (
        F.when(F.col("crc32c_right"), "CRC32C")
        .when(F.col("crc32_right"), "CRC32")
        .when(F.col("mac_right"), "MAC")
    )
    return F.when(F.col("listed"), F.coalesce("said", matching_copies))


def _not_checked_reason() -> Column:
    is_mac_ledger = F.col("digest_type") == "MAC"
    refutes_password = ~F.col("mac_right") & ~F.col("password_known")
    return (
        F.when(F.col("reason").isNotNull(), F.col("reason"))
        .when(~F.col("listed"), UncheckedReason.METADATA)
        .when(F.col("digest_type").isNull(), UncheckedReason.TYPE)
        .when(F.col("digest_type") == "DUMMY", UncheckedReason.DUMMY)
        .when(is_mac_ledger & F.col("mac_right").isNull(), UncheckedReason.NO_PASSWORD)
        .when(is_mac_ledger & refutes_password, UncheckedReason.OTHER_PASSWORD)
    )


def _digest_state() -> Column:
    digest_matches = _select_by_type(
        lambda name: F.lit(None) if name == "DUMMY" else F.col(f"{name.lower()}_right")
    )
    return (
        F.when(F.col("reason").isNotNull(), DigestState.NOT_CHECKED)
        .when(digest_matches, DigestState.RIGHT)
        .otherwise(DigestState.WRONG)
    )


def _master_key() -> Column:
    def equal_tag_count(key_tag: Column) -> Column:
        return F.size(F.filter("master_keys", lambda other_key_tag: other_key_tag == key_tag))

    bookies = F.size("master_keys")
    is_majority_tag = F.exists(
        "master_keys", lambda other_key_tag: equal_tag_count(other_key_tag) * 2 > bookies
    )
    return (
        F.when(F.col("master_keys").isNull(), None)
        .when(F.col("password_known"), F.when(F.col("key_right"), "right").otherwise("wrong"))
        .when(bookies < 2, None)
        .when(equal_tag_count(F.col("key_tag")) * 2 > bookies, "right")
        .when(is_majority_tag, "wrong")
        .otherwise("differs")
    )


def _is_comparable() -> Column:
    is_member = F.array_contains("members", F.col("bookie_id"))
    is_before_end = F.col("end").isNull() | (F.col("entry_id") <= F.col("end"))
    return F.coalesce(is_member & is_before_end, F.lit(False))


def _select_by_type(column_of_type: Callable[[str], Column]) -> Column:
    """Return the column that ``column_of_type`` gives for a row's digest type.

    It is null if the digest type is unknown.
    """
    return F.coalesce(*(F.when(F.col("digest_type") == name, column_of_type(name)) for name in DIGEST_BYTES))
