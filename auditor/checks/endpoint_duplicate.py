"""Bookies that answer at one address."""

from auditor.checks.bookie_findings import bookie_finding, group_rows, number_of
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(Severity.ERROR, rests_on=Basis.METADATA, do_now="give {bookies} addresses of their own")
def endpoint_duplicate(roster: Roster) -> Findings:
    """Two registered bookies are to be found at one address.

    What it finds:
        Addresses at which clients look for more than one registered bookie, without letter case of host
        names. One finding per address, under the first of its bookies; its evidence lists all. With
        bookieAddressResolverEnabled=false in `--bookie-conf` the address is the id, not the endpoint.

    Why it matters:
        One process answers for all of them: entries of two bookies lie on one, and reads of the other's
        ledgers fail. A configuration or machine was copied, or a bookie started under a new id while its old
        registration stands.

    How sure:
        Confirmed: it was read as it is reported.

    What to do:
        Find out which bookie runs there, and give each its own address and disks before it writes more.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          Ask for each of the bookies.
        - `bookkeeper shell cookie_get BOOKIE`
          Compare the directories of the bookies.

    Limits:
        Names are not resolved: a host name and its IP are two addresses. A proxy in front of several bookies
        looks the same. It takes the place of bookie-alias where all ids are registered.
    """
    used = [row for row in roster.registrations if row["used"]]
    sought = [row | {"at": address} for row in used if (address := roster.sought_address(row)) is not None]
    rows_by_address = group_rows(
        sought, lambda row: f"{row['at'][0].lower().removesuffix('.')}:{row['at'][1]}"
    )
    for address, rows in rows_by_address.items():
        bookies = sorted({row["bookie_id"] for row in rows})
        if len(bookies) > 1:
            number = number_of(len(bookies), "bookie", "bookies")
            yield bookie_finding(
                bookies[0],
                f"clients look for {number} at {address}: {', '.join(bookies)}",
                {"address": address, "bookies": bookies},
            )
