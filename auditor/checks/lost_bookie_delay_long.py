"""Clusters that wait long before they replicate a lost bookie's ledgers."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check
from auditor.model.amounts import duration
from auditor.model.repair import waiting_text


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.REGISTRATIONS},
    do_now="check whether the lost-bookie delay is intended to be this long",
    settings=("recovery_delay_hours",),
)
def lost_bookie_delay_long(roster: Roster) -> Findings:
    """The cluster waits more than a day before it replicates a lost bookie's ledgers.

    What it finds:
        Reports a store with a long lostBookieRecoveryDelay. The severity is `error` if unmarked ledgers
        depend on a bookie that is down.

    Why it matters:
        Until the delay has passed, the auditor marks no ledger of a lost bookie, and no worker copies these
        ledgers. A second failure meanwhile can lose data.

    How sure:
        Confirmed: the store has the delay.

    What to do:
        Find out whether the delay was meant for planned maintenance. `lostbookierecoverydelay -s` sets
        another delay, in seconds.

    Commands:
        - `bookkeeper shell lostbookierecoverydelay -g`.

    Limits:
        The store does not record when a bookie was lost.
    """
    repair_state = roster.cluster.repair
    max_delay_s = roster.cluster.settings.recovery_delay_hours * 3_600
    if repair_state.delay_s is None or repair_state.delay_s <= max_delay_s:
        return
    yield bookie_finding(
        None,
        f"the cluster repairs a lost bookie only after {duration(repair_state.delay_s)}; "
        f"{waiting_text(repair_state)}",
        {
            "delay_seconds": repair_state.delay_s,
            "waiting": repair_state.waiting,
            "unmarked": repair_state.unmarked,
            "bookies_down": list(repair_state.down),
        },
        severity=Severity.ERROR if repair_state.unmarked else None,
    )
