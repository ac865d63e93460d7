"""Registered bookies that clients cannot look for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.METADATA)
def endpoint_missing(tables: Tables) -> DataFrame:
    """A bookie is registered and its registration gives clients no address of it.

    What it finds:
        Registered bookies that no client can resolve: their registration has no endpoint of the protocol
        bookie-rpc, or cannot be read; or it is empty, and the id is no host:port that could stand for it. An
        empty registration of a bookie whose id is an address is not reported: bookies before 4.11 register
        so, and on etcd all do.

    Why it matters:
        The bookie looks alive to everyone and is reachable for nobody: reads of its entries fail, writes to
        it fail, and no auditor copies its ledgers, for it is registered.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Restart the bookie with a version that publishes its endpoints; on etcd give it an id that is its
        address.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`.
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        Only what the bookie says is looked at: an address that is not reachable from the clients is not
        found. Of a bookie that is registered twice the writable registration counts, as for clients.
    """
    from pyspark.sql import functions as F

    return finding_rows(
        tables.registrations.where("used and unresolved is not null"),
        bookie_id="bookie_id",
        message=words("clients cannot find ", F.col("bookie_id"), ": ", F.col("unresolved")),
        evidence={"mode": "mode", "empty": "empty", "endpoints": "endpoints", "damage": "damage"},
    )
