"""Ledgers on a bookie that none of their ensembles names."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.model.ledger_metadata import LedgerState


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="over_replicated")
def over_replicated_ledger(tables: Tables) -> DataFrame:
    """A bookie holds entries of a ledger whose ensembles do not name it.

    What it finds:
        Ledgers, neither marked nor locked, on a bookie that no segment names. The number of entries is 0 if
        the entries are unknown.

    Why it matters:
        Mostly replication moved the copy. The collector deletes the old one after a day of running, even if
        these are the only copies because the bookie changed its id.

    How sure:
        Confirmed for closed ledgers. Suspect if the ledger is not closed: BookKeeper keeps the copy.
        Suspect if a member is unregistered or read-only: an operator may be copying without a lock. Suspect
        with `disk-id-mismatch`.

    What to do:
        If a bookie has very many, find out whether it was renamed. Meanwhile
        gcOverreplicatedLedgerWaitTime=0 and a restart stop this collection.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.

    Limits:
        A fresh copy by replication without a lock looks the same.
    """
    rows = with_attribution(tables.over_replicated, tables).where("not marked and not locked")
    rows = rows.withColumn("open", F.col("state") != LedgerState.CLOSED)
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("open") | F.col("exposed") | F.col("attribution_suspect")),
        message=words(
            "ledger {ledger}{if(open, ' (open)', '')}: {bookie_id} holds {held} and is in none of its "
            "ensembles",
            # The count is 0 for an index that is unreadable, in limbo or in the wrong directory.
            held=F.when(F.col("count") > 0, words("{count:entry|entries} of it")).otherwise("it"),
        ),
        evidence="count, state, open, exposed, attribution_suspect",
    )
