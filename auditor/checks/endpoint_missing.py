"""Registered bookies that clients cannot look for."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import ActionKind, Basis, Findings, Roster, Severity, roster_check
from auditor.model.bookie_conf import RESOLVER_KEYS


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    do_now="restart {bookies} one at a time, with a version that publishes endpoints",
    action=ActionKind.STOP,
)
def endpoint_missing(roster: Roster) -> Findings:
    """A bookie is registered and its registration gives clients no address of it.

    What it finds:
        Registered bookies that no client can resolve: the registration has no endpoint of the protocol
        bookie-rpc, cannot be read, or is empty while the id is no host:port. An empty registration under an
        address is right: bookies before 4.11 register so, and on etcd all do. With
        bookieAddressResolverEnabled=false in `--bookie-conf`, clients read the id as host:port: every
        registered bookie with another id is reported.

    Why it matters:
        The bookie looks alive and nobody reaches it: reads and writes of its entries fail, and no auditor
        copies its ledgers, for it is registered.

    How sure:
        Confirmed: it was read as it is reported.

    What to do:
        Restart the bookie with a version that publishes its endpoints; on etcd give it an id that is its
        address. If the resolver is switched off, switch it on for all clients, or keep to ids that are
        addresses.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`.
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        Only the registration is looked at, not whether clients reach its address. Of a bookie that is
        registered twice the writable registration counts, as for clients.
    """
    for row in roster.registrations:
        why = row["unresolved"]
        if not roster.cluster.resolves_ids:
            is_address = roster.sought_address(row) is not None
            why = None if is_address else f"its id is not host:port, and {RESOLVER_KEYS[0]}=false"
        if row["used"] and why is not None:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']}: clients cannot find it: {why}",
                {name: row[name] for name in ("mode", "empty", "endpoints", "damage")},
            )
