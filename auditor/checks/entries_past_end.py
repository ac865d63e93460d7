"""Closed ledgers that end before entries which an ack quorum of their bookies holds."""

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
from auditor.checks.finding_rows import finding_rows, group_list
from auditor.tables.parts import filter_part

_DOUBT = "an index does not show whether the writer was told that they are safe"
_TAKEN_OVER = "a writer that is fenced and closes its ledger itself leaves the same"


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    needs={Need.COPIES},
    asks="past_end",
    do_now="keep the data of {ledgers}, and ask the writer for the last entry",
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),),
)
def entries_past_end(tables: Tables) -> DataFrame:
    """A closed ledger ends before entries that an ack quorum of its bookies holds.

    What it finds:
        Closed ledgers with a run of entries right behind the last one, each on at least an ack quorum of its
        bookies; an unread bookie counts as holding none. One finding per ledger, with the run and its
        holders. Not reported where the metadata shows that the writer closed the ledger and nobody recovered
        or repaired it since. A note without a hold where it was taken over once and never changed since
        (`taken_over`): brokers that fail over leave it every day.

    Why it matters:
        These entries may have been acknowledged, and no reader gets them. Recovery misses entries where
        bookies were replaced by empty ones at the same addresses while the writer went on (bookkeeper #4812),
        or where a bookie denied an entry that it had (#2908).

    How sure:
        Always suspect: nobody sees whether the writer was told of these entries. Of 108 takeovers of busy
        writers 55 left such entries, none acknowledged. Re-replicated later, such a ledger looks unexplained.
        A later run does not make it surer.

    What to do:
        Ask the ledger's writer, or its log, for the last entry that it believes in. Keep the bookies' data
        until then: deleting the ledger deletes these entries.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its last entry, its state and its ensembles.
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        Entries behind a hole are `surplus-entries`. The application may have written the same data to another
        ledger. A recovery with wrong answers (#2908) looks like any takeover, and is a note too.
    """
    rows = filter_part("past_end", tables.judged).withColumn("behind", F.col("last_entry_id") + 1)
    held_entries = F.transform(
        F.array_sort("past_end"),
        lambda copy: F.struct(
            copy["bookie_id"].alias("bookie_id"),
            copy["count"].alias("count"),
            group_list(copy["groups"]).alias("groups"),
        ),
    )
    taken_over = F.coalesce("past_end_by_takeover", F.lit(False))
    return finding_rows(
        rows.withColumn("held", held_entries).withColumn("taken_over", taken_over),
        ledger_id="ledger_id",
        severity=F.when(taken_over, Severity.NOTE.value),
        confidence=Confidence.SUSPECT,
        message="ledger {ledger} ends at entry {last_entry_id}, and {past_end_last - "
        "last_entry_id:entry|entries} from {last_entry_id + 1} on {if(past_end_last - last_entry_id "
        "= 1, 'is', 'are')} held by an ack quorum ({ack_quorum}): {past_end.bookie_id:,}"
        f"{{if(taken_over, '; {_TAKEN_OVER}', '')}}",
        evidence="last_entry_id AS last_entry, past_end_last AS last_held, ack_quorum, write_quorum, held, "
        f"array('{_DOUBT}') AS doubts, version AS metadata_version, taken_over",
    )
