"""Clusters without an elected auditor."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Confidence, Findings, Need, Roster, Severity, roster_check
from auditor.model.repair import waiting_text


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS, Need.REGISTRATIONS},
    do_now="check whether AutoRecovery runs anywhere",
)
def no_auditor(roster: Roster) -> Findings:
    """No auditor is elected, or the elected auditor is on a bookie that is down.

    What it finds:
        Reports clusters that have several bookies and ledgers, but no live auditor.

    Why it matters:
        Without an auditor nobody marks the ledgers of a lost bookie, and no worker runs.

    How sure:
        Confirmed if no metadata scan saw a live vote. Suspect if the vote is from a bookie that is down.
        AutoRecovery may run without the bookie, or the vote's session has not expired.

    What to do:
        Check that AutoRecovery is configured (autoRecoveryDaemonEnabled, or its own processes). Read its
        log.

    Commands:
        - `bookkeeper shell whoisauditor`.
        - `bookkeeper shell queryautorecoverystatus`.

    Limits:
        Stores without the znode `underreplication` are not checked.
    """
    repair_state = roster.cluster.repair
    names_ledgers = any(row["named"] for row in roster.bookies)
    if not repair_state.sees_autorecovery or len(roster.bookies) < 2 or not names_ledgers:
        return
    evidence = {
        "auditor": repair_state.auditor,
        "votes": repair_state.votes,
        "waiting": repair_state.waiting,
        "queued": repair_state.queued,
    }
    if not repair_state.votes:
        message = f"no auditor is elected, and no worker runs; {waiting_text(repair_state)}"
        yield bookie_finding(None, message, evidence)
    elif repair_state.auditor_down:
        message = (
            f"the auditor's vote names {repair_state.auditor}, which is not registered: the auditor may be "
            f"gone, or "
            f"may still run on that bookie's host; {waiting_text(repair_state)}"
        )
        yield bookie_finding(None, message, evidence, confidence=Confidence.SUSPECT)
