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
        What differs between the configuration of brokers (--placement broker.conf) and that of AutoRecovery
        (--bookie-conf bk_server.conf), where both were given: the policy, its minimum numbers, the metadata
        store in which each looks for the mapping, and a resolver of racks that does not read Pulsar's mapping
        at all. One finding for the cluster.

    Why it matters:
        What a broker spreads over racks AutoRecovery puts together again: it repairs ledgers onto bookies
        that break the brokers' policy, and calls FAIL what is well placed. With no mapping it takes every
        bookie to be in /default-rack.

    How sure:
        Confirmed: both files were read. What is set on a command line, or in the environment, is not seen.

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
