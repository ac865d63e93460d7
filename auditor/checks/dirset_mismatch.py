"""Bookies whose disks and cookie in the store disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, listed, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.DISKS, needs={Need.DISKS})
def dirset_mismatch(tables: Tables) -> DataFrame:
    """The store's cookie of a bookie names other directories than those on its disks.

    What it finds:
        Bookies whose cookie in the store gives lists of journal, ledger or index directories that no VERSION
        of the bookie gives. A warning where one list only has more than the other, as after directories were
        added: allowStorageExpansion takes that; else an error. Where VERSION files differ among themselves
        and one of them agrees with the store, that is disk-dirs-disagree alone. A cookie in the store that
        names another bookie is cookie-key-mismatch alone.

    Why it matters:
        The bookie's configuration cannot agree with both: it refuses to start until they are alike. A
        journal's list must be the same to the letter, whatever is allowed.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Decide which of the two is right from the bookie's configuration, then change the other.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell updatecookie -e`.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        The bookie's configuration itself is out of sight; that its directories agree with it is not checked.
    """
    from pyspark.sql import functions as F

    theirs = ("journal_dirs", "ledger_dirs", "index_dirs")
    stored = tables.cookies.select("bookie_id", F.struct(*theirs).alias("stored"))
    rows = tables.starts.where("size(store_differs) > 0").join(stored, "bookie_id")
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        severity=F.when(F.col("store_grows"), Severity.WARNING.value),
        message=words(
            "the store's cookie of ",
            F.col("bookie_id"),
            " and its disks differ in ",
            listed(F.col("store_differs")),
        ),
        evidence={
            "fields": "store_differs",
            "stored": "stored",
            "on_disk": F.struct(*theirs),
            "expansion_takes_it": "store_grows",
        },
    )
