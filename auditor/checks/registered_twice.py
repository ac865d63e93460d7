"""Bookies that are writable and read-only at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Confidence, Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.WARNING, group="identity", rests_on=Basis.METADATA, needs={Need.TWO_SCANS})
def registered_twice(tables: Tables) -> DataFrame:
    """A bookie is registered as writable and as read-only at once.

    What it finds:
        Bookies with both registrations. On a live store only those that had both at both scans of the
        metadata; in a saved store, where one moment is all there is, it is no more than suspect.

    Why it matters:
        A bookie that turns read-only registers so first and then gives the other registration up; for a
        moment it has both. One that keeps both has failed in between, or two processes share an id: clients
        go on choosing a bookie that refuses their writes.

    How sure:
        Confirmed where both scans of a running store saw both. Suspect in a saved store, where one moment is
        all there is.

    What to do:
        Restart the bookie; its registrations go with its session. See that no second process has its id.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.
        - `bookkeeper shell endpointinfo -b BOOKIE`.

    Limits:
        A bookie that turned read-only at each of two scans, and was writable in between, looks the same.
    """
    from pyspark.sql import functions as F

    confidence = Confidence.CONFIRMED if tables.cluster.two_scans else Confidence.SUSPECT
    return finding_rows(
        tables.bookies.where("registered_twice"),
        bookie_id="bookie_id",
        confidence=confidence,
        message=words(F.col("bookie_id"), " is registered as writable and as read-only"),
        evidence={"ledgers": "ledgers"},
    )
