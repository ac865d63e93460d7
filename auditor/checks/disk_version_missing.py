"""Directories without their VERSION file."""

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
    Urgency,
    roster_check,
)


@roster_check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    urgency=Urgency.DESTROYS_DATA,
    do_now="mount the right disks of {bookies} before a start",
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
def disk_version_missing(roster: Roster) -> Findings:
    """A directory that a bookie's cookies list has no VERSION file.

    What it finds:
        Reports directories in the bookie's cookies that have no VERSION. The severity is `warning` if
        nobody can need data on the disk, because all this is true:
        - No ledger and no under-replication mark names the bookie.
        - Every entry has all copies on other bookies.
        - No bookie holds orphans.

    Why it matters:
        The bookie refuses its next start. With allowStorageExpansion, it treats a wiped journal directory
        as a new one, and silently loses the journal's entries.

    How sure:
        Confirmed: the directory was listed.

    What to do:
        Mount the right disk. If it is gone, have the bookie's ledgers copied, and set the bookie up again.
        Or start the bookie with dataIntegrityChecking and dataIntegrityStampMissingCookies. Never copy
        VERSION from another directory.

    Commands:
        - `bookkeeper shell recover -q BOOKIE`.
        - `bookkeeper shell recover -dr -sk -sku BOOKIE`.
        - `bookkeeper shell recover -sk -sku BOOKIE`.
        - `bookkeeper shell bookieformat -deleteCookie`
          Run it only after the bookie's ledgers are copied.

    Limits:
        A directory that does not exist is not reported.
    """
    directories_without_version = [
        row
        for row in roster.directories
        if row["version_absent"] and row["role"] != "unknown" and row["place"] is not None
    ]
    has_unread_member = any(row["named"] for row in roster.unread_bookies)
    bookies_by_id = {row["bookie_id"]: row for row in roster.bookies}
    for bookie_id, rows in group_rows(directories_without_version, lambda row: row["place"]).items():
        directories = sorted_facts(rows, "path", "role", "empty")
        directory_count_text = count_text(len(rows), "directory", "directories")
        verb_form = "has" if len(rows) == 1 else "have"
        paths_text = ", ".join(row["path"] for row in directories)
        message = f"{bookie_id}: {directory_count_text} {verb_form} no VERSION file: {paths_text}"
        is_unneeded = (
            roster.cluster.copies_complete
            and not has_unread_member
            and _is_unused_bookie(bookies_by_id.get(bookie_id))
        )
        if is_unneeded:
            message += "; no ledger names this bookie, and all copies of every entry exist elsewhere"
        severity = Severity.WARNING if is_unneeded else None
        yield bookie_finding(bookie_id, message, {"directories": directories}, severity=severity)


def _is_unused_bookie(bookie: TableRow | None) -> bool:
    """Return whether neither an ensemble nor an under-replication mark names the bookie.

    The result is False if ``bookie`` is None, or if data on its disks may belong to another bookie or
    cluster.
    """
    if bookie is None or bookie["suspect"] or bookie["foreign_instance"]:
        return False
    return not (bookie["named"] or bookie["marked"])
