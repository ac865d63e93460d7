"""Unregistered bookies whose ledgers have no under-replication mark."""

from auditor.checks.bookie_findings import count_per_bookie
from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.model.columns import LEDGER
from auditor.model.states import DECODED


@check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS, Need.ALL_BOOKIES},
    asks="unregistered",
)
def mark_missing(tables: Tables) -> DataFrame:
    """Ledgers depend on an unregistered bookie, but are not marked for replication.

    What it finds:
        Reports unregistered bookies that should have entries of unmarked ledgers. Nothing is reported for
        etcd, because it has no marks.

    Why it matters:
        Replication copies only marked ledgers.

    How sure:
        Confirmed: all marks were listed. Suspect if all of the ledgers changed between the two metadata
        scans.

    What to do:
        Check whether the cluster has an auditor, and whether the auditor still waits for the recovery
        delay.

    Commands:
        - `bookkeeper shell whoisauditor`.
        - `bookkeeper shell lostbookierecoverydelay -g`.
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell triggeraudit`
          makes the auditor check now; it fails if replication is off or no auditor is elected.
          Risk: writes; it marks the ledgers, and replication starts on them.

    Limits:
        Missing marks are normal during the recovery delay.
    """

    from auditor.tables.scans import drop_deleted_ledgers

    unregistered_bookies = tables.unregistered.where("depending > 0")
    dependent_ledgers = (
        tables.ledgers.where(F.lit(tables.cluster.has_marks) & F.col("status").isin(*DECODED))
        .select(*LEDGER, F.explode("replicas").alias("replica"))
        .where("replica.depends")
        .select(*LEDGER, "replica.bookie_id")
        .join(F.broadcast(unregistered_bookies.select("bookie_id")), "bookie_id", "left_semi")
    )
    unmarked_ledgers = dependent_ledgers.join(
        tables.marks.where("not misplaced").select(*LEDGER), [*LEDGER], "left_anti"
    )
    # Marks were listed after the second scan; a ledger deleted by then needs none.
    rows = drop_deleted_ledgers(unmarked_ledgers, tables.moved_ledgers).withColumnRenamed("moved", "doubtful")
    bookie_rows = count_per_bookie(rows).join(
        F.broadcast(unregistered_bookies.select("bookie_id", "depending")), "bookie_id"
    )
    return finding_rows(
        bookie_rows,
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("total") == 0),
        message=words(
            "{bookie_id} is not registered; {total + doubted} of {depending:ledger that depends on it "
            "has|ledgers that depend on it have} no mark; for example ledger {sample:,}{doubts}",
            doubts=F.when(
                F.col("doubted") > 0, words("; {doubted} of these changed while the audit ran")
            ).otherwise(""),
        ),
        evidence="total AS unmarked, doubted AS doubted_unmarked, depending, sample",
    )
