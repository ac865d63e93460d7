"""Bookies that are in more than one group of Pulsar's mapping of bookies to racks."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(Severity.NOTE, rests_on=Basis.PLACEMENT)
def bookie_in_two_groups(roster: Roster) -> Findings:
    """A bookie is in more than one of Pulsar's bookie groups.

    What it finds:
        Reports bookies that Pulsar's mapping /bookies lists in several groups.

    Why it matters:
        No group has exclusive use of the bookie. Somebody edited /bookies by hand.

    How sure:
        Confirmed: the mapping says so.

    What to do:
        Keep the bookie in the intended group only.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        If the groups' racks differ, the audit uses the rack of the group whose name sorts last.
    """
    if roster.cluster.placement is None:
        return
    for row in roster.bookie_locations:
        if len(row["groups"]) > 1:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is in more than one isolation group: {', '.join(row['groups'])}",
                {"groups": list(row["groups"]), "location": row["location"]},
            )
