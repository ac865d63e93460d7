"""Cookies that belong to no bookie in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.NOTE, group="identity", rests_on=Basis.METADATA, needs={Need.ALL_BOOKIES})
def cookie_unused(tables: Tables) -> DataFrame:
    """The store keeps a cookie of a bookie that no ledger names and that is not registered.

    What it finds:
        Cookies whose bookie is in no ensemble and neither writable nor read-only.

    Why it matters:
        A retired bookie was not quite retired. Every new auditor takes it for a lost bookie once, and a host
        that gets the same id again cannot start with empty disks.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Delete the cookie once it is certain that the bookie will not return.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Keep the output.
        - `bookkeeper shell cookie_delete BOOKIE`
          deletes it from the store. Risk: writes; the disks keep their VERSION, and the bookie cannot start
          again without a new cookie.

    Limits:
        A new bookie that was stopped before it took its first ledger looks the same.
    """
    from pyspark.sql import functions as F

    return finding_rows(
        tables.clear_bookies.where("has_cookie and not named and registered is null"),
        bookie_id="bookie_id",
        message=words(F.col("bookie_id"), " has a cookie, is in no ensemble and is not registered"),
        evidence={"found": "found"},
    )
