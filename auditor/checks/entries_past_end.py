"""Closed ledgers with entries past their end on an ack quorum of their bookies."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    Confidence,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Need,
    Severity,
    Tables,
    check,
)
from auditor.checks.finding_rows import finding_rows, list_entry_groups
from auditor.tables.parts import filter_table_part

_WRITER_DOUBT = "an index does not show whether these entries were acknowledged to the writer"
_TAKEOVER_NOTE = "a fenced writer that closes its own ledger leaves such entries too"


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    needs={Need.COPIES},
    asks="past_end",
    do_now="keep the data of {ledgers}, and ask the writer for the last entry",
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),),
)
def entries_past_end(tables: Tables) -> DataFrame:
    """An ack quorum of a closed ledger's bookies holds entries past the ledger's end.

    What it finds:
        Reports entries directly after the ledger's last entry. A ledger is not reported if its writer closed
        it and its metadata has not changed since. The severity is `note`, which forbids no action, if the
        metadata changed exactly as in one takeover (`taken_over`). In a takeover another client takes the
        ledger, as in a broker failover.

    Why it matters:
        Writers may have got acknowledgements for entries past the end, but no reader gets them. Recovery
        misses entries in two cases. Empty bookies replaced bookies of the ledger (bookkeeper #4812), or one
        bookie answered that it lacks an entry (#2908).

    How sure:
        Always suspect, even in later runs, because no data shows whether the writer got acknowledgements
        for the entries.

    What to do:
        Find out from the writing application, or from its log, which entry it wrote last. Until then, keep
        the bookies' data and the ledger.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        Entries that follow a missing entry count as `surplus-entries`. A takeover that lost entries because
        of bookkeeper #2908 also has only the severity `note`.
    """
    rows = filter_table_part("past_end", tables.judged).withColumn("behind", F.col("last_entry_id") + 1)
    held_entries = F.transform(
        F.array_sort("past_end"),
        lambda copy: F.struct(
            copy["bookie_id"].alias("bookie_id"),
            copy["count"].alias("count"),
            list_entry_groups(copy["groups"]).alias("groups"),
        ),
    )
    is_taken_over = F.coalesce("past_end_by_takeover", F.lit(False))
    return finding_rows(
        rows.withColumn("held", held_entries).withColumn("taken_over", is_taken_over),
        ledger_id="ledger_id",
        severity=F.when(is_taken_over, Severity.NOTE.value),
        confidence=Confidence.SUSPECT,
        message="ledger {ledger} ends at entry {last_entry_id}, but {past_end_last - "
        "last_entry_id:entry|entries} from {last_entry_id + 1} on {if(past_end_last - last_entry_id "
        "= 1, 'is', 'are')} held by an ack quorum ({ack_quorum}): {past_end.bookie_id:,}"
        f"{{if(taken_over, '; {_TAKEOVER_NOTE}', '')}}",
        evidence="last_entry_id AS last_entry, past_end_last AS last_held, ack_quorum, write_quorum, held, "
        f"array('{_WRITER_DOUBT}') AS doubts, version AS metadata_version, taken_over",
    )
