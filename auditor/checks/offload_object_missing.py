"""Offload contexts whose objects are missing."""

from auditor.checks.check import (
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.finding_rows import (
    empty_if_null,
    finding_rows,
    owner_evidence,
    owner_name,
    suspect_if,
    words,
)


@check(
    Severity.ERROR,
    rests_on=Basis.OBJECTS,
    asks="offload_objects",
    do_now="search older versions of the bucket for the objects of {ledgers}",
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),),
)
def offload_object_missing(tables: Tables) -> DataFrame:
    """A topic's ledger list says that a ledger is offloaded, but the bucket lacks its data or its index.

    What it finds:
        Reports missing data objects and index objects. The severity is `critical` if Pulsar has deleted
        BookKeeper's copy, because nobody then has the entries.

    Why it matters:
        Readers of the bucket's copy fail.

    How sure:
        Confirmed if the bucket's listing is certainly newer than the copy. Objects of an offload that was
        completed at least `--owner-grace` later prove this. Suspect if the listing may be older than the
        copy, or if the offload context has no time.

    What to do:
        If BookKeeper still has the ledger, offload it again before Pulsar deletes BookKeeper's copy. Look
        for the object among the bucket's older object versions, and in the log of its lifecycle rules.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.

    Limits:
        Needs `--offload-listing`. Ignores streaming offloads. A listed object may be unreadable.
    """
    missing_objects_text = (
        F.when(F.col("has_index"), "its data object is not in the listing")
        .when(F.col("has_data"), "its index object is not in the listing")
        .otherwise("both objects are not in the listing")
    )
    deletion_text = F.when(
        F.col("offload") == "deleted", ", and the ledger is recorded as deleted from BookKeeper"
    )
    return finding_rows(
        tables.offload_objects.where(F.col("fault") == "offload-object-missing"),
        ledger_id="ledger_id",
        urgency=F.when(F.col("offload") == "deleted", Urgency.LOST.value),
        severity=F.when(F.col("offload") == "deleted", Severity.CRITICAL.value),
        confidence=suspect_if(F.col("why").isNotNull()),
        message=words(
            "ledger {ledger} of {owner_name}: its copy in the bucket is incomplete: "
            "{lacking}{given_up}{doubt}",
            owner_name=owner_name(),
            lacking=missing_objects_text,
            given_up=empty_if_null(deletion_text),
            doubt=empty_if_null(words("; unconfirmed: {why}")),
        ),
        evidence=owner_evidence("offload", "uid", "has_data", "has_index", "why AS doubt"),
    )
