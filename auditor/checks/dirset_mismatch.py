"""Bookies whose disks disagree with their cookie in the store."""

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

_DIRECTORY_LISTS = ("journal_dirs", "ledger_dirs", "index_dirs")


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    do_now="find out which directories are correct for {bookies} before a restart",
    holds=(
        HoldRule(
            HoldTarget.BOOKIE,
            (ActionKind.START, ActionKind.REBUILD_INDEX, ActionKind.MAKE_COOKIE, ActionKind.DELETE_COOKIE),
        ),
    ),
)
def dirset_mismatch(roster: Roster) -> Findings:
    """A bookie's cookie in the store lists different directories than the cookies on its disks.

    What it finds:
        Reports bookies whose lists of directories differ. The severity is `warning` if one list contains
        all directories of the other, which allowStorageExpansion accepts.

    Why it matters:
        The bookie refuses to start until the store and the disks agree. Lists of journal directories must
        be exactly equal.

    How sure:
        Confirmed: both cookies were read.

    What to do:
        Decide from the bookie's configuration which cookies are right, then change the others.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell updatecookie -e`.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        If one of the VERSION files agrees with the store, only `disk-dirs-disagree` is reported.
    """
    cookies_by_id = {row["bookie_id"]: row for row in roster.cookies}
    for row in roster.starts:
        bookie_id, differing_fields = row["bookie_id"], row["store_differs"]
        if differing_fields and bookie_id in cookies_by_id:
            yield bookie_finding(
                bookie_id,
                f"{bookie_id}: the store's cookie and its disks differ in {', '.join(differing_fields)}",
                {
                    "fields": differing_fields,
                    "stored": {
                        list_name: cookies_by_id[bookie_id][list_name] for list_name in _DIRECTORY_LISTS
                    },
                    "on_disk": {list_name: row[list_name] for list_name in _DIRECTORY_LISTS},
                    "expansion_takes_it": row["store_grows"],
                },
                severity=Severity.WARNING if row["store_grows"] else None,
            )
