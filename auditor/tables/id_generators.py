"""id_generators: the next id of each id generator, and the ids in use that are not below it.

If a generator's next id is too low, it gives out an id again. Bookies may still have entries of a deleted
ledger with that id. They then serve these entries as entries of the new ledger.
ScanAndCompareGarbageCollector keeps the old entries, because the store lists the id again.

An application may choose its ids itself (createLedgerAdv with an id). Three facts show whether a generator
gave out an id or an application chose it. (1) The custom metadata names the application that wrote the
ledger, and some applications take every id from the generator. (2) If an id is outside the range that the
cluster's generator can give out, an application chose it. (3) Ids from a generator are close together.
"""

from collections.abc import Sequence

import pyarrow as pa

from auditor.model.columns import make_schema
from auditor.model.ledger_id import LayoutKind
from auditor.model.states import LISTED
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame
from auditor.spark.types import DataFrame
from auditor.tables.claims import application_of
from auditor.tables.cluster_state import IdRange

ID_GENERATORS = make_schema(
    ("low", pa.int64(), "lowest id that the generator can give out"),
    ("high", pa.int64(), "highest id that the generator can give out in its current form"),
    ("next", pa.int64(), "next id that the generator will give out"),
    (
        "listed",
        pa.int64(),
        "number of ledgers that the metadata lists with ids from next to high, without those created during "
        "the scan",
    ),
    ("listed_highest", pa.int64(), "highest id of the ledgers counted in listed; null: there are none"),
    (
        "drawn",
        pa.int64(),
        "number of the ledgers counted in listed that belong to applications that never choose ids "
        "themselves",
    ),
    ("chosen", pa.int64(), "number of listed ledgers with ids above high, which an application chose itself"),
    (
        "held",
        pa.int64(),
        "number of ledgers that have no metadata and an id from next on, on the bookie with most of them",
    ),
    (
        "held_highest",
        pa.int64(),
        "highest id, on any bookie, of a ledger that has no metadata and an id from next on; null: none",
    ),
)

GENERATED_ID_APPLICATIONS = ("pulsar",)
"""Applications that take the ids of all their ledgers from BookKeeper's generator.

Pulsar's ManagedLedgerImpl and BookkeeperSchemaStorage call asyncCreateLedger, which takes no id.
"""

_MAX_31_BIT_ID = (1 << 31) - 1
"""Greatest id of ZkLedgerIdGenerator (31 bits).

LongZkLedgerIdGenerator gives out higher ids, with znodes below idgen-long.
"""


def highest_generated_id(id_range: IdRange, layout: LayoutKind) -> int:
    """Return the greatest id that a generator can give out before BookKeeper's 64-bit generator takes over.

    >>> highest_generated_id(IdRange(0, 2**63 - 1, 70), LayoutKind.HIERARCHICAL)
    2147483647
    """
    is_31_bit = layout is not LayoutKind.ETCD and id_range.next <= _MAX_31_BIT_ID
    return min(id_range.high, _MAX_31_BIT_ID) if is_31_bit else id_range.high


def id_generators(
    ledgers: DataFrame,
    unissued_ids: DataFrame,
    id_ranges: Sequence[IdRange],
    layout: LayoutKind,
    scan_time: int,
) -> DataFrame:
    """Return the rows of `ID_GENERATORS`, one per generator.

    Args:
        ledgers: The table ``ledgers``.
        unissued_ids: The table ``undrawn``: by bookie, unlisted ledgers whose ids no generator has given
            out.
        id_ranges: The id ranges of the store's generators (`find_id_ranges`).
        layout: The layout of ledgers in the store.
        scan_time: Time at which the store's own znodes were read, in ms. A dump does not show a single
            point in time: a ledger created after that time may have an id above the count of the generator.
    """
    columns_by_name = {
        "low": [generator.low for generator in id_ranges],
        "high": [highest_generated_id(generator, layout) for generator in id_ranges],
        "next": [generator.next for generator in id_ranges],
        "end": [generator.high for generator in id_ranges],
    }
    range_table = pa.table(
        {
            column_name: pa.array(column_values, pa.int64())
            for column_name, column_values in columns_by_name.items()
        }
    )
    generators = F.broadcast(arrow_frame(ledgers.sparkSession, range_table))
    is_unissued_id = (F.col("ledger_id") >= F.col("next")) & (F.col("ledger_id") <= F.col("end"))
    is_listed_before_scan = F.col("status").isin(*LISTED) & (F.coalesce("ctime", F.lit(0)) < scan_time)
    is_within_range = F.col("ledger_id") <= F.col("high")
    has_generated_id = F.coalesce(
        application_of(F.col("custom_metadata")).isin(*GENERATED_ID_APPLICATIONS), F.lit(False)
    )
    listed_ledgers = (
        ledgers.where((F.col("scope_id") == 0) & is_listed_before_scan)
        .select("ledger_id", has_generated_id.alias("is_drawn"))
        .join(generators, is_unissued_id)
        .groupBy("low")
        .agg(
            F.count_if(is_within_range).alias("listed"),
            F.max(F.when(is_within_range, F.col("ledger_id"))).alias("listed_highest"),
            F.count_if(is_within_range & F.col("is_drawn")).alias("drawn"),
            F.count_if(~is_within_range).alias("chosen"),
        )
    )
    is_of_generator = (F.col("highest") >= F.col("low")) & (F.col("highest") <= F.col("end"))
    unissued_counts = (
        unissued_ids.select("undrawn", "highest")
        .join(generators, is_of_generator)
        .groupBy("low")
        .agg(F.max("undrawn").alias("held"), F.max("highest").alias("held_highest"))
    )
    generator_counts = generators.join(listed_ledgers, "low", "left").join(unissued_counts, "low", "left")
    return generator_counts.fillna(0, ["listed", "drawn", "chosen", "held"]).select(*ID_GENERATORS.names)
