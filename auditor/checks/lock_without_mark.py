"""Locks of replication workers on ledgers without an under-replication mark."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.columns import LEDGER

_MINUTE_MS = 60 * 1000


@check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS, Need.TIMES},
    asks="locks",
    settings=("lock_minutes",),
)
def lock_without_mark(tables: Tables) -> DataFrame:
    """A ledger has been locked for an hour, but has no under-replication mark.

    What it finds:
        Reports locks in the replication queue whose ledger has no mark.

    Why it matters:
        No replication worker takes a locked ledger. Garbage collection keeps the ledger's surplus copies.

    How sure:
        Always suspect, because a worker may just have finished. If two runs see the same lock time, the
        lock was left behind.

    What to do:
        Check whether AutoRecovery, or a bookie's garbage collection, still works on the machine that holds
        the lock. A restart of that process removes the lock.

    Commands:
        - `bookkeeper shell listunderreplicated -prw`
          lists the marked ledgers with their workers. Risk: none; it reads metadata.

    Limits:
        Bookies also lock ledgers while they check for over-replicated copies, but not for so long.
    """
    scan_time = F.lit(tables.cluster.scan_time)
    old_locks = tables.locks.where(F.lit(tables.cluster.has_marks) & F.col("damage").isNull()).where(
        scan_time - F.col("ctime") > tables.cluster.settings.lock_minutes * _MINUTE_MS
    )
    marked_ledgers = tables.marks.where("not misplaced").select(*LEDGER)
    minutes = ((scan_time - F.col("ctime")) / _MINUTE_MS).cast("bigint")
    return finding_rows(
        old_locks.join(marked_ledgers, [*LEDGER], "left_anti"),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        message=words(
            "ledger {ledger} has been locked by {coalesce(owner, 'a worker without a name')} for "
            "{minutes} minutes, but is not marked for re-replication",
            minutes=minutes,
        ),
        evidence={"path": "path", "owner": "owner", "since": "ctime", "minutes": minutes},
    )
