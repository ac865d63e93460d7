"""Ledgers on a bookie that is in none of their ensembles."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.model.ledger_metadata import LedgerState


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="over_replicated")
def over_replicated_ledger(tables: Tables) -> DataFrame:
    """A bookie holds entries of a ledger whose ensembles do not name it.

    What it finds:
        Ledgers with metadata, and entries of them on a bookie that no segment names, where the ledger is
        neither marked nor locked. One finding per ledger and bookie.

    Why it matters:
        Mostly left over after replication moved a copy elsewhere; the bookie's collector removes it after a
        day of running. But if the bookie changed its id, these are its only copies under the new name, and
        that same collector will delete them.

    How sure:
        Confirmed for closed ledgers. Suspect where the ledger is not closed (its metadata may be about to
        change; BookKeeper then keeps the copy), where a member is unregistered or read-only (an operator may
        be copying, without a lock), and where the directory's cookie and place name two bookies.

    What to do:
        If a bookie has very many of these, find out whether it was renamed before it is left running. Setting
        gcOverreplicatedLedgerWaitTime=0 in its configuration stops this collection while you look; the bookie
        must be restarted for it.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its ensembles.
        - `bookkeeper shell updateBookieInLedger -sb OLD -db NEW`.

    Limits:
        Where replication copies without a lock, a fresh copy looks the same until the metadata follows. Of a
        copy in limbo, in the wrong directory or with an unreadable index no number of entries is known: the
        message gives none, and the count is 0.
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
