"""Disks of one bookie that say different things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.DISKS, needs={Need.DISKS}, asks="directories")
def disk_dirs_disagree(tables: Tables) -> DataFrame:
    """The VERSION files of one bookie name different directories.

    What it finds:
        Bookies of which the VERSION files in their own place, all under their own id, give different lists
        of journal, ledger or index directories. One finding a bookie, with every directory and what it
        says. A directory that carries another id is disk-id-mismatch and not counted here, one with another
        instance id alone is instance-mismatch; layouts from 3 on are alike.

    Why it matters:
        One of the disks is from another time: an old copy, or one that missed a change of the configuration.
        What it holds may be out of date, and the bookie refuses to start with it.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Find the odd disk by its evidence and put the right one back. Never copy VERSION from one directory to
        another to make a bookie start.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell updatecookie -e`.

    Limits:
        Only directories that were given to the audit are compared.
    """
    from pyspark.sql import functions as F

    said = F.struct("journal_dirs", "ledger_dirs", "index_dirs")
    rows = (
        tables.directories.where("cookie_bookie_id = coalesce(place, cookie_bookie_id)")
        .groupBy(F.col("cookie_bookie_id").alias("bookie_id"))
        .agg(
            F.size(F.collect_set(said)).alias("versions"),
            F.array_sort(
                F.collect_list(F.struct("path", "role", "journal_dirs", "ledger_dirs", "index_dirs"))
            ).alias("directories"),
        )
        .where("versions > 1")
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(
            "the VERSION files of ",
            F.col("bookie_id"),
            " name ",
            counted(F.col("versions"), "set of directories", "different sets of directories"),
        ),
        evidence={"directories": "directories"},
    )
