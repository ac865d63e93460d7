"""Which bookies can be asked over the wire, where, and for which ledgers.

A bookie is found as BookKeeper's own clients find it: by the address that it registered with (BP-41), or,
where it registered nothing (before 4.11, and on etcd), by its id. Who is not registered is not asked: an id
may look like an address and not be one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from auditor.codecs.store.service_info import BOOKIE_RPC
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

Address = tuple[str, int]
Endpoint = Address | str
"""Host and port of a bookie, or the reason why it has none."""

SHARED = "another bookie is registered with the same address: whose answers they are cannot be told"
NOT_REGISTERED = "not registered: nobody says where it can be asked"
_MAX_PORT = 65_535


def endpoints(registrations: Iterable[Mapping[str, Any]], bookies: Iterable[str]) -> dict[str, Endpoint]:
    """Where each of ``bookies`` can be asked, from rows of the table registrations.

    >>> rows = [{"bookie_id": "b1", "damage": None,
    ...          "endpoints": [{"host": "h", "port": 3181, "protocol": "bookie-rpc"}]}]
    >>> endpoints(rows, ["b1", "b2"])
    {'b1': ('h', 3181), 'b2': 'not registered: nobody says where it can be asked'}
    """
    offered: dict[str, Endpoint] = {}
    for row in registrations:
        if row.get("ephemeral") is False:
            continue  # left behind, perhaps at the address of another bookie
        # One that is registered twice, while it turns read-only, may have an address in either place.
        if isinstance(offered.get(row["bookie_id"], NOT_REGISTERED), str):
            offered[row["bookie_id"]] = _endpoint(row)
    sharing = Counter(offered.values())
    found = {bookie_id: offered.get(bookie_id, NOT_REGISTERED) for bookie_id in bookies}
    return {
        # The protocol has no word for who answers: what one of two lacks would be the other's loss.
        bookie_id: SHARED if not isinstance(endpoint, str) and sharing[endpoint] > 1 else endpoint
        for bookie_id, endpoint in found.items()
    }


def every_replica(ledgers: DataFrame, bookies: Collection[str]) -> DataFrame:
    """The pairs that no other source can answer: of each of ``bookies``, every ledger that it may hold.

    A bookie logs an ERROR with a stack trace for each ledger that it lacks, and lacks most closed ledgers of
    which it should hold no entry: it is not asked for these. Of a ledger that is not closed nobody knows the
    end, so all members are asked. Returns scope_id, ledger_id, bookie_id.
    """
    return (
        ledgers.select(*LEDGER, "state", F.explode("replicas").alias("replica"))
        .where(F.col("replica.bookie_id").isin(list(bookies)))
        .where((F.col("state") != LedgerState.CLOSED) | (F.length("replica.groups") > 0))
        .select(*LEDGER, "replica.bookie_id")
    )


def _endpoint(row: Mapping[str, Any]) -> Endpoint:
    if row["damage"] is not None:
        return f"its registration says no address: {row['damage']}"
    for offered in row["endpoints"]:
        if offered["protocol"] == BOOKIE_RPC:
            host, port = offered["host"], offered["port"]
            if not host or not 0 < port <= _MAX_PORT:
                return f"it registered with an address that is none: {host!r}, port {port}"
            return host, port
    return f"it registered without an endpoint for {BOOKIE_RPC}"
