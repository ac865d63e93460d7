"""Under-replication marks and locks that no replication worker can use."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import empty_if_null, finding_rows, with_samples, words
from auditor.model.columns import LEDGER


@check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS},
    asks="damaged_marks",
    do_now="inspect the marks that cannot be read",
)
def mark_unreadable(tables: Tables) -> DataFrame:
    """An under-replication mark or lock cannot be read, or is at a path where no worker looks.

    What it finds:
        Reports znodes below underreplication that cannot be parsed, and marks that are not at the path of
        their ledger id.

    Why it matters:
        A pass of BookKeeper's auditor may stop at such a mark.

    How sure:
        Confirmed by the znode's bytes.

    What to do:
        Read the znode with ZooKeeper's client (`get PATH`). If the ledger is healthy, remove the mark by
        hand, but only while replication is off.

    Commands:
        - `bookkeeper shell listunderreplicated`
          lists the marks that the cluster can read. Risk: none; it reads metadata.
        - `bookkeeper shell autorecovery -d`
          switches replication off for the whole cluster. Risk: writes; nothing is copied until
          `autorecovery -e` switches it on again.

    Limits:
        A lock may have been removed since the scan.
    """
    misplaced_reason = F.when(F.col("misplaced"), "its path does not match the ledger's id")
    marks = tables.marks.where("damage is not null or misplaced").select(
        *LEDGER, "path", F.coalesce("damage", misplaced_reason).alias("reason")
    )
    locks = tables.locks.where("damage is not null").select(*LEDGER, "path", F.col("damage").alias("reason"))
    rows = with_samples(marks.unionByName(locks), LEDGER, "path", F.min_by("reason", "path").alias("reason"))
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        message=words(
            "{whose}mark or lock at {sample:,}: {reason}", whose=empty_if_null(words("ledger {ledger}: "))
        ),
        evidence="sample AS paths, total, reason",
    )
