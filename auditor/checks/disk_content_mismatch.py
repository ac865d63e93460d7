"""Directories whose ledgers are another bookie's, whatever their cookies say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.content_evidence import points_elsewhere
from auditor.checks.finding_rows import counted, finding_rows, listed, words
from auditor.checks.reported_aliases import alias_pairs
from auditor.model.finding import Confidence, Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.DISKS, needs={Need.DISKS}, asks="contents", urgency=2)
def disk_content_mismatch(tables: Tables) -> DataFrame:
    """The ledgers in a directory are those of another bookie than the one it is counted for.

    What it finds:
        Directories of which at least five ledgers hold exactly the entries that another bookie should hold
        and lacks, and hardly any those of the bookie that the directory is counted for. One finding a bookie,
        with every such directory and what each id explains of it. VERSION has no part in it: it is found
        where cookies agree, or are gone. Where a VERSION that disagrees with the place is believed and the
        ledgers bear it out, `disk-id-mismatch` says so and this check says nothing; where they contradict it,
        both speak: VERSION was copied, and the disk may lie where it belongs.

    Why it matters:
        Disks were swapped or mounted in the wrong place and given the cookie of that place. The bookie
        starts, answers for ledgers that are not its own, lacks its own, and its garbage collector deletes
        after a day what no ensemble gives to it.

    How sure:
        Always suspect: a count of ledgers that match entry for entry, not a proof.

    What to do:
        Stop the bookie and its collector before anything else, and do not decommission anyone: nothing is
        lost while both disks exist. Then mount the disk at the bookie that its ledgers name, with that
        bookie's own VERSION.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Compare the directories of both ids.
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell listfilesondisc -txn -log -idx`.

    Limits:
        Two ids that should hold the same entries of every ledger cannot be told apart (all bookies of an
        ensemble, where each entry goes to all of them). A bookie that runs under a new id is told by
        `bookie-alias` and `alias-gc-danger`. Open ledgers are not counted but for segments that are finished.
    """
    from pyspark.sql import functions as F

    who = tables.bookies.select("bookie_id", "registered", "found")
    owner = who.select(F.col("bookie_id").alias("owner"), F.col("registered").alias("live"))
    candidate = who.withColumnRenamed("bookie_id", "candidate")
    # A live bookie whose ledgers name an id that nothing else knows any more was renamed.
    renamed = F.col("live").isNotNull() & F.col("registered").isNull() & ~F.col("found")
    alias = alias_pairs(tables).select(F.col("bookie_id").alias("owner"), F.col("alias").alias("candidate"))
    rows = (
        tables.contents.where(points_elsewhere())
        .join(F.broadcast(owner), "owner")
        .join(F.broadcast(candidate), "candidate")
        .where(~renamed)
        .join(F.broadcast(alias), ["owner", "candidate"], "left_anti")
    )
    found = rows.groupBy("owner").agg(
        F.array_sort(F.collect_set("candidate")).alias("ids"),
        F.sum("better").alias("better"),
        F.array_sort(
            F.collect_list(
                F.struct("directory", "place", "candidate", "ledgers", "named", "exact", "better", "worse")
            )
        ).alias("directories"),
    )
    number = F.size(F.array_distinct("directories.directory"))
    return finding_rows(
        found,
        bookie_id="owner",
        confidence=Confidence.SUSPECT,
        message=words(
            counted(number, "directory", "directories"),
            " counted for ",
            F.col("owner"),
            F.when(number == 1, " holds").otherwise(" hold"),
            " what ",
            listed(F.col("ids")),
            " should hold and lacks: ",
            counted(F.col("better"), "ledger", "ledgers"),
            ", entry for entry",
        ),
        evidence={"directories": "directories"},
    )
