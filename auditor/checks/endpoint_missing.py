"""Registered bookies without an address for clients."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import ActionKind, Basis, Findings, Roster, Severity, roster_check
from auditor.model.bookie_conf import ADDRESS_RESOLVER_KEYS


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    do_now="restart {bookies} one at a time, with a version that publishes endpoints",
    action=ActionKind.STOP,
    restarts=True,
)
def endpoint_missing(roster: Roster) -> Findings:
    """A bookie is registered, but its registration gives clients no address.

    What it finds:
        Reports bookies whose bookie-rpc endpoint is missing or unreadable, or is empty although the id is
        not host:port. If `--bookie-conf` has bookieAddressResolverEnabled=false, every id that is not
        host:port is reported.

    Why it matters:
        No client can reach the bookie. The auditor does not have its ledgers copied, because the bookie is
        registered.

    How sure:
        Confirmed: the registration was read.

    What to do:
        Restart the bookie with a version that publishes its endpoints. Or, with etcd, use the bookie's
        address as its id. If the resolver is off, turn it on for all clients or use only addresses as ids.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`.
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        If a bookie is registered twice, the writable registration counts.
    """
    for row in roster.registrations:
        reason = row["unresolved"]
        if not roster.cluster.resolves_ids:
            is_address = roster.client_address(row) is not None
            reason = (
                None
                if is_address
                else f"the bookie's id is not host:port, and {ADDRESS_RESOLVER_KEYS[0]}=false"
            )
        if row["used"] and reason is not None:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']}: clients cannot find it: {reason}",
                {bookie_id: row[bookie_id] for bookie_id in ("mode", "empty", "endpoints", "damage")},
            )
