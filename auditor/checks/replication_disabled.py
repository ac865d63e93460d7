"""Clusters in which replication is switched off."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check
from auditor.model.amounts import format_time
from auditor.model.repair import waiting_text


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.REGISTRATIONS},
    do_now="find out who switched replication off, and why",
    settings=("stuck_hours",),
)
def replication_disabled(roster: Roster) -> Findings:
    """Replication is switched off for the whole cluster.

    What it finds:
        Reports clusters with the znode `underreplication/disable`, which `autorecovery -d` makes. The
        severity is `error` if ledgers wait for replication, and the znode's age is unknown or more than a
        day.

    Why it matters:
        Nothing is marked or copied, even if a bookie is lost.

    How sure:
        Confirmed: the znode is there.

    What to do:
        If no planned restart is under way, switch replication on again.

    Commands:
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell autorecovery -e`.

    Limits:
        The check does not know about planned maintenance.
    """
    repair_state = roster.cluster.repair
    if not repair_state.disabled:
        return
    disabled_since = repair_state.disabled_since
    is_lasting = (
        disabled_since is None
        or roster.cluster.scan_time - disabled_since > roster.cluster.settings.stuck_limit_ms
    )
    since_clause = "" if disabled_since is None else f" since {format_time(disabled_since)}"
    yield bookie_finding(
        None,
        f"replication is switched off{since_clause}; {waiting_text(repair_state)}",
        {"since": disabled_since, "waiting": repair_state.waiting, "queued": repair_state.queued},
        severity=Severity.ERROR if is_lasting and repair_state.waiting else None,
    )
