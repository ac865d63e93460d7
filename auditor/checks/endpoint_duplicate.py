"""Registered bookies with the same address."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(Severity.ERROR, rests_on=Basis.METADATA, do_now="give each of {bookies} its own address")
def endpoint_duplicate(roster: Roster) -> Findings:
    """Two registered bookies have the same address.

    What it finds:
        Reports bookies with equal addresses. A bookie's address is its endpoint, or its id if
        `--bookie-conf` has bookieAddressResolverEnabled=false.

    Why it matters:
        One process gets the entries of both bookies. Somebody copied a configuration, or one bookie has a
        new id.

    How sure:
        Confirmed: the registrations were read.

    What to do:
        Find out which bookie runs at this address. Give each bookie its own address and disks before it
        writes more.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`.
        - `bookkeeper shell cookie_get BOOKIE`.

    Limits:
        DNS is not queried. Bookies behind one proxy are reported too.
    """
    used_rows = [row for row in roster.registrations if row["used"]]
    addressed_rows = [
        row | {"at": address} for row in used_rows if (address := roster.client_address(row)) is not None
    ]
    rows_by_address = group_rows(
        addressed_rows, lambda row: f"{row['at'][0].lower().removesuffix('.')}:{row['at'][1]}"
    )
    for address, rows in rows_by_address.items():
        bookies = sorted({row["bookie_id"] for row in rows})
        if len(bookies) > 1:
            bookie_count_text = count_text(len(bookies), "bookie", "bookies")
            yield bookie_finding(
                bookies[0],
                f"clients look for {bookie_count_text} at {address}: {', '.join(bookies)}",
                {"address": address, "bookies": bookies},
            )
