"""Bookies that go by several ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, listed, suspect_if, words
from auditor.checks.reported_aliases import reported_aliases
from auditor.model.alias_facts import Rule
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.CRITICAL,
    group="identity",
    rests_on=Basis.DISKS,
    needs={Need.DISKS},
    asks="identity_edges",
    urgency=3,
)
def bookie_alias(tables: Tables) -> DataFrame:
    """Ledgers name a bookie by an id that is not registered, and another id is the same bookie.

    What it finds:
        Ids that are one bookie as far as metadata and disks tell: one registered where another says it is, a
        host's name and its IP, two spellings of one host, or disks of a live bookie that hold what ledgers
        ask of an id that is gone; a short name, a cookie or VERSION with another's id, or the same
        directories, where two of these agree. One finding a bookie, under the first of its ids that ensembles
        name and nobody is registered as. The evidence lists all its ids and every edge between them: the
        rule, what was seen, whether it joins by itself, and what speaks against it. A note where no entry
        depends on such an id.

    Why it matters:
        The bookie's id changed (bookieId, advertisedAddress, useHostNameAsBookieID, letter case) and its
        ledgers' metadata did not. Nobody finds the old id, so its copies are out of reach where they lie; and
        to the collector of the bookie that has them they are left-overs (`alias-gc-danger`).

    How sure:
        Confirmed where the disks of the registered bookie hold most of what the other id should hold, entry
        for entry, and at least five ledgers of it, and none of the directories of these ids lies in another's
        place. Else suspect: a name is a hint, and an address may have been given to another bookie.

    What to do:
        Look at the edges, and make sure on the host itself that it is one bookie. If it is, stop it, and
        either give it its old id back, or teach the ledgers the new one, and the cookie only when the ledgers
        are done. If it is another bookie at an old address, do neither: what `bookie-down` and `ghost-bookie`
        say of the old id holds.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          Ask for the registered id.
        - `bookkeeper shell cookie_get BOOKIE`
          Compare the directories of the ids.
        - `bookkeeper shell listledgers -bookieid BOOKIE`
          Ask for the id that is not registered.
        - `bookkeeper shell listfilesondisc -txn -log -idx`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.
        - `bookkeeper shell updateledgers -bookieId hostname`.
        - `bookkeeper shell updatecookie -b hostname`
          Do it only when the ledgers are done.

    Limits:
        Names are not resolved. Nothing is said of ids that their ledgers tell apart: the disks of the
        registered bookie hold nothing of the other's, or most ensembles name both. Nor of a hint alone, such
        as a short name, or directories that like hosts share. Ids of which all are registered are
        `endpoint-duplicate`.
    """
    from pyspark.sql import functions as F

    members = reported_aliases(tables)
    stranded = F.expr("named and registered is null")
    each = F.struct(
        "bookie_id", "named", "registered", "has_cookie", "marked", "found", "read", "ledgers", "depending",
        "replicas",
    )  # fmt: skip
    bookies = members.groupBy("identity").agg(
        F.min(F.when(stranded, F.col("bookie_id"))).alias("bookie_id"),
        F.sum(F.when(stranded, F.col("depending")).otherwise(0)).alias("depending"),
        F.max("suspect").alias("attribution_suspect"),
        F.array_sort(F.collect_list("bookie_id")).alias("names"),
        F.array_sort(F.collect_list(each)).alias("ids"),
    )
    edge = F.struct("one", "other", "rule", "joins", "evidence", "against")
    ends = members.select("identity", F.col("bookie_id").alias("one"))
    said = (
        tables.identity_edges.join(F.broadcast(ends), "one")
        .join(F.broadcast(ends.select(F.col("identity").alias("also"), F.col("one").alias("other"))), "other")
        .where("identity = also")
        .groupBy("identity")
        .agg(
            F.array_sort(F.collect_list(edge)).alias("edges"),
            F.array_sort(F.collect_set("rule")).alias("rules"),
        )
    )
    return finding_rows(
        bookies.join(said, "identity"),
        bookie_id="bookie_id",
        severity=F.when(F.col("depending") == 0, Severity.NOTE.value),
        confidence=suspect_if(
            ~F.array_contains("rules", Rule.SAME_LEDGERS.value) | F.col("attribution_suspect")
        ),
        message=words(
            F.col("bookie_id"),
            " is not registered and looks like one bookie with ",
            listed(F.array_remove("names", F.col("bookie_id"))),
            " (",
            listed(F.col("rules")),
            "); ",
            counted(F.col("depending"), "ledger depends", "ledgers depend"),
            " on it",
        ),
        evidence={"ids": "ids", "edges": "edges", "attribution_suspect": "attribution_suspect"},
    )
