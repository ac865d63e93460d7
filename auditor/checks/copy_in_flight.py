"""Copies on a bookie outside the ensembles of a ledger that is being replicated."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.MARKS, Need.DISKS}, asks="over_replicated")
def copy_in_flight(tables: Tables) -> DataFrame:
    """A bookie holds entries of a marked or locked ledger whose ensembles do not name it yet.

    What it finds:
        Ledgers that are marked as under-replicated or locked by a worker, and entries of them on a bookie
        that no segment names. One finding per ledger and bookie.

    Why it matters:
        Replication copies entries first and rewrites the ensemble afterwards, so this is how a copy looks
        half-way. If it stays after the mark has gone, the copy was given up and takes space.

    How sure:
        Confirmed: the mark or lock was read. Suspect where the directory's cookie and place name two bookies.

    What to do:
        Nothing while replication works. Do not run `recover` by hand while bookies have just been drained: it
        takes no lock, and the target's collector may delete the fresh copy.

    Commands:
        - `bookkeeper shell listunderreplicated -pmr -prw`.

    Limits:
        A mark says that a copy is wanted, not that this bookie was chosen for it.
    """
    rows = with_attribution(tables.over_replicated, tables).where("marked or locked")
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message="ledger {ledger}: {bookie_id} holds {count:entry|entries} of it and is in none of its "
        "ensembles; the ledger is {if(locked, 'locked by a worker', 'marked for replication')}",
        evidence="count, state, marked, locked",
    )
