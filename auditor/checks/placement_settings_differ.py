"""Clusters whose AutoRecovery has a different placement policy or mapping than the brokers."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.WARNING,
    rests_on=Basis.PLACEMENT,
    do_now="give AutoRecovery the same policy and mapping as the brokers",
)
def placement_settings_differ(roster: Roster) -> Findings:
    """AutoRecovery has a different placement policy or mapping than the brokers.

    What it finds:
        Compares `--placement broker.conf` with `--bookie-conf bk_server.conf`. Reports a different
        policy, minimum number of racks or zones, or metadata store of the mapping. Also reports a rack
        resolver that does not read Pulsar's mapping.

    Why it matters:
        AutoRecovery copies ledgers to bookies that break the brokers' policy, and rates ledgers that
        satisfy it as FAIL. Without a mapping it puts every bookie in /default-rack.

    How sure:
        Confirmed: both files were read.

    What to do:
        Give AutoRecovery the brokers' policy, and the metadata store of their mapping.

    Commands:
        - `bookkeeper shell listbookies -rw -h`
          Check that the mapping names these hosts.

    Limits:
        Settings from a command line or the environment are not seen. Host names are compared as written.
    """
    differences = roster.cluster.placement_differences
    if differences:
        yield bookie_finding(
            None,
            f"AutoRecovery and brokers use different placement settings: {'; '.join(differences)}",
            {"differences": list(differences)},
        )
