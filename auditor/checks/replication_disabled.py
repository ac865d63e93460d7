"""Clusters in which replication is switched off."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check
from auditor.model.amounts import format_time
from auditor.model.repair import waiting_words


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
        The znode `underreplication/disable`, which `autorecovery -d` makes. It is an error if ledgers wait
        and it was made more than a day before the scan, or at an unknown time.

    Why it matters:
        The auditor marks nothing and workers copy nothing while it is there, also if a bookie is lost.

    How sure:
        Confirmed: the znode is there.

    What to do:
        Operators switch replication off before planned restarts. If none is under way, switch it on again.

    Commands:
        - `bookkeeper shell queryautorecoverystatus`.
        - `bookkeeper shell autorecovery -e`.

    Limits:
        It does not know whether maintenance is under way.
    """
    state = roster.cluster.repair
    if not state.disabled:
        return
    since = state.disabled_since
    lasting = since is None or roster.cluster.scan_time - since > roster.cluster.settings.stuck_ms
    when = "" if since is None else f" since {format_time(since)}"
    yield bookie_finding(
        None,
        f"replication is switched off{when}; {waiting_words(state)}",
        {"since": since, "waiting": state.waiting, "queued": state.queued},
        severity=Severity.ERROR if lasting and state.waiting else None,
    )
