"""Comparison of id generators: whether the copy's generator can give out an id that is in use.

A generator that is behind gives out the id of an existing ledger again. The counters of both stores
are not compared with each other, because they change all the time. But if a store was copied without
its generator, the copy begins to count anew. It then gives out ids of existing ledgers again, and
bookies may still have entries of these ledgers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from auditor.compare.store_side import StoreSide
from auditor.model.comparison import CopyState, StoreItem
from auditor.model.states import LISTED
from auditor.spark import functions as F
from auditor.spark.types import Column
from auditor.tables.claims import application_of
from auditor.tables.cluster_state import IdRange, ids_drawn
from auditor.tables.id_generators import GENERATED_ID_APPLICATIONS

_BUCKET_BITS = 56
"""Lowest bit of an id's top byte. etcd has one id generator for each value of this byte (EtcdIdGenerator)."""
_PATH = "idgen"


class GeneratorDifference(NamedTuple):
    """The result of comparing the generators.

    ``row`` is a row of `STORE_DIFFERENCES` if the copy's generator is behind, else None. ``note`` is the
    reason why the generators were not compared; None if they were.
    """

    row: tuple[object, ...] | None = None
    note: str | None = None


def compare_generators(source: StoreSide, copy: StoreSide) -> GeneratorDifference:
    """Compare the next ids of the copy with the ids of ledgers in either store. Runs one query.

    Only ids that a generator gave out count. An id counts if the source's generator is past it, or if the
    ledger belongs to an application that never chooses ids itself.
    """
    drawn_ids = ids_drawn(source.nodes, source.layout)
    # Read a running copy's generator after its ledgers: a ledger created meanwhile has an id below it.
    ledgers = copy.ledgers().select("scope_id", "status", "ledger_id", "custom_metadata")
    ledgers = ledgers.unionByName(
        source.ledgers().select("scope_id", "status", "ledger_id", "custom_metadata")
    )
    nodes = copy.store.cluster() if copy.live else copy.nodes
    next_ids = ids_drawn(nodes, copy.layout)
    if not next_ids:
        return GeneratorDifference(note="copy: id generator not compared; it does not show its next id")
    is_drawing_application = application_of(F.col("custom_metadata")).isin(*GENERATED_ID_APPLICATIONS)
    is_drawn_id = F.coalesce(is_drawing_application, F.lit(False))
    if drawn_ids:
        is_drawn_id |= F.col("ledger_id") < _next_id(drawn_ids)
    ledgers_ahead = ledgers.where((F.col("scope_id") == 0) & F.col("status").isin(*LISTED) & is_drawn_id)
    ledgers_ahead = ledgers_ahead.withColumn("next", _next_id(next_ids)).where("ledger_id >= next")
    row = ledgers_ahead.agg(F.max(F.struct("ledger_id", "next")).alias("highest")).first()
    if row is None or row["highest"] is None:
        return GeneratorDifference()
    ledger_id, next_id = row["highest"]
    fields = [f"the copy's next id is {next_id}, but ledger {ledger_id} is in use"]
    store_item, change = str(StoreItem.ID_GENERATOR), str(CopyState.DIFFERENT)
    return GeneratorDifference((store_item, change, None, None, _PATH, fields, None, None, None))


def _next_id(ids: Sequence[IdRange]) -> Column:
    """Return a column with the next id of the generator that is responsible for each ``ledger_id``."""
    if len(ids) == 1:
        return F.lit(ids[0].next)
    bucket_entries = [
        F.lit(part) for generator in ids for part in (generator.low >> _BUCKET_BITS, generator.next)
    ]
    bucket = F.shiftrightunsigned("ledger_id", _BUCKET_BITS).cast("long")
    return F.create_map(*bucket_entries)[bucket]
