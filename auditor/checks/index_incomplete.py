"""Bookies that serve entries that are not in their index on disk."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    Column,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Need,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, with_ledgers, words


@check(
    Severity.WARNING,
    rests_on=Basis.DISKS,
    needs={Need.DISKS, Need.BOOKIE_ANSWERS, Need.TIMES},
    asks="unindexed",
    do_now="do not stop {bookies}: they serve entries missing from their audited disks; check the "
    "audited directories",
    holds=(
        HoldRule(
            HoldTarget.BOOKIE,
            (ActionKind.STOP, ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE, ActionKind.REBUILD_INDEX),
        ),
    ),
)
def index_incomplete(tables: Tables) -> DataFrame:
    """A bookie serves entries that its index on disk lacks.

    What it finds:
        Reports entries of closed ledgers that a running bookie served or listed (`rpc:`). The ledgers must
        not have changed within `--grace` seconds before the index was written.

    Why it matters:
        Such entries are only in the bookie's memory, or in a deleted file that it still has open. They are
        lost when the bookie stops.

    How sure:
        Confirmed if the bookie served the entries. Suspect if it only listed them.

    What to do:
        Do not stop the bookie. Have the ledgers copied while it serves them. Compare the audited
        directories with those that the bookie has open (`/proc/PID/fd`). A volume may be mounted over a
        directory, or its files may be deleted.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell recover -q -l ID BOOKIE`
          prints the ledger's ensembles. Risk: none with -q; it reads metadata.
        - `bookkeeper shell recover -l ID BOOKIE`.

    Limits:
        The audit asks the bookie only for a sample of the missing entries. Nothing is reported with etcd,
        because it stores no times.
    """

    def count_entries(is_served: bool) -> Column:
        return F.sum(F.when(F.col("served") == is_served, F.col("count")).otherwise(0))

    entry_counts = (count_entries(True).alias("entries"), count_entries(False).alias("listed"))
    rows = with_ledgers(tables.unindexed, "bookie_id", *entry_counts)
    is_only_listed = F.col("entries") == 0
    verb_text = F.when(is_only_listed, " lists ").otherwise(" serves ")
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        confidence=suspect_if(is_only_listed),
        message=words(
            "{bookie_id}{verb}{served:entry|entries} of {total:ledger|ledgers} that are missing from its "
            "index on disk",
            verb=verb_text,
            served=F.when(is_only_listed, F.col("listed")).otherwise(F.col("entries")),
        ),
        evidence="total AS ledgers, entries AS entries_served, listed AS entries_listed, sample",
    )
