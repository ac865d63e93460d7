"""Offloads that were begun and are incomplete."""

from auditor.checks.check import Basis, Confidence, DataFrame, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, ownership_with_fault, words


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def offload_incomplete(tables: Tables) -> DataFrame:
    """A ledger's copy to an object store was begun and is incomplete.

    What it finds:
        Ledgers in a topic's ledger list, closed longer ago than `--owner-grace`, with an incomplete offload
        context.

    Why it matters:
        The broker removes the incomplete objects only if it offloads the ledger again. BookKeeper has the
        whole ledger.

    How sure:
        Suspect: the offload may still be running.

    What to do:
        See whether an offload runs (`pulsar-admin topics offload-status`). If not, read the broker's log
        and offload again.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        The check does not look at the bucket.
    """
    return finding_rows(
        ownership_with_fault(tables, "offload-incomplete"),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        message=words(
            "ledger {ledger} of {owner_name}: its offload was begun and is incomplete",
            owner_name=owner_name(),
        ),
        evidence=owner_evidence("offload", "offload_uid"),
    )
