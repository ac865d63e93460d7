"""owner_stores: one row per store of owners, and whether the stores prove that a ledger has no owner.

An owner is an object of an application that names ledgers, such as a topic of Pulsar. The rules by which
the stores prove it are in `auditor.model.owner_scope`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from auditor.model.columns import make_schema
from auditor.model.owner_scope import DROPPED_MEMORY_MS
from auditor.sources.metadata.uri import SAVED_SCHEMES
from auditor.sources.owners.applications import parse_owners_uri
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

OWNER_STORES = make_schema(
    ("source", pa.string(), "the owner store, in the form of the option --owners"),
    ("kind", pa.string(), "owners"),
    (
        "scope_claimed",
        pa.string(),
        "owners that the stores must provably contain before a ledger without a reference may be deleted",
    ),
    (
        "scope_proved",
        pa.string(),
        "proved part of scope_claimed; the same as scope_claimed if the set of stores is complete",
    ),
    ("proof", pa.string(), "reason why scope_proved counts as proved"),
    ("as_of", pa.int64(), "time of the store's data (ms since 1970, UTC); null: not known"),
    ("reason", pa.string(), "reason why scope_claimed is not proved; null: it is proved"),
    ("declared", pa.bool_(), "whether the option owners_complete names the store"),
    ("listed_before", pa.int64(), "number of existing ledgers that the store referred to in an earlier run"),
    (
        "dropped",
        pa.int64(),
        "number of ledgers in listed_before that no owner refers to now; they lost their last owner within "
        "the past week",
    ),
    (
        "identity",
        pa.string(),
        "name that identifies the store in every run. null: the store was not read, or another row "
        "is for the same store",
    ),
    ("gaps", pa.int64(), "number of paths of the store that could not be listed"),
    (
        "claims",
        pa.int64(),
        "for all stores together: number of ledgers whose custom metadata names an owner",
    ),
    (
        "foreign_claims",
        pa.int64(),
        "for all stores together: number of ledgers whose custom metadata names an owner in a namespace "
        "that no store has",
    ),
    (
        "unowned",
        pa.int64(),
        "for all stores together: number of ledgers that no owner refers to, not counting those in "
        "foreign namespaces",
    ),
)


def count_claims(ownership: DataFrame, applications: Collection[str], scan_time: int) -> DataFrame:
    """Count the ledgers of each store, in columns claims, foreign_claims, unowned, listed_before and dropped.

    A claim is the owner (such as a topic) that a ledger's custom metadata names. ``listed_before`` ledgers
    had an owner in an earlier run.

    Args:
        ownership: The table of this run.
        applications: Applications whose owners were read.
        scan_time: Time of the first scan, in ms.
    """
    is_own_claim = F.col("claim").isNotNull() & F.col("application").isin(*applications)
    is_claim = is_own_claim & ~F.coalesce("borrowed", F.lit(False))
    # A ledger that was listed and is gone now has only a dangling row, which another check reports.
    was_listed_and_exists = F.col("listed_before") & ~F.col("standing").isin("dangling", "offloaded")
    return ownership.groupBy("store").agg(
        F.count_if(is_claim).alias("claims"),
        F.count_if(is_claim & (F.col("standing") == "foreign")).alias("foreign_claims"),
        F.count_if(F.col("standing") == "unowned").alias("unowned"),
        F.count_if(was_listed_and_exists).alias("listed_before"),
        F.count_if(F.col("dropped_since") > scan_time - DROPPED_MEMORY_MS).alias("dropped"),
    )


def summarize_owners(owners: DataFrame) -> DataFrame:
    """Return, by store of owners, the number of unlisted paths, and the time of the newest change.

    The columns are gaps (paths that could not be listed) and newest (ms).
    """
    gap_count = F.count_if(F.col("status") == "gap").alias("gaps")
    return owners.groupBy("store").agg(gap_count, F.max("mtime").alias("newest"))


@dataclass(frozen=True, slots=True)
class StoreReferences:
    """The references to ledgers that stores of owners have in common. Stores are named as in ``--owners``.

    Args:
        lowest_ids: The lowest ledger id that each store of this run names.
        linked_store_pairs: Pairs of stores of this run that have a reference in common.
        shared_references: Number of common references, by store of this run and store of the earlier run.
    """

    lowest_ids: Mapping[str, int]
    linked_store_pairs: Sequence[tuple[str, str]]
    shared_references: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class StoreMatches:
    """The names, in this run and in the earlier run, that denote the same store of owners.

    Args:
        first_name_by_alias: For each further name of a store in this run, the first name of the store.
        name_by_earlier_name: The name of each store in this run, by its name in the earlier run.
        identity_by_name: The identity of each store, by its first name in this run. It is the same in all
            runs.
    """

    first_name_by_alias: Mapping[str, str]
    name_by_earlier_name: Mapping[str, str]
    identity_by_name: Mapping[str, str]


def match_stores(
    stores: Sequence[str], references: StoreReferences, earlier_identities: Mapping[str, str | None]
) -> StoreMatches:
    """Match a run's stores of owners with each other, and with the stores of the earlier run.

    Args:
        stores: The names in ``--owners`` of the stores that were read.
        references: The references that the stores have in common.
        earlier_identities: Identity of each store of the earlier run, or None if that run saved none.
    """
    first_name_by_alias: dict[str, str] = {}
    for store in stores:
        if store not in first_name_by_alias:
            first_name_by_alias |= dict.fromkeys(
                _find_linked_stores(store, references.linked_store_pairs)
                - {store}
                - first_name_by_alias.keys(),
                store,
            )
    name_by_earlier_name: dict[str, str] = {}
    identity_by_name: dict[str, str] = {}
    for (store, earlier_store), _ in sorted(
        references.shared_references.items(), key=lambda count_item: (-count_item[1], count_item[0])
    ):
        first_name = first_name_by_alias.get(store, store)
        name_by_earlier_name.setdefault(earlier_store, first_name)
        identity_by_name.setdefault(
            first_name, earlier_identities.get(earlier_store) or make_store_identity(earlier_store)
        )
    for store in stores:
        if store not in first_name_by_alias:
            identity_by_name.setdefault(store, _make_new_identity(store, references.lowest_ids.get(store)))
    return StoreMatches(first_name_by_alias, name_by_earlier_name, identity_by_name)


def _find_linked_stores(store: str, store_pairs: Sequence[tuple[str, str]]) -> set[str]:
    connected_stores, stores_to_visit = set[str](), {store}
    while stores_to_visit:
        linked_store = stores_to_visit.pop()
        connected_stores.add(linked_store)
        stores_to_visit |= {
            neighbour_store
            for store_pair in store_pairs
            if linked_store in store_pair
            for neighbour_store in store_pair
        } - connected_stores
    return connected_stores


def _make_new_identity(store: str, lowest_id: int | None) -> str:
    """Return the identity of a store that no earlier run read.

    The identity of a saved store includes ``lowest_id``, the lowest ledger id that the store names.
    """
    identity = make_store_identity(store)
    return f"{identity} of ledger {lowest_id}" if identity != store and lowest_id is not None else identity


def find_current_store(
    earlier_name: str | None, stores: Sequence[str], matched_stores: Mapping[str, str]
) -> str:
    """Return the name in ``stores`` of the store that an earlier run named ``earlier_name``.

    If no store matches, the result is a name that is not in ``stores``. A saved store may be in a different
    file in each run, so the ledgers that it names identify it. ``matched_stores`` has the stores that were
    matched by their ledgers. It maps names in the earlier run to names in this run. A store that has no
    ledger in common with the earlier run is identified by its chroot. Runs of earlier releases had a single
    store without a name.

    >>> find_current_store("pulsar:dump:///mon.jsonl?root=/east", ["pulsar:dump:///tue.jsonl?root=/east"], {})
    'pulsar:dump:///tue.jsonl?root=/east'
    """
    if earlier_name is None:
        return stores[0]
    if earlier_name in matched_stores:
        return matched_stores[earlier_name]
    unmatched_stores = [store for store in stores if store not in matched_stores.values()]
    saved_path = _find_saved_path(earlier_name)
    same_chroot_stores = [
        store
        for store in unmatched_stores
        if saved_path is not None and _find_saved_path(store) == saved_path
    ]
    if earlier_name in unmatched_stores or not same_chroot_stores:
        # Another store has this name now.
        return (
            earlier_name
            if earlier_name not in matched_stores.values()
            else f"{earlier_name} of an earlier run"
        )
    return same_chroot_stores[0]


def make_store_identity(store: str) -> str:
    """Return the identity that runs of earlier versions gave to a store.

    For a saved store, it consists of the application and the chroot.

    >>> make_store_identity("pulsar:dump:///mon.jsonl?root=/east"), make_store_identity("pulsar:zk://h1:2181/east")
    ('pulsar saved /east', 'pulsar:zk://h1:2181/east')
    """
    saved_path = _find_saved_path(store)
    return store if saved_path is None else f"{saved_path[0]} saved {saved_path[1]}"


def _find_saved_path(store: str) -> tuple[str, str] | None:
    """Return the application and chroot of a saved store, or None for a running store."""
    owners = parse_owners_uri(store)
    is_saved = owners.store.partition("://")[0] in SAVED_SCHEMES
    return (owners.application, owners.chroot) if is_saved else None
