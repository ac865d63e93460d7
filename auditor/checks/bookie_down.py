"""Bookies with a cookie and ledgers that are not registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.WARNING, group="identity", rests_on=Basis.METADATA, needs={Need.ALL_BOOKIES}, asks="unregistered"
)
def bookie_down(tables: Tables) -> DataFrame:
    """A bookie that ledgers name has a cookie and is not registered.

    What it finds:
        Bookies in ensembles, with a cookie in the store, that are neither writable nor read-only.

    Why it matters:
        The bookie is stopped, or cut off from the metadata store. Until it returns or is decommissioned,
        every one of its copies is out of reach.

    How sure:
        Confirmed: neither scan saw a registration.

    What to do:
        Restart it, and look at its log if it does not stay up. If it will not return, decommission it.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.
        - `bookkeeper shell listbookies -a`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Registrations are ephemeral: a store saved during a restart, or long after its clients left, shows
        every bookie as down.
    """
    from pyspark.sql import functions as F

    return finding_rows(
        tables.unregistered.where("has_cookie"),
        bookie_id="bookie_id",
        message=words(
            F.col("bookie_id"),
            " is not registered; ",
            counted(F.col("ledgers"), "ledger names it", "ledgers name it"),
        ),
        evidence={"ledgers": "ledgers", "depending": "depending", "replicas": "replicas", "read": "read"},
    )
