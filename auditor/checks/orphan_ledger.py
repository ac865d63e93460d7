"""Ledgers on a bookie's disks that the metadata store does not know."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.gc_guards import doubt_clause, doubted_orphans


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="orphans")
def orphan_ledger(tables: Tables) -> DataFrame:
    """A bookie keeps a ledger that the metadata store no longer knows.

    What it finds:
        Ledgers with an index on a bookie and no metadata, neither before the bookies were read nor after. One
        finding per ledger and bookie.

    Why it matters:
        The bookie's collector frees them within minutes to an hour. If they stay, it is stuck. Very many of
        them mean that the listing is wrong, and that the next collection destroys good data: see
        metadata-suspect.

    How sure:
        Confirmed where neither scan knows the ledger and the index is older than the scan. Suspect where the
        index file is newer than a saved scan (or, in RocksDB, which keeps no times, where the ledger id is
        above all that the scan lists); where a directory's cookie and place name two bookies; where
        metadata-suspect stands for the bookie; and where the store may have the ledger unseen: a failed
        listing could have shown it, or a misplaced record could be its own (`doubt` says which).

    What to do:
        Wait for one garbage collection and audit again. If they stay, read the bookie's log for its
        collector. Never delete index files or entry logs by hand: an entry log holds many ledgers.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          There should be none.
        - `bookkeeper shell whatisinstanceid`
          The bookie's own cookie must have the same, or they speak of two clusters.

    Limits:
        A name in the ledger tree that no ledger can have is ignored. A ledger whose id the server's listing
        reads out of such a name is only suspected, as no collector takes it.
    """
    return finding_rows(
        doubted_orphans(tables).where("not in_m0 and not in_m1"),
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.size("doubts") > 0),
        message=words(
            "ledger {ledger} is on {bookie_id}, but not in the metadata{doubt_clause}",
            doubt_clause=doubt_clause(),
        ),
        evidence="in_m0, in_m1, doubts, doubt",
    )
