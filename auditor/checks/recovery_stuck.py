"""Ledgers that have been in recovery for a day."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import DECODED


@check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.TIMES},
    asks="recovering_ledgers",
    do_now="find out which bookies of the last ensembles of {ledgers} are down",
    settings=("stuck_hours",),
)
def recovery_stuck(tables: Tables) -> DataFrame:
    """A ledger has been in recovery for a day.

    What it finds:
        Reports ledgers in state IN_RECOVERY whose metadata has not changed for 24 hours.

    Why it matters:
        A client began to close the ledger and did not finish. Nobody can write to it until somebody opens
        it with recovery.

    How sure:
        Confirmed by the record's own time. Suspect if the ledger changed between the two metadata scans.

    What to do:
        First start those bookies of the ledger's last ensemble that are down. Without them, recovery may
        cut off acknowledged entries.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell readledger -l ID -r`
          opens the ledger with recovery, then reads it all. Risk: danger; it fences the ledger, fixes its
          end, and cannot be undone.

    Limits:
        A recovery that still adds entries is reported too, because it does not change the metadata.
    """
    recovery_age = F.lit(tables.cluster.scan_time) - F.col("mtime")
    recovery_hours = (recovery_age / 3_600_000).cast("bigint")
    return finding_rows(
        tables.ledgers.where(
            F.col("status").isin(*DECODED)
            & (F.col("state") == LedgerState.IN_RECOVERY)
            & (recovery_age > tables.cluster.settings.stuck_limit_ms)
        ),
        ledger_id="ledger_id",
        message=words("ledger {ledger} has been in recovery for {hours} hours", hours=recovery_hours),
        evidence={"mtime": "mtime", "hours": recovery_hours, "path": "path"},
    )
