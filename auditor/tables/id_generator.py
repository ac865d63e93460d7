"""How far the store's own id generator is: which ids it has given out, and which it has not.

    <root>/idgen                 one child was made and deleted for each id: the next id is their count
    <root>/idgen-long/HOB-n      beyond 31 bits: the next id is n << 32 | their count; the highest n counts
    buckets/<b> (etcd)           b << 56 | n, where n is how often the key was written: the first id has n = 1

A store that is older than the data on its bookies (a restored backup), or another cluster's, has given out
fewer ids than bookies hold ledgers of. The flat layout counts by its root, with all other znodes: that is not
looked at. Source: ZkLedgerIdGenerator, LongZkLedgerIdGenerator, EtcdIdGenerator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from auditor.keys import etcd
from auditor.keys.ledger_tree import MAX_LEDGER_ID
from auditor.model.columns import schema_of
from auditor.model.layout import LayoutKind
from auditor.sources.metadata.store import UNCOUNTED, ClusterNodes
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame
from auditor.spark.types import DataFrame

GENERATORS = ("idgen", "idgen-long", "ms-idgen", "buckets")
_HOB = re.compile(r"idgen-long/HOB-([0-9]{10})")
_LOW_BITS = 32
_BUCKET_BITS = 56
_NEXT = pa.schema([("generator", pa.int64()), ("next", pa.int64())])


class Ids(NamedTuple):
    """The ids ``low`` to ``high``: those below ``next`` were given out by a generator, the others not."""

    low: int
    high: int
    next: int


def ids_drawn(cluster: ClusterNodes, layout: LayoutKind) -> tuple[Ids, ...]:
    """What the generators of a store say; empty where they do not say it.

    >>> from auditor.sources.metadata.store import Znode
    >>> idgen = Znode("/ledgers/idgen", b"", 1, 1, 5, 5, 0, 0, made=70)
    >>> ids_drawn(ClusterNodes({"idgen": idgen}, 5, "0x1"), LayoutKind.HIERARCHICAL)
    (Ids(low=0, high=9223372036854775807, next=70),)
    """
    if cluster.gaps:
        return ()  # what could not be read may be the generator
    if layout is LayoutKind.ETCD:
        return _buckets(cluster)
    if layout is LayoutKind.FLAT:
        return ()
    if "idgen-long" in cluster.nodes:
        drawn = _long(cluster)
    else:
        drawn = cluster.nodes["idgen"].made if "idgen" in cluster.nodes else UNCOUNTED
    return () if drawn == UNCOUNTED else (Ids(0, MAX_LEDGER_ID, drawn),)


def is_bare(cluster: ClusterNodes) -> bool:
    """Whether the store surely has neither a LAYOUT nor an id generator, as if no cluster had ever used it.

    >>> is_bare(ClusterNodes({}, 5, "0x1")), is_bare(ClusterNodes({}, 5, "0x1", (("/ledgers", "cut"),)))
    (True, False)
    """
    tops = {path.partition("/")[0] for path in cluster.nodes}
    return not cluster.gaps and tops.isdisjoint(("LAYOUT", *GENERATORS))


def _long(cluster: ClusterNodes) -> int:
    """The next id beyond 31 bits; `UNCOUNTED` where it is not known."""
    matches = ((path, _HOB.fullmatch(path)) for path in cluster.nodes)
    high = max(((int(match[1]), path) for path, match in matches if match), default=None)
    if high is None:
        return UNCOUNTED
    number, path = high
    made = cluster.nodes[path].made
    return UNCOUNTED if made == UNCOUNTED else number << _LOW_BITS | made


def _buckets(cluster: ClusterNodes) -> tuple[Ids, ...]:
    """One row a bucket; one that was never used has given out nothing."""
    ids = []
    for bucket in range(etcd.BUCKET_COUNT):
        node = cluster.nodes.get(f"{etcd.BUCKETS}/{bucket:03d}")
        if node is not None and node.made == UNCOUNTED:
            return ()
        low = bucket << _BUCKET_BITS
        ids.append(Ids(low, low + (1 << _BUCKET_BITS) - 1, low + (node.made if node else 0) + 1))
    return tuple(ids)


def find_undrawn(orphans: DataFrame, ledgers: DataFrame, ids: Sequence[Ids]) -> DataFrame:
    """Orphans whose ids the store's generator has not given out, by bookie: rows of `UNDRAWN`.

    Ids can also be chosen by hand. So none is here unless the store lists ledgers, all of them with ids that
    were given out, and its listing has no gap. An index that is newer than a saved scan says nothing.
    """
    spark = orphans.sparkSession
    rows = {"generator": list(range(len(ids))), "next": [each.next for each in ids]}
    generators = F.broadcast(arrow_frame(spark, pa.table(rows, _NEXT)))
    # The bucket is the top byte of the id, sign and all.
    which = F.lit(0) if len(ids) == 1 else F.shiftrightunsigned("ledger_id", _BUCKET_BITS)

    def with_next(rows: DataFrame) -> DataFrame:
        return (
            rows.where("scope_id = 0")
            .withColumn("generator", which.cast("long"))
            .join(generators, "generator")
        )

    above = F.col("ledger_id") >= F.col("next")
    listed = with_next(ledgers.where("ledger_id is not null")).agg(
        F.count("*").alias("listed"), F.count_if(above).alias("by_hand")
    )
    gaps = ledgers.where("status = 'gap'").agg(F.count("*").alias("gaps"))
    # One row, with or without what it says: where the generator is not believed, the join drops every bookie.
    believed = listed.crossJoin(gaps).where("listed > 0 and by_hand = 0 and gaps = 0")
    found = with_next(orphans.where("not in_m0 and not newer_than_scan")).where(above)
    by_bookie = found.groupBy("bookie_id").agg(
        F.count("*").alias("undrawn"), F.min("ledger_id").alias("lowest"), F.max("ledger_id").alias("highest")
    )
    return by_bookie.crossJoin(F.broadcast(believed)).select(*UNDRAWN.names)


UNDRAWN = schema_of(
    ("bookie_id", pa.string(), "a bookie that holds such orphans"),
    ("undrawn", pa.int64(), "ledgers without metadata whose ids the store's id generator has not given out"),
    ("lowest", pa.int64(), "the least of their ids"),
    ("highest", pa.int64(), "the greatest of their ids"),
)
