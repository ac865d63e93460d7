"""Bookies whose address differs from their id."""

import re

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check
from auditor.model.bookie_conf import ADDRESS_RESOLVER_KEYS

# Ids such as dc1:1:bookie-7 are custom ids, even if the server reads them as addresses.
_ADDRESS_PATTERN = re.compile(r"[^:]+:[0-9]{1,5}")


@roster_check(Severity.NOTE, rests_on=Basis.METADATA)
def endpoint_drift(roster: Roster) -> Findings:
    """A bookie's id looks like an address, but the bookie is at a different address.

    What it finds:
        Reports ids of the form host:port whose bookie-rpc endpoint is a different address. The severity is
        `warning` if `--bookie-conf` has bookieAddressResolverEnabled=false.

    Why it matters:
        A bookie may move and keep its id (BP-41). Clients without the resolver, or before 4.13, look for
        it at the old address.

    How sure:
        Confirmed: the registration was read.

    What to do:
        Tell operators where the machine is, and check that all clients resolve ids.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`.

    Limits:
        DNS is not queried, so a host name and its IP address count as different.
    """
    unused_clause = (
        ""
        if roster.cluster.resolves_ids
        else f"; with {ADDRESS_RESOLVER_KEYS[0]}=false, clients cannot find it"
    )
    for row in roster.registrations:
        bookie_id, host, port = row["bookie_id"], row["host"], row["port"]
        if not row["used"] or host is None or row["empty"] or not _ADDRESS_PATTERN.fullmatch(bookie_id):
            continue
        # Host names may end with the dot of the DNS root; letter case does not matter.
        if bookie_id.lower().replace(".:", ":") != f"{host.lower().removesuffix('.')}:{port}":
            yield bookie_finding(
                bookie_id,
                f"{bookie_id} is at {host}:{port}, not at the address in its id{unused_clause}",
                {"host": host, "port": port, "mode": row["mode"]},
                severity=None if roster.cluster.resolves_ids else Severity.WARNING,
            )
