"""Damaged indexes."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import empty_if_null, finding_rows, suspect_if, words
from auditor.model.columns import LEDGER
from auditor.model.states import DELETED_REASON, IndexState


@check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    asks="unreadable_indexes",
    do_now="keep {bookies} out of recovery until the index is repaired",
)
def index_unreadable(tables: Tables) -> DataFrame:
    """A bookie's index is damaged.

    What it finds:
        Reports these damaged parts of an index. Their entries count as unknown, never as missing:
        - Index files that are empty or cut off, or have a wrong magic number or an unknown version.
        - RocksDB databases of DbLedgerStorage. A bookie has one finding, for its first damaged database.

    Why it matters:
        With an empty index file, the bookie may answer that it has no entry, and recovery believes that. A
        DbLedgerStorage bookie does not start with a damaged RocksDB MANIFEST or table file. With a damaged
        write-ahead log, it starts and drops the rest of that log.

    How sure:
        Confirmed: the file was read. Suspect if the file was gone when the audit read it: a running bookie
        deletes indexes of deleted ledgers.

    What to do:
        Stop the bookie, or keep it out of recovery, until its index is repaired. First save a copy of the
        file. If the ledger's other copies are good, delete nothing: replication makes a new copy elsewhere.
        Before you regenerate an index file, stop the bookie. Then:
        - Move away a file that is empty or too short, or has a wrong magic number.
        - Leave a file in place if it is cut off inside a page, because it has the master key.

    Commands:
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun`.
        - `bookkeeper shell regenerate-interleaved-storage-index-file -l ID -password PASSWORD`
          writes the ledger's index from the entry logs. Run it on the stopped bookie. Risk: danger; keep
          the old index file. Give the ledger's own password, not an empty one: with another the bookie
          refuses recovery of the ledger.
        - `bookkeeper shell localconsistencycheck`
          follows every index entry into its entry log. Run it on the stopped bookie. Risk: none; it only
          reads. On DbLedgerStorage it always passes and proves nothing.
        - `bookkeeper shell rebuild-db-ledgers-index`.
        - `bookkeeper shell rebuild-db-ledger-locations-index`.

    Limits:
        Damage in a file that can still be parsed, such as zeroed slots, looks like absent entries.
    """
    index_state, bookie_id = F.col("state"), F.col("bookie_id")
    index_rows = tables.availability.where("storage <> 'rpc'").select(
        *LEDGER, "bookie_id", "state", "path", "offset", "reason"
    )
    rows = index_rows.where("state in ('cut', 'unreadable', 'misplaced')").withColumn("total", F.lit(1))
    # A failed disk damages several databases; report the first only.
    first_damage = F.min_by(F.struct(*LEDGER, "state", "path", "offset", "reason"), "path").alias("first")
    damaged_indexes = (
        index_rows.where("state = 'damaged'")
        .groupBy("bookie_id")
        .agg(first_damage, F.count("*").alias("total"))
    )
    rows = rows.unionByName(damaged_indexes.select("bookie_id", "first.*", F.col("total").cast("int")))
    index_text = F.when(
        index_state == IndexState.DAMAGED, words("{bookie}: the index at {path}", bookie=bookie_id)
    ).otherwise(words("ledger {ledger}: its index on {bookie}", bookie=bookie_id))
    damage_text = (
        F.when(index_state == IndexState.DAMAGED, " is damaged: ")
        .when(index_state == IndexState.CUT, " is cut short: ")
        .otherwise(" cannot be read: ")
    )
    further_databases_text = F.when(F.col("total") > 1, words("; {total} of its databases are damaged"))
    return finding_rows(
        rows,
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("reason") == DELETED_REASON),
        unknown=F.array("bookie_id"),
        message=words(
            "{what}{how}{reason}{more}",
            what=index_text,
            how=damage_text,
            more=empty_if_null(further_databases_text),
        ),
        evidence="state, path, offset, reason",
    )
