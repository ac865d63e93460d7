"""Ledgers with copies on a bookie that is in none of their ensembles."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.model.ledger_metadata import LedgerState


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="over_replicated")
def over_replicated_ledger(tables: Tables) -> DataFrame:
    """A bookie holds entries of a ledger, but no ensemble of the ledger names the bookie.

    What it finds:
        Reports ledgers that have neither an under-replication mark nor a lock. If it is unknown which
        entries the bookie has, the evidence `count` is 0.

    Why it matters:
        Usually replication moved the copy to another bookie. After a day of uptime the bookie's garbage
        collector deletes the old copy. If the bookie changed its id, this copy may be the only one.

    How sure:
        Confirmed if the ledger is closed. Suspect if it is not closed: BookKeeper then keeps the copy.
        Suspect if a bookie of the ledger's ensembles is unregistered or read-only. An operator may then
        be copying the ledger without a lock. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        If a bookie has very many such ledgers, find out whether its id changed. Until you know, set
        gcOverreplicatedLedgerWaitTime=0 and restart the bookie: it then keeps these copies.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.

    Limits:
        A copy that replication has just made without a lock is reported too.
    """
    rows = with_attribution(tables.over_replicated, tables).where("not marked and not locked")
    rows = rows.withColumn("open", F.col("state") != LedgerState.CLOSED)
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("open") | F.col("exposed") | F.col("attribution_suspect")),
        message=words(
            "ledger {ledger}{if(open, ' (open)', '')}: {bookie_id} holds {held}, but is in none of its "
            "ensembles",
            # The count is 0 for an index that is unreadable, in limbo or in the wrong directory.
            held=F.when(F.col("count") > 0, words("{count:entry|entries} of it")).otherwise("it"),
        ),
        evidence="count, state, open, exposed, attribution_suspect",
    )
