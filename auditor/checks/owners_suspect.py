"""Missing proof that the audit read every store that refers to ledgers."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import (
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Roster,
    Severity,
    roster_check,
)
from auditor.model.owner_scope import incomplete_reasons


@roster_check(
    Severity.NOTE,
    rests_on=Basis.OWNERS,
    do_now="read every owner store, and declare them complete before any ledger is deleted",
    holds=(HoldRule(HoldTarget.OWNER_STORES, (ActionKind.DELETE_LEDGER,)),),
)
def owners_suspect(roster: Roster) -> Findings:
    """There is no proof that every store of owners was read.

    What it finds:
        Reports audits that may have missed a store of owners (such as topics). The severity is `warning` if
        there are `ledger-unowned` findings. All stores count as read if all this is true:
        - `--owners-complete` lists exactly the stores that were read, and no store under two names.
        - Of the ledgers with an owner in custom metadata, at least 99 % name one in a namespace of a store.
        - Of the ledgers that had an owner in an earlier run and still exist, at most 1 % lost this owner.
        - Every path of the stores could be listed.

    Why it matters:
        Several Pulsar clusters can share one BookKeeper cluster, and a store can be restored or wiped
        (pulsar #17213, #5935, #8133). Deleting ledgers without an owner then loses messages of a live
        topic.

    How sure:
        Confirmed: the proof is missing.

    What to do:
        Before you delete ledgers, pass `--owners` and `--owners-complete` with the store of every Pulsar
        cluster that has ledgers here. If owners lost ledgers, first find
        out whether the store was restored or wiped.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Shows the owner that the ledger claims.

    Limits:
        If two Pulsar clusters have the same namespaces, only `--owners-complete` shows that both were read.
        If a ledger lost its owner, the check counts the ledger only for a week after the loss.
    """
    reasons = incomplete_reasons(roster.owner_stores)
    if not reasons:
        return
    count_fields = ("claims", "foreign_claims", "unowned")
    claim_counts = {name: roster.owner_stores[0][name] for name in count_fields}
    store_columns = (
        "source",
        "scope_proved",
        "declared",
        "listed_before",
        "dropped",
        "gaps",
        "as_of",
        "reason",
    )
    store_facts = [{name: row[name] for name in store_columns} for row in roster.owner_stores]
    yield bookie_finding(
        None,
        "owner stores: not proved complete, so no ledger is confirmed to be unowned; " + "; ".join(reasons),
        {**claim_counts, "stores": store_facts},
        severity=Severity.WARNING if claim_counts["unowned"] else None,
    )
