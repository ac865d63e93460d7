"""Proof that a run read all stores with owners of ledgers (such as topics), or why there is no proof.

A ledger that no owner lists is unowned only if every owner was read. Several Pulsar clusters can share one
BookKeeper cluster (pulsar #17213, #5935, #8133), and a store can be wiped or restored from a backup. The
set of stores therefore proves that a ledger has no owner only if all these conditions are met:

    claims      At least 99 % of the claims are in namespaces of the stores. A claim is an owner's name in a
                ledger's custom metadata.
    lists       A store listed ledgers in an earlier run. Of those that are still in BookKeeper, at most
                1 % are missing in its lists now. (If a topic is deleted or its retention ends, the ledger is
                deleted too. If a store lost its lists, the ledger is still in BookKeeper.)
    declared    ``owners_complete`` names exactly the stores that were read.
    listed      Every path of the stores could be listed.
    different   No two stores of the set are the same store under two names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from auditor.model.amounts import plural
from auditor.model.source_scope import SourceKind, SourceScope

SCOPE_EVERY_OWNER, SCOPE_OWN_REFERENCES, SCOPE_NOTHING = (
    "every owner of a ledger",
    "the owners in this store",
    "nothing",
)
"""Possible scopes of a store of owners; deleting a ledger needs a proof of `SCOPE_EVERY_OWNER`."""

NOT_READ = "not read"
"""Text in place of the proof, for a store that this run did not read."""

MAX_FOREIGN_CLAIM_SHARE = 0.01
"""Largest share of claims in namespaces that no store has; with a larger share, stores are incomplete.

A claim is the name of an owner in a ledger's custom metadata.
"""

MAX_DROPPED_LEDGER_SHARE = 0.01
"""Largest share of ledgers that lost their owner; with a larger share, the stores do not count as complete.

It is a share of the ledgers that were listed before and are still in BookKeeper. A broker removes a ledger
from its list before it deletes the ledger, and only logs a failed delete (pulsar #13238). A few such ledgers
are therefore normal.
"""

DROPPED_MEMORY_MS = 7 * 24 * 60 * 60 * 1000
"""Time for which `MAX_DROPPED_LEDGER_SHARE` counts a ledger that lost its owner, in ms.

An operator has this week to notice the ledger."""

ROLLOVER_MS = 240 * 60 * 1000
"""Longest time from one ledger of a topic to the next in Pulsar, in ms.

It is managedLedgerMaxLedgerRolloverTimeMinutes in ServiceConfiguration (pulsar-broker-common) and
conf/broker.conf: 240 minutes unless set. In this time a broker writes the list of every topic in use again.
Two runs that are this far apart therefore see two versions of each list.
"""


class ListCounts(NamedTuple):
    """Two numbers about ledgers in BookKeeper that a store of owners (such as topics) listed before.

    ``listed_before`` counts all these ledgers. ``dropped`` counts those that the store no longer lists.
    """

    listed_before: int = 0
    dropped: int = 0


class StoreFacts(NamedTuple):
    """Facts about a store with owners (such as topics) of ledgers.

    ``unlisted_path_count`` counts paths that could not be listed. ``newest_value_ms`` is the time of the
    newest value, in ms.
    """

    unlisted_path_count: int = 0
    newest_value_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OwnerCounts:
    """Counts by which a run judges whether its stores with owners (such as topics) are complete.

    A claim is an owner's name in a ledger's custom metadata. ``list_counts`` and ``store_facts`` have an
    element for each store. If a store was given under two names, ``name_by_alias`` maps its second name to
    its first name. ``store_identities`` maps each store, by its first name, to an identity that is the same
    in every run.
    """

    claim_count: int
    foreign_claim_count: int
    unowned_ledgers: int
    list_counts: Mapping[str, ListCounts]
    store_facts: Mapping[str, StoreFacts]
    name_by_alias: Mapping[str, str] = field(default_factory=dict)
    store_identities: Mapping[str, str] = field(default_factory=dict)


def owner_store_rows(
    counts: OwnerCounts,
    stores: Sequence[str],
    declared_stores: Sequence[str],
    times_by_store: Mapping[str, int | None],
) -> list[dict[str, Any]]:
    """Return one row of `OWNER_STORES` for each store with owners (such as topics) of ledgers.

    A store gets a row if it was read or is declared. It also gets a row if it no longer lists some ledgers of
    an earlier run.

    Args:
        counts: the counts of this run.
        stores: the stores that were read, in the form that ``--owners`` accepts.
        declared_stores: the stores in ``owners_complete``.
        times_by_store: the time of each store's data in ms, or None if it is not known.
    """
    sources = dict.fromkeys(
        (
            *stores,
            *declared_stores,
            *(
                store
                for store, list_counts_of_store in counts.list_counts.items()
                if list_counts_of_store.dropped
            ),
        )
    )
    store_reasons = {
        source: list(_store_reasons(source, counts, stores, declared_stores)) for source in sources
    }
    store_set_reasons = list(_store_set_reasons(counts))
    is_complete = not store_set_reasons and not any(store_reasons.values())
    rows = []
    for source in sources:
        is_read = source in stores
        reasons = [*store_reasons[source], *store_set_reasons] or (
            ["another owner store is not proved to be complete"] if not is_complete else []
        )
        scope = SourceScope(
            source,
            SourceKind.OWNERS,
            SCOPE_EVERY_OWNER,
            SCOPE_EVERY_OWNER if is_complete else (SCOPE_OWN_REFERENCES if is_read else SCOPE_NOTHING),
            _proof_sentence(counts, source, is_read=is_read, is_declared=source in declared_stores),
            times_by_store.get(source),
            "; ".join(reasons) or None,
        )
        list_counts, store_facts = (
            counts.list_counts.get(source, ListCounts()),
            counts.store_facts.get(source, StoreFacts()),
        )
        rows.append(
            {
                **asdict(scope),
                **list_counts._asdict(),
                "declared": source in declared_stores,
                "identity": counts.store_identities.get(source),
                "gaps": store_facts.unlisted_path_count,
                "claims": counts.claim_count,
                "foreign_claims": counts.foreign_claim_count,
                "unowned": counts.unowned_ledgers,
            }
        )
    return rows


def incomplete_reasons(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the reasons why the stores with owners (such as topics) may not be complete.

    The result is empty if they are proved to be complete. It is also empty if there are no stores.

    >>> incomplete_reasons([{"source": "pulsar:zk://h1", "reason": "not declared"}])
    ['pulsar:zk://h1: not declared']
    """
    return [f"{row['source']}: {row['reason']}" for row in rows if row["reason"] is not None]


def _store_reasons(
    source: str, counts: OwnerCounts, stores: Sequence[str], declared_stores: Sequence[str]
) -> Iterator[str]:
    if source not in declared_stores:
        yield (
            "owners_complete does not contain this store"
            if source in stores
            else "the store was not read in this run"
        )
    elif source not in stores:
        yield "owners_complete contains this store, but it was not read"
    if source in counts.name_by_alias:
        yield f"it is the same store as {counts.name_by_alias[source]}, under a second name"
    list_counts = counts.list_counts.get(source, ListCounts())
    if list_counts.dropped > MAX_DROPPED_LEDGER_SHARE * list_counts.listed_before:
        lost_text = f"{list_counts.dropped:,} of {plural(list_counts.listed_before, 'ledger')}"
        yield (
            f"the store no longer lists {lost_text} that an earlier run saw there and that BookKeeper "
            "still has"
        )
    if unlisted_count := counts.store_facts.get(source, StoreFacts()).unlisted_path_count:
        yield f"{plural(unlisted_count, 'path')} of the store could not be listed"


def _store_set_reasons(counts: OwnerCounts) -> Iterator[str]:
    if counts.foreign_claim_count > MAX_FOREIGN_CLAIM_SHARE * counts.claim_count:
        yield (
            f"of {counts.claim_count:,} ledgers that name an owner, "
            f"{counts.foreign_claim_count:,} name an owner in a namespace that no store contains"
        )


def _proof_sentence(counts: OwnerCounts, source: str, *, is_read: bool, is_declared: bool) -> str:
    if not is_read:
        return NOT_READ
    list_counts = counts.list_counts.get(source, ListCounts())
    own_claims = counts.claim_count - counts.foreign_claim_count
    claim_text = (
        f"of {counts.claim_count:,} ledgers that name an owner, {own_claims:,} name an owner in a "
        "namespace of the stores"
    )
    dropped_text = (
        f"of {list_counts.listed_before:,} ledgers that this store listed before, "
        f"{list_counts.dropped:,} lost their owner"
    )
    return f"{'declared complete' if is_declared else 'read'}; {claim_text}; {dropped_text}"
