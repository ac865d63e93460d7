"""Registered bookies without a cookie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.METADATA, needs={Need.ALL_BOOKIES})
def cookie_missing(tables: Tables) -> DataFrame:
    """A bookie is registered and the store has no cookie of it.

    What it finds:
        Registered bookies, writable or read-only, without a cookie under their id.

    Why it matters:
        The bookie runs only because it is running: at its next start it finds its own directories stamped and
        no cookie in the store, and refuses to start. It may also have been decommissioned while it was up.

    How sure:
        Confirmed: the bookie is registered, and the store's cookies were listed.

    What to do:
        Make the cookie again from the VERSION file of the bookie before anyone restarts it.

    Commands:
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.
        - `bookkeeper shell cookie_create -cf FILE BOOKIE`
          stores the cookie. Risk: writes; a wrong cookie keeps the bookie from starting, and `cookie_delete`
          takes it back.

    Limits:
        A bookie that registers while the audit reads the cookies may show up here once.
    """
    from pyspark.sql import functions as F

    return finding_rows(
        tables.clear_bookies.where("registered is not null and not has_cookie"),
        bookie_id="bookie_id",
        message=words(
            F.col("bookie_id"),
            " is registered (",
            F.col("registered"),
            ") and has no cookie: it cannot restart",
        ),
        evidence={"registered": "registered", "ledgers": "ledgers"},
    )
