"""Registered bookies without a cookie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Need, roster_check
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from auditor.tables.roster import Roster, Row


@roster_check(Severity.ERROR, group="identity", rests_on=Basis.METADATA, needs={Need.ALL_BOOKIES})
def cookie_missing(roster: Roster) -> Iterator[Row]:
    """A bookie is registered and the store has no cookie of it.

    What it finds:
        Registered bookies, writable or read-only, without a cookie under their id.

    Why it matters:
        The bookie runs only because it is running: at its next start it finds its own directories stamped and
        no cookie in the store, and refuses to start. It may also have been decommissioned while it was up.

    How sure:
        Confirmed: the bookie is registered, and the store's cookies were listed.

    What to do:
        Make the cookie again from the VERSION file of the bookie before anyone restarts it.

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
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} is registered ({row['registered']}) and has no cookie: "
                "it cannot restart",
                {"registered": row["registered"], "ledgers": row["ledgers"]},
            )
