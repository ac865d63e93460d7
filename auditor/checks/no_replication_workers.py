"""Clusters with under-replication marks older than a day and no lock of a replication worker."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import waiting_marks
from auditor.model.amounts import plural


@check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS},
    asks="marks",
    do_now="check whether replication workers run, and what their logs say",
    settings=("stuck_hours",),
)
def no_replication_workers(tables: Tables) -> DataFrame:
    """Marked ledgers have waited for a day or more, but no worker works on any ledger.

    What it finds:
        Reports clusters in which replication is switched on, but no ledger is locked. Stale marks and marks
        of deleted or empty ledgers do not count.

    Why it matters:
        Probably nothing is copied.

    How sure:
        Always suspect, because workers do not register, and hold no lock between ledgers.

    What to do:
        Check that AutoRecovery runs, and read the logs of its workers.

    Commands:
        - `bookkeeper shell whoisauditor`.
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell listunderreplicated -pmr -prw`.

    Limits:
        A cluster whose workers fail immediately is reported too.
    """
    repair_state = tables.cluster.repair
    is_idle = not repair_state.locked and not repair_state.disabled
    waiting_ledgers = (
        waiting_marks(tables)
        .where("not empty")
        .agg(F.count("*").alias("marks"), F.min("since").alias("oldest"))
    )
    waiting_hours = ((F.lit(tables.cluster.scan_time) - F.col("oldest")) / 3_600_000).cast("bigint")
    rows = waiting_ledgers.where(F.lit(is_idle) & (F.col("marks") > 0)).withColumn("hours", waiting_hours)
    return finding_rows(
        rows,
        confidence=Confidence.SUSPECT,
        message=words(
            "{marks:marked ledger has|marked ledgers have} waited for over {stuck}, the oldest for {hours} "
            "hours, and no worker holds a lock; {votes}",
            stuck=tables.cluster.settings.stuck_duration_text,
            votes=plural(
                repair_state.votes,
                "AutoRecovery process votes in the auditor election",
                "AutoRecovery processes vote in the auditor election",
            ),
        ),
        evidence={
            "marks": F.col("marks"),
            "oldest": F.col("oldest"),
            "waiting": F.lit(repair_state.waiting),
            "votes": F.lit(repair_state.votes),
        },
    )
