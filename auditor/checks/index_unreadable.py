"""Indexes that exist and cannot be read."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, if_known, suspect_if, words
from auditor.model.columns import LEDGER
from auditor.model.states import VANISHED, IndexState


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    asks="unreadable_indexes",
    do_now="keep {bookies} out of recovery until the index is repaired",
)
def index_unreadable(tables: Tables) -> DataFrame:
    """A bookie's index is damaged.

    What it finds:
        Index files that are empty, shorter than their header, without the right magic, of an unknown version,
        or cut inside a page. One finding per ledger and bookie, with the file, the byte and the reason; what
        is left of a cut file counts as held. DbLedgerStorage: damaged RocksDB databases, one finding per
        bookie for the first; what could be read counts as held, all else on that bookie as unknown.

    Why it matters:
        The bookie cannot serve the entries behind the damage. Worse, asked for a ledger with an empty file it
        may begin a new index and answer that it has nothing, which recovery believes. A DbLedgerStorage
        bookie does not start with a damaged MANIFEST or table; with a damaged write-ahead log it starts and
        drops what follows.

    How sure:
        Confirmed: the file was read. Suspect where it was listed and was gone when it was read: a running
        bookie deletes what it collects. What a file does not show is unknown, never missing.

    What to do:
        Stop the bookie, or keep it out of recovery, until its index is repaired. Copy the file away first. If
        the other copies are good, delete nothing: replication makes a new copy elsewhere. To write a file
        anew, stop the bookie, and move an empty or too short file, or one without the right magic, away: the
        shell fails while it is there. Leave a file that is cut in a page, so that it keeps its master key.

    Commands:
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun`.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password PASSWORD`
          on the stopped bookie, writes the index from its entry logs. Risk: danger; keep a copy of the old
          index file. The password must be the ledger's, and an empty one cannot be given: with
          another the bookie refuses recovery of the ledger.
        - `bookkeeper shell localconsistencycheck`
          on the stopped bookie, follows every index entry into its entry log. Risk: none; it only reads. On
          DbLedgerStorage it always passes and says nothing.
        - `bookkeeper shell rebuild-db-ledgers-index`.
        - `bookkeeper shell rebuild-db-ledger-locations-index`.

    Limits:
        Damage that still parses, such as zeroed slots, looks like absent entries and is reported as such.
    """
    state, bookie = F.col("state"), F.col("bookie_id")
    read = tables.availability.where("storage <> 'rpc'").select(
        *LEDGER, "bookie_id", "state", "path", "offset", "reason"
    )
    rows = read.where("state in ('cut', 'unreadable', 'misplaced')").withColumn("total", F.lit(1))
    # A disk that failed takes several databases along: one fact, reported for the first of them.
    first = F.min_by(F.struct(*LEDGER, "state", "path", "offset", "reason"), "path").alias("first")
    damaged = read.where("state = 'damaged'").groupBy("bookie_id").agg(first, F.count("*").alias("total"))
    rows = rows.unionByName(damaged.select("bookie_id", "first.*", F.col("total").cast("int")))
    what = F.when(
        state == IndexState.DAMAGED, words("{bookie}: the index at {path}", bookie=bookie)
    ).otherwise(words("ledger {ledger}: its index on {bookie}", bookie=bookie))
    how = (
        F.when(state == IndexState.DAMAGED, " is damaged: ")
        .when(state == IndexState.CUT, " is cut short: ")
        .otherwise(" cannot be read: ")
    )
    other_databases = F.when(F.col("total") > 1, words("; {total} of its databases are damaged"))
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("reason") == VANISHED),
        unknown=F.array("bookie_id"),
        message=words("{what}{how}{reason}{more}", what=what, how=how, more=if_known(other_databases)),
        evidence="state, path, offset, reason",
    )
