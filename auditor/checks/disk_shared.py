"""Disks that are in two places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, listed, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.CRITICAL,
    group="identity",
    rests_on=Basis.DISKS,
    needs={Need.DISKS},
    asks="directories",
    urgency=7,
)
def disk_shared(tables: Tables) -> DataFrame:
    """One directory of a bookie was found in the places of two bookies.

    What it finds:
        Directories in different places whose VERSION files carry the same id and the same lists, and which
        stand for the same path of these. One finding an owner, with every such directory. That the other
        place carries a foreign cookie is disk-id-mismatch besides: that one is about the place, this one
        about the disk.

    Why it matters:
        The volume was cloned, or is mounted by two machines. Two processes then write what both take for
        their own: entries of one overwrite or outlive those of the other, and each collects the other's
        garbage.

    How sure:
        Confirmed: the VERSION files are alike and stand for one path. A backup looks the same.

    What to do:
        Stop one of the two before anything else, and find out which has the newer data.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell cookie_get BOOKIE`
          Look at the owner's directories.

    Limits:
        A directory whose own path does not end as a path in its VERSION does is not compared. Two machines
        whose copies were both given to the audit as one bookie's place are one place. A backup that was
        given to the audit beside its original looks the same.
    """
    from pyspark.sql import functions as F

    one = ("cookie_bookie_id", "instance_id", "journal_dirs", "ledger_dirs", "index_dirs", "configured")
    rows = (
        tables.directories.where("cookie_bookie_id is not null and configured is not null")
        .groupBy(*one)
        .agg(
            F.collect_set(F.coalesce("place", "path")).alias("places"),
            F.array_sort(F.collect_list(F.struct("path", "place", "role"))).alias("found"),
        )
        .where(F.size("places") > 1)
        .groupBy(F.col("cookie_bookie_id").alias("bookie_id"))
        .agg(
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("places")))).alias("places"),
            F.array_sort(F.collect_list(F.struct("configured", "found"))).alias("directories"),
        )
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(
            counted(F.size("directories"), "directory", "directories"),
            " of ",
            F.col("bookie_id"),
            F.when(F.size("directories") == 1, " is").otherwise(" are"),
            " in more than one place: ",
            listed(F.col("places")),
        ),
        evidence={"directories": "directories"},
    )
