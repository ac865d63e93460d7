"""Bookie ids that occur only in under-replication marks."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, with_ledgers
from auditor.model.columns import LEDGER


@check(Severity.NOTE, rests_on=Basis.METADATA, needs={Need.MARKS}, asks="marks")
def mark_unknown_replica(tables: Tables) -> DataFrame:
    """Under-replication marks name a bookie id that appears nowhere else in the cluster.

    What it finds:
        Reports bookie ids in under-replication marks that have no cookie and no registration, and are in no
        ensemble.

    Why it matters:
        Somebody retired or renamed the bookie. The marks do not help to find missing entries.

    How sure:
        Confirmed: nothing else has this id.

    What to do:
        If the bookie was renamed, look for its other id. Otherwise, do nothing.

    Commands:
        - `bookkeeper shell listunderreplicated -mr BOOKIE`
          lists the marks with this id. Risk: none; it reads metadata.
        - `bookkeeper shell listbookies -a`.

    Limits:
        A host name and its IP address count as two ids.
    """

    from auditor.tables.marks import select_named_marks

    known_bookies = tables.bookies.where("named or has_cookie or registered is not null").select("bookie_id")
    replicas = select_named_marks(tables.marks).select(
        *LEDGER, F.explode(F.array_distinct("replicas")).alias("bookie_id")
    )
    rows = with_ledgers(replicas.join(F.broadcast(known_bookies), "bookie_id", "left_anti"), "bookie_id")
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message="{bookie_id} is known only from "
        "{total:under-replication mark|under-replication marks}, such as the mark of ledger {sample:,}",
        evidence="total AS marks, sample",
    )
