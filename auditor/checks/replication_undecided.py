"""Ledgers for which a bookie's old or unreadable index leaves unknown whether they have all copies."""

from auditor.checks.check import Basis, Column, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import empty_if_null, finding_rows, words
from auditor.checks.ledger_queries import classified_ledgers, unknown_copy_bookies
from auditor.model.columns import LEDGER
from auditor.model.states import LedgerClass, UnknownCopy

_REASON_TEXTS = {
    UnknownCopy.UNREADABLE: "index unreadable on ",
    UnknownCopy.LIMBO: "in limbo on ",
    UnknownCopy.NOT_INDEXED: "not in the index of ledgers on ",
    UnknownCopy.MISPLACED: "index file in the wrong place on ",
    UnknownCopy.WRONG_DIRECTORY: "in the wrong directory on ",
    UnknownCopy.DENIED: "an indexed entry is missing, according to ",
    UnknownCopy.INDEX_INCOMPLETE: "entries missing from the index are served by ",
    UnknownCopy.NOT_ASKED: "index too old, and the audit did not ask for all entries, on ",
    UnknownCopy.ENTRY_LOG: "in a missing entry log on ",
    UnknownCopy.UNREAD: "not read: ",
}
_REASONS_OF_BOOKIES = (UnknownCopy.UNREAD, UnknownCopy.LIMBO, UnknownCopy.WRONG_DIRECTORY)
"""Reasons that a finding of the bookie reports once for all of its ledgers."""
_REASONS_OF_OLD_INDEXES = (UnknownCopy.INDEX_INCOMPLETE, UnknownCopy.NOT_ASKED)
"""Reasons that come from an index older than the ledger. The bookie's journal would settle them."""
_HARMLESS_CLASSES = (LedgerClass.HEALTHY, LedgerClass.NOT_CLOSED)


@check(Severity.NOTE, rests_on=Basis.COPIES, asks="undecided")
def replication_undecided(tables: Tables) -> DataFrame:
    """It is unknown whether a ledger has all copies, because a bookie's index is old or unreadable.

    What it finds:
        Reports ledgers for which a bookie's index is damaged, misplaced or incomplete. The index may also
        differ from the bookie's answers, or point into a missing entry log. If an index is older than some
        ledgers, and no journal shows newer entries, one finding covers all these ledgers.

    Why it matters:
        The ledger may be losing copies.

    How sure:
        Always unknown, because the data cannot be read.

    What to do:
        Repair the index (`index-unreadable`, `ledger-not-indexed`). If the journal was not read, pass the
        journal directories too. With journalWriteData=false, wait for a flush of the index, or also pass
        `--bookies rpc:`.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.

    Limits:
        `bookie-unread`, `ledgers-in-limbo` and `ledgers-in-wrong-directory` report causes that affect a
        whole bookie.
    """
    rows = classified_ledgers(tables).where(F.col("class") != F.col("potential_class"))
    rows = rows.crossJoin(F.broadcast(_unread_journal_reasons(tables)))
    return _ledger_findings(rows).unionByName(_bookie_findings(rows))


def _unread_journal_reasons(tables: Tables) -> DataFrame:
    """Return one row with a map from bookie to reason, for the bookies with an unread journal."""
    unread_journal_tails = tables.bookies.where("tail = 'unread'").select("bookie_id", "tail_reason")
    return unread_journal_tails.agg(F.map_from_entries(F.collect_list(F.struct("*"))).alias("tails"))


def _depends_on_journal(copy: Column) -> Column:
    """Return whether a copy is unknown only because the bookie's journal was not read."""
    return copy["why"].isin(*_REASONS_OF_OLD_INDEXES) & F.map_contains_key("tails", copy["bookie_id"])


def _bookie_findings(rows: DataFrame) -> DataFrame:
    """Return one finding for each bookie with an unread journal and an index older than its ledgers."""
    copies = rows.select(*LEDGER, "class", "potential_class", "tails", F.explode("unknown").alias("copy"))
    potential_classes = F.array_join(F.array_sort(F.collect_set("potential_class")), ", ")
    bookie_rows = (
        copies.where(_depends_on_journal(F.col("copy")))
        .groupBy(F.col("copy.bookie_id").alias("bookie_id"))
        .agg(
            F.count_distinct(*LEDGER).alias("ledgers"),
            potential_classes.alias("classes"),
            F.first(F.col("tails")[F.col("copy.bookie_id")]).alias("tail_reason"),
            F.min("ledger_id").alias("lowest"),
        )
    )
    return finding_rows(
        bookie_rows,
        bookie_id="bookie_id",
        confidence=Confidence.UNKNOWN,
        unknown=F.array("bookie_id"),
        message=words(
            "{bookie_id}: its index is older than {ledgers:ledger|ledgers} (at worst {classes}), and its "
            "journal shows no newer entries{why}",
            why=empty_if_null(words(": {tail_reason}")),
        ),
        evidence="ledgers, classes, lowest AS lowest_ledger, tail_reason",
    )


def _ledger_findings(rows: DataFrame) -> DataFrame:
    """Return one finding for each ledger with an unknown copy that no finding about a bookie explains."""
    has_other_reason = F.exists(
        "unknown", lambda copy: ~copy["why"].isin(*_REASONS_OF_BOOKIES) & ~_depends_on_journal(copy)
    )
    return finding_rows(
        rows.where(has_other_reason),
        ledger_id="ledger_id",
        confidence=Confidence.UNKNOWN,
        unknown=unknown_copy_bookies(),
        message=words(
            "ledger {ledger}: {known}, at worst {potential_class}; {reasons}",
            known=F.when(F.col("class").isin(*_HARMLESS_CLASSES), "undecided").otherwise(F.col("class")),
            reasons=F.concat_ws(
                "; ",
                *(_bookies_of_reason(reason, reason_text) for reason, reason_text in _REASON_TEXTS.items()),
            ),
        ),
        evidence="class, potential_class, state, m AS copies_missing, mu AS copies_missing_or_unknown, "
        "unknown AS unknown_copies, doubts",
    )


def _bookies_of_reason(reason: str, reason_text: str) -> Column:
    """Return a text on the bookies whose copies are unknown for one reason. Null if there are none."""
    bookie_ids_sql = (
        f"array_sort(array_distinct(filter(unknown, copies -> copies.why = '{reason}').bookie_id))"
    )
    return F.expr(
        f"CASE WHEN size({bookie_ids_sql}) > 0 "
        f"THEN concat('{reason_text}', array_join({bookie_ids_sql}, ', ')) END"
    )
