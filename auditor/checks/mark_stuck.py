"""Old under-replication marks that no replication worker has locked."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.ledger_queries import waiting_marks
from auditor.model.columns import LEDGER
from auditor.model.states import DECODED, LISTED


@check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS},
    asks="marks",
    do_now="search the replication workers' logs for {ledgers}",
    settings=("stuck_hours",),
)
def mark_stuck(tables: Tables) -> DataFrame:
    """A ledger has been marked as under-replicated for a day, but no worker works on it.

    What it finds:
        Reports marks that no worker has locked. The severity is `error` if the ledger's only copies are on
        an unregistered bookie, because no worker can copy it.

    Why it matters:
        Replication is off, lacks writable bookies, or fails on this ledger repeatedly.

    How sure:
        Confirmed by the mark's own time. Suspect if the metadata scan does not show whether the ledger
        exists. Suspect if the ledger changed between the two metadata scans.

    What to do:
        Search the replication workers' logs for the ledger. For a ledger with one copy, start its bookie.

    Commands:
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell autorecovery -e`.
        - `bookkeeper shell listunderreplicated -pmr -prw`.
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell deleteledger -l ID`
          Run it only if no copy of the ledger will return.

    Limits:
        A mark's age counts from the time when its last bookie was added.
    """

    from auditor.tables.marks import find_registered_ids

    marks = waiting_marks(tables).where("not empty")
    dependent_bookies = F.transform(
        F.filter("replicas", lambda replica: replica["depends"]), lambda replica: replica["bookie_id"]
    )
    ledgers = (
        tables.ledgers_of_marks.where(F.col("status").isin(*DECODED))
        .join(marks.select(*LEDGER), [*LEDGER], "left_semi")
        .select(*LEDGER, "write_quorum", dependent_bookies.alias("members"))
    )
    listed_ledgers = tables.ledgers_of_marks.where(F.col("status").isin(*LISTED)).select(*LEDGER).distinct()
    is_unrecoverable = (F.col("write_quorum") == 1) & (F.size(F.array_except("members", "registered")) > 0)
    marks = marks.join(listed_ledgers.withColumn("listed", F.lit(True)), [*LEDGER], "left")
    rows = marks.join(ledgers, [*LEDGER], "left").crossJoin(find_registered_ids(tables.bookies))
    rows = rows.withColumn("unrecoverable", F.coalesce(is_unrecoverable, F.lit(False)))
    age_hours = ((F.lit(tables.cluster.scan_time) - F.col("since")) / 3_600_000).cast("bigint")
    return finding_rows(
        rows.withColumn("hours", age_hours),
        ledger_id="ledger_id",
        severity=F.when(F.col("unrecoverable"), Severity.ERROR.value),
        confidence=suspect_if(F.col("listed").isNull()),
        message=words(
            "ledger {ledger} has been marked for {replicas:,} for {hours} hours, but no worker has locked "
            "it{lost}",
            lost=F.when(F.col("unrecoverable"), "; its only copies are on an unregistered bookie").otherwise(
                ""
            ),
        ),
        evidence="path, replicas, since, hours, unrecoverable",
    )
