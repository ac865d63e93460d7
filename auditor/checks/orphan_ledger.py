"""Ledgers on a bookie's disks that the metadata store does not list."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.gc_guards import orphan_doubt_clause, orphan_doubts


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="orphans")
def orphan_ledger(tables: Tables) -> DataFrame:
    """A bookie keeps a ledger that the metadata store does not list.

    What it finds:
        Reports ledgers in a bookie's index that neither metadata scan lists.

    Why it matters:
        The bookie's garbage collector deletes unlisted ledgers within an hour. If a bookie has very many of
        them, the metadata may be wrong (`metadata-suspect`).

    How sure:
        Confirmed: neither scan lists the ledger. Suspect if the index file is newer than the first scan. In
        RocksDB, a ledger with an id above all ids of a saved scan is suspect: it may be newer. Suspect if
        the bookie also has `metadata-suspect`. Suspect if an unreadable or misplaced record may be the
        ledger's metadata (`doubt`).

    What to do:
        Wait for one garbage collection and audit again. If the ledgers are still there, search the bookie's
        log for errors of its garbage collector. Never delete index files or entry logs by hand.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Expect no metadata.
        - `bookkeeper shell whatisinstanceid`
          Compare it with the id in the bookie's cookie.

    Limits:
        A malformed znode name can contain the ledger's id. The server then lists the ledger, and no bookie
        deletes it. The finding is then suspect.
    """
    return finding_rows(
        orphan_doubts(tables).where("not in_m0 and not in_m1"),
        ledger_id="ledger_id",
        bookie_id="bookie_id",
        confidence=suspect_if(F.size("doubts") > 0),
        message=words(
            "ledger {ledger} is on {bookie_id}, but not in the metadata{doubt_clause}",
            doubt_clause=orphan_doubt_clause(),
        ),
        evidence="in_m0, in_m1, doubts, doubt",
    )
