"""Bookie ids that no server accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.broken_rules import ledgers_breaking
from auditor.checks.check import check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


# What BookieId.validateBookieId takes; the range from ':' to '_' is the server's own, and wider than BP-41.
_ACCEPTED = r"\A[A-Za-z0-9:-_.\-]+\z"


@check(Severity.ERROR, group="identity")
def bookie_id_invalid(tables: Tables) -> DataFrame:
    """A bookie id is one that BookKeeper itself refuses.

    What it finds:
        Ids that the server's own pattern does not take, and the reserved word readonly: in the ensembles of a
        ledger (one finding a ledger), and as names of cookies and registrations (one finding an id).

    Why it matters:
        A client cannot parse the metadata of such a ledger, so it cannot be opened, audited or replicated.
        One such name below the cookies or registrations makes the whole listing fail, and with it the view
        of every other bookie.

    How sure:
        Confirmed: what is there is told as it was read. Suspect where the ledger's metadata changed between
        the two scans of a running store.

    What to do:
        Remove a znode that was made by hand. If a bookie really has such an id, rename it at its next
        rebuild. A ledger that names it has to be mended in its metadata with the store's own client:
        updateBookieInLedger refuses such an id.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          fails on such a ledger. Risk: none; it reads metadata.

    Limits:
        Ids that the server takes and BP-41 does not, such as those with an underscore, are not reported.
    """
    from pyspark.sql import functions as F

    refused = ~F.col("bookie_id").rlike(_ACCEPTED) | (F.lower("bookie_id") == "readonly")
    names = tables.bookies.where(F.col("has_cookie") | F.col("registered").isNotNull()).where(refused)
    named = finding_rows(
        names,
        bookie_id="bookie_id",
        message=words(
            "a cookie or registration has the name '", F.col("bookie_id"), "', which is no bookie id"
        ),
        evidence={"has_cookie": "has_cookie", "registered": "registered"},
    )
    return ledgers_breaking(tables, "bookie-id-invalid").unionByName(named)
