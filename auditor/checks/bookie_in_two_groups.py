"""Bookies that Pulsar's mapping has in more than one group."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(Severity.NOTE, rests_on=Basis.PLACEMENT)
def bookie_in_two_groups(roster: Roster) -> Findings:
    """A bookie is in more than one of Pulsar's groups.

    What it finds:
        Bookies that the value of /bookies names in several groups. One finding a bookie.

    Why it matters:
        Its rack is that of one of the groups, and it is isolated for none of them. Pulsar's own tools keep a
        bookie in one group: this was written by hand.

    How sure:
        Confirmed: the mapping is complete.

    What to do:
        Keep it in the group that it is meant for.

    Commands:
        - `bookkeeper shell listbookies -rw -h`
          Look at the hosts that the mapping is to name.

    Limits:
        Which group's rack counts where they differ is taken to be the last's, in order of their names.
    """
    if roster.cluster.placement is None:
        return
    for row in roster.bookie_locations:
        if len(row["groups"]) > 1:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is in the groups {', '.join(row['groups'])}",
                {"groups": list(row["groups"]), "location": row["location"]},
            )
