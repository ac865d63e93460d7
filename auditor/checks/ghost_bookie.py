"""Bookie ids that ensembles name and nothing else knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import counted, finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.METADATA, needs={Need.ALL_BOOKIES})
def ghost_bookie(tables: Tables) -> DataFrame:
    """Ledgers name a bookie that has no cookie and is not registered.

    What it finds:
        Bookie ids in ensembles without a cookie in the store and without a registration. An error where a
        non-empty segment stripes entries to the id; a note where only empty segments, or none of its entries,
        depend on it.

    Why it matters:
        The cluster has forgotten the bookie while ledgers still rely on it. It was removed before its ledgers
        were copied, or it came back under another id; then its copies exist and nobody looks there.

    How sure:
        Confirmed: the cookies were listed, and neither scan saw a registration.

    What to do:
        Find the host. If it runs under another id, the metadata must learn it (the evidence has the ids that
        `bookie-alias` takes for the same bookie); if it is gone, its ledgers must be copied.

    Commands:
        - `bookkeeper shell listledgers -bookieid BOOKIE`
          Those that name it in empty segments alone are left out.
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -sk BOOKIE`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.

    Limits:
        Ids are compared as they stand: a host name and its address are two ids. Ids that end with :0 are
        bookie-id-reserved instead.
    """
    from pyspark.sql import functions as F

    others = tables.identities.where("stranded").select("bookie_id", "aliases")
    ghosts = tables.unregistered.where("not has_cookie").where(~F.col("bookie_id").endswith(":0"))
    return finding_rows(
        ghosts.join(F.broadcast(others), "bookie_id", "left"),
        bookie_id="bookie_id",
        severity=F.when(F.col("depending") == 0, Severity.NOTE.value),
        message=words(
            F.col("bookie_id"),
            " has no cookie and is not registered; ",
            counted(F.col("ledgers"), "ledger names", "ledgers name"),
            " it, ",
            counted(F.col("depending"), "ledger depends", "ledgers depend"),
            " on it",
        ),
        evidence={
            "ledgers": "ledgers",
            "depending": "depending",
            "replicas": "replicas",
            "found": "found",
            "aliases": "aliases",
        },
    )
