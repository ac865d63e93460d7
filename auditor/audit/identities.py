"""One step of an audit: the ids that its tables mention, put together to bookies, and landed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.audit.landing import Landing
from auditor.model.bookie_alias import alias_edges, identities
from auditor.tables.identities import (
    EDGES,
    IDENTITIES,
    compare_contents,
    edge_rows,
    facts,
    facts_by_id,
    identity_rows,
    shared_contents,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def land_identities(landing: Landing, bookies: DataFrame, ledgers: DataFrame, unequal: DataFrame) -> None:
    """Put together all that tells who a bookie is, and say which ids are one: two tables of a run.

    The tables bookies, registrations, cookies and directories have landed: they are as small as the cluster
    has bookies. So are the pairs of bookies that share ledgers, which are collected.
    """
    told = ("bookies", "registrations", "cookies", "directories")
    rows = facts(*(landing.run.read_rows(f"tables/{name}") for name in told))
    ids = facts_by_id(rows)
    # Most clusters have no id that is gone, and then no ledger needs to be asked.
    gone = any(row["named"] and not row["registered"] and not row["found"] for row in rows)
    shared = shared_contents(ledgers, unequal, bookies).collect() if gone else []
    edges = alias_edges(ids, compare_contents([row.asDict() for row in shared], rows))
    landing.rows("identities", identity_rows(rows, identities(ids, edges)), IDENTITIES)
    landing.rows("identity_edges", edge_rows(edges), EDGES)
