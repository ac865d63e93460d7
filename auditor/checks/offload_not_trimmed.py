"""Ledgers that are in an object store and still in BookKeeper."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, with_fault, words


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def offload_not_trimmed(tables: Tables) -> DataFrame:
    """A ledger's copy in an object store is complete, and the ledger still fills the bookies' disks.

    What it finds:
        Ledgers of a topic's list whose offload became complete longer ago than `--owner-grace`, or that are
        said to be deleted from BookKeeper, and are there.

    Why it matters:
        The space that the offload was to free is not freed.

    How sure:
        Confirmed: the list says that the copy is complete, and the ledger is there.

    What to do:
        Where it is said to be deleted, the delete failed and nobody tries again: it is a leak like
        ledger-unowned. Else see the namespace's offload deletion lag (`pulsar-admin namespaces`); a longer
        one than `--owner-grace` is not a fault, and the topic must be loaded to be trimmed.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It shows that the ledger is there.

    Limits:
        The bucket is not looked at.
    """
    said = F.when(F.col("offload") == "deleted", "was given up for it").otherwise("was not given up for it")
    return finding_rows(
        with_fault(tables, "offload-not-trimmed"),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger} of {owner_name} has a complete copy, {said}, and is still there",
            owner_name=owner_name(),
            said=said,
        ),
        evidence=owner_evidence("offload", "offload_uid", "length"),
    )
