"""Ledgers on a bookie that is in none of their ensembles."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.model.ledger_metadata import LedgerState


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="over_replicated")
def over_replicated_ledger(tables: Tables) -> DataFrame:
    """A bookie holds entries of a ledger whose ensembles do not name it.

    What it finds:
        Ledgers with metadata, neither marked nor locked, with entries on a bookie that no segment names. One
        finding per ledger and bookie.

    Why it matters:
        Mostly replication moved the copy elsewhere, and the collector removes the old one after a day of
        running. But if the bookie changed its id, these are its only copies, and the collector will delete
        them.

    How sure:
        Confirmed for closed ledgers. Suspect where the ledger is not closed (BookKeeper keeps the copy),
        where a member is unregistered or read-only (an operator may be copying without a lock), and where the
        directory's cookie and place name two bookies.

    What to do:
        If a bookie has very many of these, find out whether it was renamed before you leave it running.
        Setting gcOverreplicatedLedgerWaitTime=0 and restarting the bookie stops this collection meanwhile.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its ensembles.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.

    Limits:
        Where replication copies without a lock, a fresh copy looks the same. A copy in limbo, in the wrong
        directory or with an unreadable index has the count 0: its entries are unknown.
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
            # None is known of an index in limbo, in the wrong directory or unreadable.
            held=F.when(F.col("count") > 0, words("{count:entry|entries} of it")).otherwise("it"),
        ),
        evidence="count, state, open, exposed, attribution_suspect",
    )
