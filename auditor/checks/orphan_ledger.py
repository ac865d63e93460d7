"""Ledgers on a bookie's disks that the metadata store does not list."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, words
from auditor.checks.gc_guards import doubt_clause, doubted_orphans


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="orphans")
def orphan_ledger(tables: Tables) -> DataFrame:
    """A bookie keeps a ledger that the metadata store does not list.

    What it finds:
        Ledgers with an index that neither scan of the metadata lists.

    Why it matters:
        The bookie's collector frees them within an hour. If there are very many, the metadata may be wrong
        (`metadata-suspect`).

    How sure:
        Confirmed where neither scan knows the ledger and the index is older than the scan. Suspect if it
        may be newer than a saved scan; in RocksDB, if the id is above all listed ones. Suspect with
        `metadata-suspect`. Suspect if an unread or misplaced record may be the ledger's (`doubt`). Suspect
        with `disk-id-mismatch`.

    What to do:
        Wait for one garbage collection and audit again. If they stay, search the bookie's log for its
        collector. Never delete index files or entry logs by hand.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          There should be none.
        - `bookkeeper shell whatisinstanceid`
          The bookie's cookie must have the same.

    Limits:
        If the server's listing reads the id out of a malformed name, no collector deletes the ledger, and
        it is only a suspect.
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
