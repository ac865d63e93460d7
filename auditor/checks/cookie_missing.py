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
    do_now="recreate the cookies of {bookies} from their VERSION files before a restart",
    action=ActionKind.MAKE_COOKIE,
    holds=(HoldRule(HoldTarget.BOOKIE, (ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def cookie_missing(roster: Roster) -> Findings:
    """A bookie is registered, but the store has no cookie for it.

    What it finds:
        Reports bookies with an ephemeral registration but without a cookie.

    Why it matters:
        The bookie refuses its next start. Somebody may have decommissioned it while it ran.

    How sure:
        Confirmed: all cookies were listed.

    What to do:
        First check that the bookie exists: a process runs at its address, and a VERSION file has its id.
        Then create the cookie from that file before anyone restarts the bookie. If no ledger and no
        directory has the id, create no cookie, but find the client that registers this id.

    Commands:
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.
        - `bookkeeper shell cookie_create -cf FILE BOOKIE`
          stores the cookie. Risk: writes; a wrong cookie keeps the bookie from starting, and
          `cookie_delete` takes it back.

    Limits:
        A bookie that starts for the first time during the audit may be reported once.
    """
    for row in roster.certain_bookies:
        if row["registered"] is not None and not row["has_cookie"]:
            is_known = row["named"] or row["found"]
            consequence = (
                "the bookie cannot restart"
                if is_known
                else ("no ledger names it, and none of its directories was found")
            )
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is registered ({row['registered']}), but has no cookie: {consequence}",
                {name: row[name] for name in ("registered", "ledgers", "found")},
            )
