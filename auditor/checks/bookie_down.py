"""Unregistered bookies that have a cookie and ledgers."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import ActionKind, Basis, Findings, Need, Roster, Severity, roster_check


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES},
    do_now="start {bookies}",
    action=ActionKind.START,
)
def bookie_down(roster: Roster) -> Findings:
    """A bookie that is named by ledgers has a cookie but is not registered.

    What it finds:
        Reports bookies that have a cookie and ledgers, but no ephemeral registration.

    Why it matters:
        The bookie's copies are unreachable until it returns or is decommissioned.

    How sure:
        Confirmed: neither metadata scan saw a registration of the bookie.

    What to do:
        Restart the bookie. If it will not return, decommission it.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.
        - `bookkeeper shell listbookies -a`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        If the metadata was saved after the bookies' sessions ended, every bookie looks down.
    """
    for row in roster.unregistered:
        if row["has_cookie"]:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is not registered; "
                f"{count_text(row['ledgers'], 'ledger names it', 'ledgers name it')}",
                {bookie_id: row[bookie_id] for bookie_id in ("ledgers", "depending", "replicas", "read")},
            )
