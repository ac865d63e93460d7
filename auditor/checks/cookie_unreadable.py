"""Cookies that cannot be read, in the store or on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.DISKS, needs={Need.DISKS})
def cookie_unreadable(tables: Tables) -> DataFrame:
    """A cookie of a bookie cannot be read, in the store or on one of its disks.

    What it finds:
        Cookies in the store and VERSION files in a bookie's directories that do not parse, or are of a layout
        before 3. One finding a bookie; its evidence lists every such cookie and why.

    Why it matters:
        The bookie does not start with such a cookie. On disk it can also be the first sign of a damaged file
        system: VERSION is written once and never again.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Look for the reason before the cookie is replaced; check the disk. Copy a VERSION between directories
        only if you know that both belong to the bookie.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        A directory whose VERSION cannot be read leaves its bookie unread, and its copies unknown. A VERSION
        that is absent is disk-version-missing.
    """
    from pyspark.sql import functions as F

    stored = tables.cookies.select("bookie_id", F.lit("metadata store").alias("place"), "layout", "damage")
    # A VERSION that is not there is no cookie that cannot be read: disk-version-missing tells of it.
    on_disk = tables.directories.where("not version_absent").select(
        F.col("place").alias("bookie_id"), F.col("path").alias("place"), "layout", "damage"
    )
    old = F.when(F.col("layout") < 3, words("layout ", F.col("layout"), " is older than 3"))
    bad = (
        stored.unionByName(on_disk)
        .withColumn("damage", F.coalesce("damage", old))
        .where("damage is not null")
    )
    each = F.array_sort(F.collect_list(F.struct("place", "damage"))).alias("cookies")
    rows = bad.groupBy("bookie_id").agg(each)
    first = F.col("cookies")[0]
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(
            counted(F.size("cookies"), "cookie", "cookies"),
            " of ",
            F.col("bookie_id"),
            " cannot be read: ",
            first["place"],
            ": ",
            first["damage"],
        ),
        evidence={"cookies": "cookies"},
    )
