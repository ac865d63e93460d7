"""Cookies that cannot be read, in the store or on disk."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows, sorted_facts
from auditor.checks.check import (
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Roster,
    Severity,
    TableRow,
    roster_check,
)


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    do_now="inspect the cookies of {bookies} before anything replaces them",
    holds=(
        HoldRule(HoldTarget.BOOKIE, (ActionKind.START, ActionKind.REBUILD_INDEX, ActionKind.DELETE_COOKIE)),
    ),
)
def cookie_unreadable(roster: Roster) -> Findings:
    """A cookie of a bookie cannot be read, in the store or on one of its disks.

    What it finds:
        Reports cookies and VERSION files that cannot be parsed or have a layout version below 3.

    Why it matters:
        The bookie does not start. The file system may be damaged.

    How sure:
        Confirmed by the cookie's bytes.

    What to do:
        Find the reason and check the disk before you replace the cookie. Copy a VERSION file only between
        directories that certainly belong to the bookie.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        Copies in a directory with an unreadable VERSION count as unknown.
    """
    unreadable_cookies = [
        {**row, "damage": _damage(row)} for row in roster.all_cookies if _damage(row) is not None
    ]
    for bookie_id, rows in group_rows(unreadable_cookies, lambda row: row["bookie_id"]).items():
        cookies = sorted_facts(rows, "place", "damage")
        cookie_count_text = count_text(len(cookies), "cookie", "cookies")
        first_reason = f"{cookies[0]['place']}: {cookies[0]['damage']}"
        # A directory that was given for no bookie has no bookie id, only its path.
        bookie_prefix = "" if bookie_id is None else f"{bookie_id}: "
        yield bookie_finding(
            bookie_id,
            f"{bookie_prefix}{cookie_count_text} cannot be read: {first_reason}",
            {"cookies": cookies},
        )


def _damage(row: TableRow) -> str | None:
    """Return why a cookie cannot be read; None if the server would accept it."""
    if row["damage"] is None and row["layout"] is not None and row["layout"] < 3:
        return f"layout {row['layout']} is older than 3"
    damage: str | None = row["damage"]
    return damage
