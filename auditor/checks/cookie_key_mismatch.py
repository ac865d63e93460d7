"""Cookies that name another bookie than the one they are kept under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.METADATA)
def cookie_key_mismatch(tables: Tables) -> DataFrame:
    """A cookie in the store names another bookie than the one it is kept under.

    What it finds:
        Cookies whose bookieHost is not the name of their znode.

    Why it matters:
        A bookie compares this text with its own id when it starts, and refuses to start if they differ.
        Either a cookie was written by hand under the wrong name, or the bookie's id was changed half-way.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Find out which id the disks carry, and store the cookie that agrees with them.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Do it for both ids.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        Ids are compared as they stand: a host name and its address are two ids.
    """
    from pyspark.sql import functions as F

    return finding_rows(
        tables.cookies.where("damage is null and bookie_host <> bookie_id"),
        bookie_id="bookie_id",
        message=words("the cookie of ", F.col("bookie_id"), " names ", F.col("bookie_host")),
        evidence={"bookie_host": "bookie_host", "layout": "layout"},
    )
