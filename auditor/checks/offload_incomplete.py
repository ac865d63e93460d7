"""Offloads that were begun and never became whole."""

from auditor.checks.check import Basis, Confidence, DataFrame, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, owner_evidence, owner_name, with_fault, words


@check(Severity.NOTE, rests_on=Basis.OWNERS, asks="ownership")
def offload_incomplete(tables: Tables) -> DataFrame:
    """A ledger's copy to an object store was begun and is incomplete.

    What it finds:
        Ledgers of a topic's list with an offload context that is not complete, closed longer ago than
        `--owner-grace`.

    Why it matters:
        The objects of the attempt may lie in the bucket for ever: the broker cleans them up only if it tries
        again. The ledger itself is complete in BookKeeper.

    How sure:
        Suspect: an offload of an old ledger that is under way at this moment looks the same.

    What to do:
        See whether one is under way (`pulsar-admin topics offload-status`). If not, see the broker's log for
        why it failed, and offload again: that removes what the attempt left.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It shows that the ledger is there.

    Limits:
        The bucket is not looked at.
    """
    return finding_rows(
        with_fault(tables, "offload-incomplete"),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        message=words(
            "ledger {ledger} of {owner_name}: its offload was begun and is incomplete",
            owner_name=owner_name(),
        ),
        evidence=owner_evidence("offload", "offload_uid"),
    )
