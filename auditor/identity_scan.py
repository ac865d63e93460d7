"""One step of an audit: the ids that its tables mention, put together to bookies, and landed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.landing import Landing
from auditor.model.bookie_alias import alias_edges, identities
from auditor.tables.identities import (
    EDGES,
    IDENTITIES,
    compared,
    edge_rows,
    facts,
    identity_rows,
    known,
    shared_contents,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class IdentityGraph(NamedTuple):
    """The tables ``identities`` and ``identity_edges``."""

    identities: DataFrame
    edges: DataFrame


def identity_graph(
    landing: Landing,
    bookies: DataFrame,
    registrations: DataFrame,
    cookies: DataFrame,
    directories: DataFrame,
    ledgers: DataFrame,
    unequal: DataFrame,
) -> IdentityGraph:
    """Join all that tells who a bookie is, and say which ids are one.

    What is collected is as small as the cluster has bookies, and pairs of them that share ledgers.
    """
    rows = _rows(facts(bookies, registrations, cookies, directories))
    ids = known(rows)
    # Most clusters have no id that is gone, and then no ledger needs to be asked.
    gone = any(row["named"] and not row["registered"] and not row["found"] for row in rows)
    shared = _rows(shared_contents(ledgers, unequal, bookies)) if gone else []
    edges = alias_edges(ids, compared(shared, rows))
    return IdentityGraph(
        landing.rows("identities", identity_rows(rows, identities(ids, edges)), IDENTITIES),
        landing.rows("identity_edges", edge_rows(edges), EDGES),
    )


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.collect()]
