"""Directories that lost their cookie."""

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
    urgency=1,
)
def disk_version_missing(tables: Tables) -> DataFrame:
    """A directory that a bookie's cookies name is there and has no VERSION.

    What it finds:
        Directories that the VERSION files of their bookie name, or its cookie in the store where it has
        none, and that have no VERSION themselves. One finding a bookie, with every such directory and
        whether anything lies in its current.

    Why it matters:
        The disk was wiped, replaced, or is not mounted: what the bookie had there is gone, and the metadata
        still counts on it. While the bookie runs nobody sees it. At its next start it refuses; a journal
        that was wiped is taken for a new one where allowStorageExpansion is set, and what it kept is lost
        without a word.

    How sure:
        Confirmed: the directory was found and has no VERSION.

    What to do:
        Mount the right disk if there is one. If it is gone, have the bookie's ledgers copied and set it up
        anew, or start it with dataIntegrityChecking and dataIntegrityStampMissingCookies. Never copy VERSION
        from another directory to make it start.

    Commands:
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -sk BOOKIE`.
        - `bookkeeper shell bookieformat -deleteCookie`
          Do it only once its ledgers are copied.

    Limits:
        A directory that is not there at all was perhaps not given to the audit, and is not reported. A
        VERSION that is there and cannot be read is cookie-unreadable.
    """
    from pyspark.sql import functions as F

    rows = (
        tables.directories.where("version_absent and role <> 'unknown' and place is not null")
        .groupBy("place")
        .agg(F.array_sort(F.collect_list(F.struct("path", "role", "empty"))).alias("directories"))
    )
    return finding_rows(
        rows,
        bookie_id="place",
        message=words(
            counted(F.size("directories"), "directory", "directories"),
            " of ",
            F.col("place"),
            F.when(F.size("directories") == 1, " has").otherwise(" have"),
            " no VERSION: ",
            listed(F.col("directories.path")),
        ),
        evidence={"directories": "directories"},
    )
