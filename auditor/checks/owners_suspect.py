"""Stores of owners that are not proved to name every ledger in use."""

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
    do_now="read every store of owners and declare them complete before any ledger is deleted",
    holds=(HoldRule(HoldTarget.OWNERS, (ActionKind.DELETE_LEDGER,)),),
)
def owners_suspect(roster: Roster) -> Findings:
    """The stores of owners are not proved to be all that refer to ledgers of this cluster.

    What it finds:
        A run whose stores of owners do not prove that a ledger without an owner is unused. One finding per
        run, a warning if the run has ledger-unowned findings, otherwise a note. The stores are proved
        complete if the operator declares exactly them with `--owners-complete`, at least 99 % of the claims
        in custom metadata are in namespaces that a store has, at most 1 % of the ledgers that an earlier run
        saw listed lost their owner and stay in BookKeeper, and every place of the stores could be listed.

    Why it matters:
        Several Pulsar clusters can share one BookKeeper cluster, and a broker's store can be restored or
        wiped (pulsar #17213, #5935, #8133). The ledgers of a live topic then have no owner in the stores that
        were read. Whoever deletes them loses its messages.

    How sure:
        Confirmed: it says what is not proved, and not that a store is missing.

    What to do:
        Nothing, if no ledger is to be deleted. Otherwise find every Pulsar cluster that keeps ledgers here,
        pass the store of each with `--owners`, and name all of them with `--owners-complete`. If lists lost
        ledgers, find out whether the store was restored or wiped before anything is deleted.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          shows whose a ledger says it is.

    Limits:
        Claims do not name a store: only the operator's declaration tells two Pulsar clusters with the same
        namespaces apart. A ledger that lost its owner counts for a week.
    """
    reasons = incomplete_reasons(roster.owner_stores)
    if not reasons:
        return
    facts = ("claims", "foreign_claims", "unowned")
    counts = {name: roster.owner_stores[0][name] for name in facts}
    columns = ("source", "scope_proved", "declared", "listed_before", "dropped", "gaps", "as_of", "reason")
    stores = [{name: row[name] for name in columns} for row in roster.owner_stores]
    yield bookie_finding(
        None,
        "stores of owners: not proved complete, so no ledger is confirmed to be unowned; "
        + "; ".join(reasons),
        {**counts, "stores": stores},
        severity=Severity.WARNING if counts["unowned"] else None,
    )
