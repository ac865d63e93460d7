"""Clusters whose auditor has not ended a check for a month."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check
from auditor.model.amounts import age
from auditor.model.repair import waiting_text


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.TIMES, Need.REGISTRATIONS},
    do_now="find out from the auditor's log why its checks do not finish",
    settings=("check_overdue_days",),
)
def server_check_overdue(roster: Roster) -> Findings:
    """BookKeeper's auditor has not completed any of its periodic checks for a month.

    What it finds:
        Reports clusters whose auditor completed no check (of ledgers, placement or replicas) within 30
        days before the metadata scan. The severity is `note` if no check ever ended, because some
        operators switch the checks off.

    Why it matters:
        The weekly check of all ledgers finds unreadable copies. A check that hangs silently stops all
        later ones (bookkeeper #1578).

    How sure:
        Confirmed: the store has the time at which each check ended.

    What to do:
        Read the auditor's log. If the checks are off on purpose, suppress this finding.

    Commands:
        - `bookkeeper shell whoisauditor`.

    Limits:
        The server may record an end even for a check that was aborted, so a recent time proves little.
    """
    repair_state, cluster = roster.cluster.repair, roster.cluster
    if not repair_state.sees_autorecovery:
        return
    overdue_ms = cluster.settings.check_overdue_ms
    evidence = {"last_check": repair_state.last_check, "waiting": repair_state.waiting}
    if repair_state.last_check is not None:
        if cluster.scan_time - repair_state.last_check > overdue_ms:
            age_text = age(repair_state.last_check, cluster.scan_time)
            message = f"BookKeeper's auditor last completed a check {age_text}; {waiting_text(repair_state)}"
            yield bookie_finding(None, message, evidence)
    elif repair_state.votes and repair_state.age_ms is not None and repair_state.age_ms > overdue_ms:
        message = f"BookKeeper's auditor has never completed a check; {waiting_text(repair_state)}"
        yield bookie_finding(None, message, evidence, severity=Severity.NOTE)
