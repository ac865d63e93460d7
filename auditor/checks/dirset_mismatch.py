"""Bookies whose disks and cookie in the store disagree."""

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

_LISTS = ("journal_dirs", "ledger_dirs", "index_dirs")


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    do_now="find out which directories are right for {bookies} before a restart",
    holds=(
        HoldRule(
            HoldTarget.BOOKIE,
            (ActionKind.START, ActionKind.REBUILD_INDEX, ActionKind.MAKE_COOKIE, ActionKind.DELETE_COOKIE),
        ),
    ),
)
def dirset_mismatch(roster: Roster) -> Findings:
    """The store's cookie of a bookie names other directories than those on its disks.

    What it finds:
        Bookies whose cookie in the store lists journal, ledger or index directories as no VERSION of the
        bookie does. A warning where one list only has more than the other, which allowStorageExpansion takes;
        else an error. Where one of several disagreeing VERSION files agrees with the store, it is
        disk-dirs-disagree alone. A cookie that names another bookie is cookie-key-mismatch alone.

    Why it matters:
        The bookie's configuration cannot agree with both: it refuses to start until they are equal. A
        journal's list must be the same to the letter in any case.

    How sure:
        Confirmed: it was read as it is reported.

    What to do:
        Decide which of the two is right from the bookie's configuration, then change the other.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell updatecookie -e`.
        - `bookkeeper shell cookie_update -cf FILE BOOKIE`.

    Limits:
        The bookie's configuration itself is not seen.
    """
    stored = {row["bookie_id"]: row for row in roster.cookies}
    for row in roster.starts:
        bookie_id, fields = row["bookie_id"], row["store_differs"]
        if fields and bookie_id in stored:
            yield bookie_finding(
                bookie_id,
                f"{bookie_id}: the store's cookie and its disks differ in {', '.join(fields)}",
                {
                    "fields": fields,
                    "stored": {name: stored[bookie_id][name] for name in _LISTS},
                    "on_disk": {name: row[name] for name in _LISTS},
                    "expansion_takes_it": row["store_grows"],
                },
                severity=Severity.WARNING if row["store_grows"] else None,
            )
