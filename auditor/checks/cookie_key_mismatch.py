"""Cookies that name a different bookie than their znode."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import (
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Roster,
    Severity,
    roster_check,
)


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    do_now="store the cookie that matches the disks of {bookies}",
    action=ActionKind.MAKE_COOKIE,
    holds=(
        HoldRule(HoldTarget.BOOKIE, (ActionKind.START, ActionKind.REBUILD_INDEX, ActionKind.DELETE_COOKIE)),
    ),
)
def cookie_key_mismatch(roster: Roster) -> Findings:
    """A cookie in the store names a different bookie than its znode.

    What it finds:
        Reports cookies whose bookieHost is not the name of their znode.

    Why it matters:
        The bookie refuses to start.

    How sure:
        Confirmed: the cookie was read.

    What to do:
        Find the bookie's id in its VERSION files, and store a cookie that agrees with them.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Run it for both ids.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        A host name and its IP address count as two ids.
    """
    for cookie in roster.cookies:
        name, bookie_host = cookie["bookie_id"], cookie["bookie_host"]
        if cookie["damage"] is None and bookie_host is not None and bookie_host != name:
            yield bookie_finding(
                name,
                f"{name}: its cookie names {bookie_host}",
                {"bookie_host": bookie_host, "layout": cookie["layout"]},
            )
