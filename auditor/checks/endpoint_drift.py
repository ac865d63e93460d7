"""Bookies whose id is another address than theirs."""

import re

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check
from auditor.model.bookie_conf import RESOLVER_KEYS

# Such as dc1:1:bookie-7 are custom ids, whatever the server would make of them.
_ADDRESS = re.compile(r"[^:]+:[0-9]{1,5}")


@roster_check(Severity.NOTE, rests_on=Basis.METADATA)
def endpoint_drift(roster: Roster) -> Findings:
    """The id of a bookie looks like an address, and the bookie is at another one.

    What it finds:
        Registered bookies whose id is host:port and whose bookie-rpc endpoint is elsewhere, without letter
        case of host names. A warning with bookieAddressResolverEnabled=false in `--bookie-conf`: clients with
        this file look for the bookie where its id says.

    Why it matters:
        It is allowed: a bookie may move and keep its id (BP-41). But clients that do not read registrations
        (bookieAddressResolverEnabled=false, versions before 4.13) reach nobody at that address, or another
        bookie.

    How sure:
        Confirmed: it was read as it is reported.

    What to do:
        Write it down where operators look for the machine, and see that all clients resolve ids.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          This is where it really is.

    Limits:
        Other clients' configuration files are not read. Names are not resolved: an id with a host name and an
        endpoint with its IP are reported.
    """
    unused = "" if roster.cluster.resolves_ids else f"; with {RESOLVER_KEYS[0]}=false clients do not find it"
    for row in roster.registrations:
        name, host, port = row["bookie_id"], row["host"], row["port"]
        if not row["used"] or host is None or row["empty"] or not _ADDRESS.fullmatch(name):
            continue
        # A name may be written with its root's dot, and in any case.
        if name.lower().replace(".:", ":") != f"{host.lower().removesuffix('.')}:{port}":
            yield bookie_finding(
                name,
                f"{name} is at {host}:{port}, not at the address in its id{unused}",
                {"host": host, "port": port, "mode": row["mode"]},
                severity=None if roster.cluster.resolves_ids else Severity.WARNING,
            )
