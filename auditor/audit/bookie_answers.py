"""What bookies say themselves, where ``--bookies rpc:`` was given: asked last of all sources, and least.

A bookie that no directory and no collection shows is asked for every ledger of which it may hold an entry.
One that they do show is asked only for the ledgers in which they differ from the metadata: a second look,
which sees what a bookie has not yet written to its index. Nobody is asked what ledgers it has: the protocol
cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.audit.index_scan import Indexes, gap_reasons
from auditor.audit.landing import Landing
from auditor.audit.metadata_scan import FirstScan
from auditor.model.options import AuditOptions
from auditor.sources.bookies.rpc.listing_rows import rpc_availability
from auditor.sources.bookies.rpc.pairs import endpoints, every_replica, second_look
from auditor.sources.metadata.store import StoreOptions
from auditor.tables.registry import registered_modes, registrations
from auditor.tables.unequal import expected_groups, unequal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class BookieAnswers:
    """The table ``answers``, and the bookies that were asked for everything: why one could not say it all."""

    rows: DataFrame
    bookies: Mapping[str, str | None]


def query_bookies(
    landing: Landing, first: FirstScan, indexes: Indexes, options: AuditOptions
) -> BookieAnswers | None:
    """Ask the registered bookies that ensembles name, where ``rpc:`` is a source.

    ``indexes`` is what files show of them.

    An answer counts as of its own time, so that no write cache hides an entry from it.
    """
    bookies, ledgers = indexes.bookies, first.ledgers
    if not bookies.rpc:
        return None
    registered = registrations(first.nodes)
    named = sorted(registered_modes(registered).keys() & bookies.members.keys())
    unseen = [name for name in named if bookies.unseen(name)]
    seen = [name for name in named if name not in unseen and name not in bookies.foreign]

    def answers() -> DataFrame:
        differing = unequal(expected_groups(ledgers, indexes.tails.beside), indexes.replicas, bookies.foreign)
        pairs = every_replica(ledgers.where("undecidable = false"), unseen).unionByName(
            second_look(differing, indexes.replicas, seen)
        )
        return rpc_availability(pairs, endpoints(registered, [*unseen, *seen]), politeness(options))

    rows = landing.land("answers", answers)
    gave_up = gap_reasons(rows)
    return BookieAnswers(rows, {name: gave_up.get(name) for name in unseen})


def politeness(options: AuditOptions) -> StoreOptions:
    """How hard one bookie may be asked."""
    return StoreOptions(
        rate_limit=options.bookie_rate_limit,
        in_flight=options.bookie_in_flight,
        timeout_s=options.timeout,
    )
