"""Locations that differ only by slashes."""

from auditor.checks.bookie_findings import bookie_finding, group_rows
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(Severity.WARNING, rests_on=Basis.PLACEMENT, do_now="write each bookie location in the same way")
def location_slashes(roster: Roster) -> Findings:
    """Locations differ only by slashes.

    What it finds:
        Reports locations such as /r1, /r1/ and /r1//. The severity is `note` if servers treat them as the
        same location. Servers drop one slash at the end, and Pulsar adds one in front.

    Why it matters:
        Servers treat /r1// and /r1 as different racks, so copies in one rack count as spread.

    How sure:
        Confirmed: the mapping is complete.

    What to do:
        Write all locations the same way: a slash before each part, and none at the end.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        Differences in letter case and blanks also make different locations, but are not reported.
    """
    if roster.cluster.placement is None:
        return
    location_rows = [row for row in roster.bookie_locations if row["location"]]
    for normalized_location, rows in group_rows(
        location_rows, lambda row: "/".join(filter(None, row["given"].split("/")))
    ).items():
        written_locations = sorted({row["given"] for row in rows})
        if len(written_locations) > 1:
            locations = sorted({row["location"] for row in rows})
            meaning_text = (
                f"servers treat {', '.join(locations)} as different locations"
                if len(locations) > 1
                else f"servers treat all of these as {locations[0]}"
            )
            yield bookie_finding(
                None,
                f"the location {normalized_location} is written as {', '.join(written_locations)}: "
                f"{meaning_text}",
                {
                    "written": written_locations,
                    "locations": locations,
                    "bookies": sorted(row["bookie_id"] for row in rows),
                },
                severity=Severity.NOTE if len(locations) == 1 else None,
            )
