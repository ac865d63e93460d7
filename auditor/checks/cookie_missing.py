"""Registered bookies without a cookie."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import (
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Need,
    Roster,
    Severity,
    roster_check,
)


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES},
    do_now="make the cookies of {bookies} again from their VERSION files before a restart",
    action=ActionKind.MAKE_COOKIE,
    holds=(HoldRule(HoldTarget.BOOKIE, (ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def cookie_missing(roster: Roster) -> Findings:
    """A bookie is registered and the store has no cookie of it.

    What it finds:
        Registered bookies, writable or read-only, without a cookie under their id. A registration that is not
        ephemeral counts as none (`registration-not-ephemeral`).

    Why it matters:
        At its next start the bookie finds VERSION in its directories and no cookie in the store, and refuses
        to start. It may also have been decommissioned while it was up.

    How sure:
        Confirmed: the bookie is registered, and the store's cookies were listed.

    What to do:
        First make sure that the bookie exists: a process at its address, a VERSION file that names it. Then
        make the cookie again from that file before anyone restarts it. Where no ledger names the id and no
        directory is its own, it may be nobody's, and a cookie would only keep it alive: find the client that
        registers it; the registration ends with that client's session.

    Commands:
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.
        - `bookkeeper shell cookie_create -cf FILE BOOKIE`
          stores the cookie. Risk: writes; a wrong cookie keeps the bookie from starting, and `cookie_delete`
          takes it back.

    Limits:
        A bookie that registers while the audit reads the cookies may show up here once.
    """
    for row in roster.clear_bookies:
        if row["registered"] is not None and not row["has_cookie"]:
            is_known = row["named"] or row["found"]
            means = (
                "it cannot restart" if is_known else "no ledger names it, and no directory of it was found"
            )
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is registered ({row['registered']}) and has no cookie: {means}",
                {name: row[name] for name in ("registered", "ledgers", "found")},
            )
