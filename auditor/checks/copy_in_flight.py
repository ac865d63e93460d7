"""Copies that replication is making on bookies that are not yet in the ledger's ensembles."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, words
from auditor.model.columns import LEDGER


@check(Severity.NOTE, rests_on=Basis.DISKS, needs={Need.MARKS, Need.DISKS}, asks="over_replicated")
def copy_in_flight(tables: Tables) -> DataFrame:
    """A bookie holds entries of a marked or locked ledger, but no ensemble of the ledger names the bookie.

    What it finds:
        Reports copies that replication is probably making now. Replication rewrites the ensemble
        afterwards.

    Why it matters:
        A copy that remains after the mark is removed only takes up space.

    How sure:
        Confirmed if a replication worker has locked the ledger, or if replication is on and a worker runs.
        Suspect if no worker is known to run. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Do nothing while replication works. Do not run `recover` by hand after replication has emptied a
        bookie. The target bookie's garbage collector may delete the fresh copy.

    Commands:
        - `bookkeeper shell listunderreplicated -pmr -prw`.

    Limits:
        A mark does not prove that a replication worker made these copies.
    """
    repair_state = tables.cluster.repair
    is_replicating = bool(repair_state.votes or repair_state.locked) and not repair_state.disabled
    surplus_copies = with_attribution(tables.over_replicated, tables).where("marked or locked")
    rows = surplus_copies.groupBy(*LEDGER, "state", "marked", "locked").agg(
        F.expr("array_sort(collect_list(struct(bookie_id, count)))").alias("copies"),
        F.sum("count").alias("total"),
        F.expr("bool_or(attribution_suspect)").alias("attribution_suspect"),
    )
    queue_clause = "the ledger is marked for re-replication" + (
        "" if is_replicating else ", but no replication worker is known to run"
    )
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        confidence=suspect_if(F.col("attribution_suspect") | ~(F.col("locked") | F.lit(is_replicating))),
        message=words(
            "ledger {ledger}: {bookies:,} {if(size(copies) = 1, 'holds', 'hold')} {total:entry|entries} of "
            "it, but {if(size(copies) = 1, 'is', 'are')} in none of its ensembles; {waits}",
            bookies=F.col("copies.bookie_id"),
            waits=F.when(F.col("locked"), "the ledger is locked by a worker").otherwise(queue_clause),
        ),
        evidence="copies, state, marked, locked",
    )
