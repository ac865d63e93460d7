"""Objects of offloaded ledgers that are not in the ledger list of any topic."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import empty_if_null, finding_rows, words


@check(Severity.NOTE, rests_on=Basis.OBJECTS, asks="offload_objects")
def object_orphan(tables: Tables) -> DataFrame:
    """The bucket has a copy of a ledger, but no topic's ledger list has that copy.

    What it finds:
        Reports objects in the bucket whose UUID and ledger id are in no offload context.

    Why it matters:
        The broker never deletes these objects.

    How sure:
        Suspect, because another cluster may offload into the bucket, or the offload may have begun after
        the owners were read. Unknown if a topic's ledger list could not be read (`doubt`).

    What to do:
        Check that no other cluster uses the bucket, and that no topic has the ledger (`bkaudit explain
        ledger`). Keep the copy until two audits, with bucket listings some days apart, report it.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Needs `--offload-listing`. Ignores streaming offloads.
    """
    return finding_rows(
        tables.offload_objects.where(F.col("fault") == "object-orphan"),
        ledger_id="ledger_id",
        confidence=F.when(F.col("why").isNotNull(), Confidence.UNKNOWN.value).otherwise(
            Confidence.SUSPECT.value
        ),
        message=words(
            "ledger {ledger}: the bucket has a copy ({bytes} bytes, {uid}) that no topic lists{doubt}",
            doubt=empty_if_null(words("; unconfirmed: {why}")),
        ),
        evidence="uid, objects, bytes, why AS doubt",
    )
