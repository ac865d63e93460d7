"""Directories whose cookie names another bookie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, listed, words
from auditor.checks.reported_aliases import alias_pairs
from auditor.model.alias_facts import Rule
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.DISKS, needs={Need.DISKS}, asks="directories")
def disk_id_mismatch(tables: Tables) -> DataFrame:
    """A directory in a bookie's place carries the cookie of another bookie.

    What it finds:
        Directories whose VERSION names another id than that of the bookie in whose place they lie. One
        finding a place, with every such directory. Their data is counted for the bookie that the cookie
        names, if the cluster knows it, and everything that rests on it is suspect. Where all cookies of a
        place name one other id, and `bookie-alias` takes both for one bookie, it says so, and this check says
        nothing.

    Why it matters:
        Disks were swapped, cloned or mounted in the wrong place, or the bookie's id was changed in its
        configuration. The bookie refuses to start; one that is forced to serves another bookie's data.

    How sure:
        Confirmed: VERSION says so. Whose place it is, is what the audit was told. What rests on the data of
        such a directory is no more than suspect.

    What to do:
        Put the disk where it belongs, or give the bookie its old id back (bookieId, advertisedAddress). Never
        copy VERSION from one directory to another to make a bookie start.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Compare the directories of both ids.
        - `bookkeeper shell updatecookie -b hostname`
          Do it once useHostNameAsBookieID is configured so.

    Limits:
        The place is what the audit was told: a directory named after the wrong bookie looks the same.
    """
    from pyspark.sql import functions as F

    told = tables.identity_edges.where(F.col("rule") == Rule.DISKS_NAME.value).select("one", "other")
    told = alias_pairs(tables).join(
        F.broadcast(told), F.expr("(bookie_id, alias) in ((one, other), (other, one))"), "left_semi"
    )
    rows = (
        tables.directories.where("cookie_bookie_id <> place")
        .join(F.broadcast(told), F.expr("place = bookie_id and cookie_bookie_id = alias"), "left_anti")
        .groupBy("place")
        .agg(
            F.array_sort(F.collect_set("cookie_bookie_id")).alias("named"),
            F.array_sort(
                F.collect_list(F.struct("path", "role", F.col("cookie_bookie_id").alias("names"), "owner"))
            ).alias("directories"),
        )
    )
    return finding_rows(
        rows,
        bookie_id="place",
        message=words(
            counted(F.size("directories"), "directory", "directories"),
            " in the place of ",
            F.col("place"),
            F.when(F.size("directories") == 1, " carries").otherwise(" carry"),
            " the cookie of ",
            listed(F.col("named")),
        ),
        evidence={"directories": "directories"},
    )
