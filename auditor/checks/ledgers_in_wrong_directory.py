"""Ledgers in a directory where their bookie does not look for them."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers, words
from auditor.checks.ledger_queries import rows_of_members
from auditor.model.columns import REPLICA
from auditor.model.states import IndexState
from auditor.tables.parts import filter_table_part

_LOCATIONS_SUFFIX = "/current/locations(-scoped)?$"


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    asks="in_wrong_directory",
    do_now="stop {bookies}, and swap the directories back",
    action=ActionKind.STOP,
    holds=(
        HoldRule(
            HoldTarget.BOOKIE, (ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE, ActionKind.REBUILD_INDEX)
        ),
    ),
)
def ledgers_in_wrong_directory(tables: Tables) -> DataFrame:
    """A bookie has ledgers in one of its directories, but looks for them in another.

    What it finds:
        Reports ledgers in the wrong directory. DbLedgerStorage looks for ledger ID only in the directory
        whose number is ID modulo the number of directories. These copies count as unknown.

    Why it matters:
        The bookie answers that it does not have the ledger, and a recovery may cut off the ledger's end.

    How sure:
        Confirmed: the databases were read. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Stop the bookie at once. Ledgers that it writes now cannot be found after the directories are
        corrected. Restore the directories, or their order in ledgerDirectories. Then audit again.

    Commands:
        - `bkaudit explain bookie BOOKIE`
          shows the bookie's directories and the data that was read there. Risk: none; it reads the run.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        The check covers only DbLedgerStorage.
    """
    rows = filter_table_part("in_wrong_directory", tables.availability).select(*REPLICA)
    bookie_rows = with_ledgers(rows_of_members(rows, tables), "bookie_id")
    is_wrong_directory = F.col("state") == IndexState.WRONG_DIRECTORY
    directories = (
        tables.availability.where("storage = 'rocksdb' and ledger_id is not null")
        .join(F.broadcast(bookie_rows.select("bookie_id")), "bookie_id", "left_semi")
        .groupBy("bookie_id", F.regexp_replace("path", _LOCATIONS_SUFFIX, "").alias("path"))
        .agg(F.count_if(is_wrong_directory).alias("wrong"), F.count_if(~is_wrong_directory).alias("right"))
        .where("wrong > 0")
        .groupBy("bookie_id")
        .agg(F.array_sort(F.collect_list(F.struct("path", "wrong", "right"))).alias("directories"))
    )
    is_mostly_wrong = F.forall("directories", lambda directory: directory["wrong"] > directory["right"])
    is_exchanged = is_mostly_wrong & (F.size("directories") > 1)
    return finding_rows(
        with_attribution(
            bookie_rows.join(directories, "bookie_id").withColumn("exchanged", is_exchanged), tables
        ),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        unknown=F.array("bookie_id"),
        message=F.when(
            F.col("exchanged"),
            words(
                "the directories {directories.path:,} of {bookie_id} were swapped, so it cannot find "
                "{total:ledger|ledgers}"
            ),
        ).otherwise(
            words(
                "{bookie_id} cannot find {total:ledger|ledgers}, because they are in the wrong directory: "
                "{directories.path:,}"
            )
        ),
        evidence="exchanged, directories, total AS ledgers, sample",
    )
