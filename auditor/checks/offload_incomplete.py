"""Offloads that were started but are incomplete."""

from auditor.checks.check import Basis, Confidence, DataFrame, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, ownership_with_fault, words


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def offload_incomplete(tables: Tables) -> DataFrame:
    """The offload of a ledger to an object store was started but is incomplete.

    What it finds:
        Reports ledgers in a topic's ledger list that were closed longer ago than `--owner-grace` and have
        an incomplete offload context.

    Why it matters:
        The broker removes the incomplete objects only if it offloads the ledger again. BookKeeper has the
        whole ledger.

    How sure:
        Always suspect, because the offload may still be running.

    What to do:
        Check whether an offload runs (`pulsar-admin topics offload-status`). If not, read the broker's log
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
            "ledger {ledger} of {owner_name}: its offload was started, but is incomplete",
            owner_name=owner_name(),
        ),
        evidence=owner_evidence("offload", "offload_uid"),
    )
