"""AutoRecovery places by other rules, or another mapping, than the brokers."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.WARNING,
    rests_on=Basis.PLACEMENT,
    do_now="give AutoRecovery the policy and mapping of the brokers",
)
def placement_settings_differ(roster: Roster) -> Findings:
    """AutoRecovery goes by another placement policy or mapping than those who write.

    What it finds:
        Differences between the configuration of brokers (--placement broker.conf) and of AutoRecovery
        (--bookie-conf bk_server.conf), where both were given: the policy, its minimum numbers, the metadata
        store of the mapping, and a rack resolver that does not read Pulsar's mapping. One finding for the
        cluster.

    Why it matters:
        AutoRecovery undoes the brokers' placement: it repairs ledgers onto bookies that break their policy,
        and calls FAIL what is well placed. Without a mapping it takes every bookie to be in /default-rack.

    How sure:
        Confirmed: both files were read. Settings of a command line or the environment are not seen.

    What to do:
        Give AutoRecovery the brokers' policy, and their metadata store to look for the mapping in.

    Commands:
        - `bookkeeper shell listbookies -rw -h`
          Look at the hosts that the mapping is to name.

    Limits:
        Names of hosts are compared as they are written.
    """
    differences = roster.cluster.placement_differences
    if differences:
        yield bookie_finding(
            None,
            f"AutoRecovery places otherwise than brokers: {'; '.join(differences)}",
            {"differences": list(differences)},
        )
