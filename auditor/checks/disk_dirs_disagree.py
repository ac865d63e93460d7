"""Disks of one bookie whose VERSION files differ."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows, sorted_facts
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
    rests_on=Basis.DISKS,
    do_now="put the right disks into {bookies}",
    holds=(
        HoldRule(
            HoldTarget.BOOKIE,
            (
                ActionKind.START,
                ActionKind.MAKE_COOKIE,
                ActionKind.DELETE_COOKIE,
                ActionKind.DECOMMISSION,
                ActionKind.REBUILD_INDEX,
            ),
        ),
    ),
)
def disk_dirs_disagree(roster: Roster) -> Findings:
    """The VERSION files of a bookie name different directories.

    What it finds:
        Reports bookies whose VERSION files have different lists of directories. A file does not count if it
        names a different bookie than the one for which its directory was given.

    Why it matters:
        One disk is an old copy, or missed a change of the configuration. The bookie refuses to start.

    How sure:
        Confirmed: the VERSION files were read.

    What to do:
        Replace the disk that has the wrong VERSION with the right disk. Never copy VERSION from one
        directory to another.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell updatecookie -e`.

    Limits:
        Only directories given to the audit are compared. Cookies that differ only in their
        layout version (3 or later) count as equal.
    """
    own_rows = [
        row
        for row in roster.directories
        if row["cookie_bookie_id"] is not None and row["place"] in (None, row["cookie_bookie_id"])
    ]
    for bookie_id, rows in group_rows(own_rows, lambda row: row["cookie_bookie_id"]).items():
        version_count = len({repr([row[list_name] for list_name in _DIRECTORY_LISTS]) for row in rows})
        if version_count > 1:
            directory_sets_text = count_text(
                version_count, "set of directories", "different sets of directories"
            )
            yield bookie_finding(
                bookie_id,
                f"{bookie_id}: its VERSION files name {directory_sets_text}",
                {"directories": sorted_facts(rows, "path", "role", *_DIRECTORY_LISTS)},
            )


_DIRECTORY_LISTS = ("journal_dirs", "ledger_dirs", "index_dirs")
