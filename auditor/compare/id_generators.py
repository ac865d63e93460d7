"""Comparison of id generators: whether the copy's generator can issue a ledger id that is already in use.

If a store was copied without its id generator, the generator of the copy starts again at the first id. It
then issues the ids of existing ledgers a second time, and bookies may still store entries of those ledgers.
The counters of the two stores are not compared with each other, because they change all the time. Instead,
the next id of the copy is compared with the ids that are in use.
"""

from collections.abc import Sequence
from typing import NamedTuple

from auditor.compare.store_side import StoreSide
from auditor.model.comparison import CopyState, StoreItem
from auditor.model.states import LISTED
from auditor.spark import functions as F
from auditor.spark.types import Column
from auditor.tables.claims import application_of
from auditor.tables.cluster_state import IdRange, find_id_ranges
from auditor.tables.id_generators import GENERATED_ID_APPLICATIONS

_BUCKET_BITS = 56
"""Lowest bit of an id's top byte. etcd has one id generator for each value of this byte (EtcdIdGenerator)."""
_GENERATOR_PATH = "idgen"


class GeneratorDifference(NamedTuple):
    """Result of comparing the id generators of two stores.

    ``row`` is a row of `STORE_DIFFERENCES` if the copy's generator could issue an id that is already in
    use. Otherwise it is None. ``note`` is the reason why the generators were not compared, or None if they
    were.
    """

    row: tuple[object, ...] | None = None
    note: str | None = None


def compare_generators(source: StoreSide, copy: StoreSide) -> GeneratorDifference:
    """Compare the next ids of the copy's generators with the ledger ids in use in either store.

    The function runs one query. It ignores ids that an application chose itself. An id counts as issued by
    a generator in two cases. (1) The source's generator is past the id. (2) The ledger belongs to an
    application that never chooses ids.
    """
    source_ranges = find_id_ranges(source.nodes, source.layout)
    # Read a running copy's generator after its ledgers. It is then past the ids of ledgers created meanwhile.
    ledgers = copy.read_ledgers().select("scope_id", "status", "ledger_id", "custom_metadata")
    ledgers = ledgers.unionByName(
        source.read_ledgers().select("scope_id", "status", "ledger_id", "custom_metadata")
    )
    nodes = copy.store.cluster() if copy.live else copy.nodes
    copy_ranges = find_id_ranges(nodes, copy.layout)
    if not copy_ranges:
        return GeneratorDifference(
            note="copy: id generator not compared, because the copy does not show the next id"
        )
    takes_generated_ids = application_of(F.col("custom_metadata")).isin(*GENERATED_ID_APPLICATIONS)
    is_issued_id = F.coalesce(takes_generated_ids, F.lit(False))
    if source_ranges:
        is_issued_id |= F.col("ledger_id") < _next_id_column(source_ranges)
    ledgers_ahead = ledgers.where((F.col("scope_id") == 0) & F.col("status").isin(*LISTED) & is_issued_id)
    ledgers_ahead = ledgers_ahead.withColumn("next", _next_id_column(copy_ranges)).where("ledger_id >= next")
    row = ledgers_ahead.agg(F.max(F.struct("ledger_id", "next")).alias("highest")).first()
    if row is None or row["highest"] is None:
        return GeneratorDifference()
    ledger_id, next_id = row["highest"]
    field_texts = [f"the copy's next id is {next_id}, but ledger {ledger_id} is in use"]
    item_text, change_text = str(StoreItem.ID_GENERATOR), str(CopyState.DIFFERENT)
    return GeneratorDifference(
        (item_text, change_text, None, None, _GENERATOR_PATH, field_texts, None, None, None)
    )


def _next_id_column(id_ranges: Sequence[IdRange]) -> Column:
    """Return a column with the next id of the generator that covers each row's ``ledger_id``.

    etcd has one generator for each value of an id's top byte. Other stores have a single generator.
    """
    if len(id_ranges) == 1:
        return F.lit(id_ranges[0].next)
    bucket_entries = [
        F.lit(map_part)
        for generator in id_ranges
        for map_part in (generator.low >> _BUCKET_BITS, generator.next)
    ]
    id_bucket = F.shiftrightunsigned("ledger_id", _BUCKET_BITS).cast("long")
    return F.create_map(*bucket_entries)[id_bucket]
