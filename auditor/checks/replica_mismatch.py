"""Copies of one entry that differ."""

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
from auditor.checks.finding_rows import finding_rows, suspect_if, with_samples, words


@check(
    Severity.ERROR,
    rests_on=Basis.DIGESTS,
    asks="digests",
    do_now="keep all copies of {ledgers}, and ask the application which one is correct",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),
        HoldRule(HoldTarget.UNEQUAL_COPIES, (ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE)),
    ),
)
def replica_mismatch(tables: Tables) -> DataFrame:
    """Bookies hold different payloads of the same entry.

    What it finds:
        Reports sampled entries whose copies have different payloads, although no copy contradicts its own
        digest. Needs `--deep`.

    Why it matters:
        Readers and replication may get any of these payloads. A client that reuses a buffer during a send
        can cause this (pulsar #22906).

    How sure:
        Confirmed: written entries never change. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Read the entry from each bookie and keep all payloads. Ask the application which payload is right
        before anything copies the ledger.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Ignores bookies outside the ensembles, entries past the ledger's end, and ledgers whose digest
        type is unknown.
    """

    from auditor.tables.digests import differing_copies

    entries = differing_copies(tables.digests).withColumn("entry", F.struct("entry_id", "copies"))
    rows = with_samples(
        entries,
        ("scope_id", "ledger_id"),
        "entry",
        F.array_distinct(F.flatten(F.collect_set(F.flatten("copies.bookies")))).alias("bookies"),
    )
    suspect_bookies = tables.bookies.where("suspect").agg(F.collect_set("bookie_id").alias("suspects"))
    first_sample = F.col("sample")[0]
    copies = F.transform(
        first_sample["copies"],
        lambda copy: words(
            "{size:byte|bytes} with CRC-32C {crc} on {bookies:,}",
            size=copy["payload_bytes"],
            crc=copy["payload_crc32c"],
            bookies=copy["bookies"],
        ),
    )
    return finding_rows(
        rows.crossJoin(F.broadcast(suspect_bookies)),
        ledger_id="ledger_id",
        confidence=suspect_if(F.arrays_overlap("bookies", "suspects")),
        message=words(
            "ledger {ledger}: the copies of {total:sampled entry|sampled entries} differ; for example "
            "entry {sample[0].entry_id}: {copies}",
            copies=F.array_join(copies, "; "),
        ),
        evidence="total AS entries, array_sort(bookies) AS bookies, sample, 'tables/digests' AS rows",
    )
