"""Objects of offloaded ledgers that no topic's list names."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, if_known, words


@check(Severity.NOTE, rests_on=Basis.OBJECTS, asks="offload_objects")
def object_orphan(tables: Tables) -> DataFrame:
    """The bucket has a copy of a ledger that no topic's list names.

    What it finds:
        Objects of the listing whose name has the UUID and the ledger of no offload context. One finding per
        copy: its data and its index together.

    Why it matters:
        They cost money for ever: the broker deletes only what a list names. A deleted topic, or a failed
        offload that was begun anew, leaves them.

    How sure:
        Suspect: another cluster may offload into the same bucket, and an offload begun after the owners were
        read is in a newer listing. Unknown where a topic's list could not be read: it may name the copy
        (`doubt` says which).

    What to do:
        See that no other cluster uses the bucket. Look whether the ledger belongs to a topic now (`bkaudit
        explain ledger`), and whether its topic was deleted. Keep the copy until two listings that are days
        apart both have it without a context.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It shows whether the ledger is in BookKeeper as well.

    Limits:
        Only with `--offload-listing`. Objects of streaming offloads name no ledger and are not looked at, nor
        is anything else in the bucket.
    """
    return finding_rows(
        tables.offload_objects.where(F.col("fault") == "object-orphan"),
        ledger_id="ledger_id",
        confidence=F.when(F.col("why").isNotNull(), Confidence.UNKNOWN.value).otherwise(
            Confidence.SUSPECT.value
        ),
        message=words(
            "ledger {ledger}: the bucket has a copy ({bytes} bytes, {uid}) that no topic's list names{doubt}",
            doubt=if_known(words("; not sure: {why}")),
        ),
        evidence="uid, objects, bytes, why AS doubt",
    )
