"""Bookies that are writable and read-only at once."""

from auditor.checks.bookie_findings import bookie_finding, suspect_or_confirmed
from auditor.checks.check import ActionKind, Basis, Findings, Need, Roster, Severity, roster_check


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.TWO_SCANS},
    do_now="restart {bookies}, one at a time",
    action=ActionKind.STOP,
    restarts=True,
)
def registered_twice(roster: Roster) -> Findings:
    """A bookie is registered as writable and as read-only at once.

    What it finds:
        Reports bookies that have both registrations in every metadata scan.

    Why it matters:
        A change to read-only failed halfway, or two processes share the id. Clients still choose the
        bookie, and it refuses their writes.

    How sure:
        Confirmed in a running store. Suspect in a saved one.

    What to do:
        Check that no second process has the bookie's id. Restart the bookie: this ends both registrations.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.
        - `bookkeeper shell endpointinfo -b BOOKIE`.

    Limits:
        A bookie that turns read-only during each scan but is writable in between is reported too.
    """
    for row in roster.bookies:
        if row["registered_twice"]:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is registered as writable and as read-only",
                {"ledgers": row["ledgers"]},
                confidence=suspect_or_confirmed(not roster.cluster.two_scans),
            )
