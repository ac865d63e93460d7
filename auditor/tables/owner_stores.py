"""owner_stores: one row per store of owners, and what it proves (`auditor.model.owner_scope`)."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from auditor.model.columns import schema_of
from auditor.model.owner_scope import DROPPED_MEMORY_MS
from auditor.sources.metadata.uri import SAVED
from auditor.sources.owners.applications import parse_owners_uri
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

OWNER_STORES = schema_of(
    ("source", pa.string(), "the store of owners, as --owners takes it"),
    ("kind", pa.string(), "owners"),
    ("scope_claimed", pa.string(), "what absence from it has to mean for a deletion"),
    ("scope_proved", pa.string(), "what absence from it does mean: scope_claimed where the set is complete"),
    ("proof", pa.string(), "what proves the proved scope"),
    ("as_of", pa.int64(), "the time of its data, ms; null: nothing says"),
    ("reason", pa.string(), "why the claimed scope is not proved; null: it is"),
    ("declared", pa.bool_(), "whether owners_complete names it"),
    ("listed_before", pa.int64(), "ledgers that an earlier run saw it name and that are still there"),
    ("dropped", pa.int64(), "of these, ledgers that no owner has named for a week or less"),
    ("gaps", pa.int64(), "places of it that could not be listed"),
    ("claims", pa.int64(), "of the set: ledgers whose custom metadata claim an owner"),
    ("foreign_claims", pa.int64(), "of the set: claims in a namespace that no store has"),
    ("unowned", pa.int64(), "of the set: ledgers that no owner names and that are not foreign"),
)


def list_counts(ownership: DataFrame, applications: Collection[str], scan_time: int) -> DataFrame:
    """Count per store: claims, foreign_claims, unowned, listed_before and dropped ledgers.

    Args:
        ownership: The table of this run.
        applications: Those whose owners were read.
        scan_time: The scan time, ms.
    """
    own = F.col("claim").isNotNull() & F.col("application").isin(*applications)
    claims = own & ~F.coalesce("borrowed", F.lit(False))
    # A ledger that was listed and is gone has a row only where it is dangling, which is another check's.
    still_there = F.col("listed_before") & ~F.col("standing").isin("dangling", "offloaded")
    return ownership.groupBy("store").agg(
        F.count_if(claims).alias("claims"),
        F.count_if(claims & (F.col("standing") == "foreign")).alias("foreign_claims"),
        F.count_if(F.col("standing") == "unowned").alias("unowned"),
        F.count_if(still_there).alias("listed_before"),
        F.count_if(F.col("dropped_since") > scan_time - DROPPED_MEMORY_MS).alias("dropped"),
    )


def store_facts(owners: DataFrame) -> DataFrame:
    """Count per store the places that could not be listed (gaps), and find its newest change, ms."""
    gaps = F.count_if(F.col("status") == "gap").alias("gaps")
    return owners.groupBy("store").agg(gaps, F.max("mtime").alias("newest"))


def current_store(earlier: str | None, stores: Sequence[str]) -> str:
    """Return which of the stores an earlier run's store is; ``earlier`` itself if it is none of them.

    Saved stores have another file every night, so the chroot tells them apart. Runs of earlier releases name
    no store and had one.

    >>> current_store("pulsar:dump:///mon.jsonl?root=/east", ["pulsar:dump:///tue.jsonl?root=/east"])
    'pulsar:dump:///tue.jsonl?root=/east'
    """
    if earlier is None or earlier in stores:
        return earlier or stores[0]
    place = _saved_place(earlier)
    same = (store for store in stores if place is not None and _saved_place(store) == place)
    return next(same, earlier)


def store_identity(store: str) -> str:
    """Return what names a store of owners in every run: a saved one by application and chroot.

    >>> store_identity("pulsar:dump:///mon.jsonl?root=/east"), store_identity("pulsar:zk://h1:2181/east")
    ('pulsar saved /east', 'pulsar:zk://h1:2181/east')
    """
    place = _saved_place(store)
    return store if place is None else f"{place[0]} saved {place[1]}"


def _saved_place(store: str) -> tuple[str, str] | None:
    """Application and chroot of a saved store; None of a running one."""
    owners = parse_owners_uri(store)
    is_saved = owners.store.partition("://")[0] in SAVED
    return (owners.application, owners.chroot) if is_saved else None
