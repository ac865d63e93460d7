"""Directories that two bookies share."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows, sorted_facts
from auditor.checks.check import (
    ERASING_ACTIONS,
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
    do_now="stop one bookie of each pair that shares a directory of {bookies}",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def disk_shared(roster: Roster) -> Findings:
    """Two bookies use the same directory.

    What it finds:
        Reports directories that were given for different bookies and have equal VERSION files. The paths of
        both directories match the same path in these files.

    Why it matters:
        Two processes overwrite each other's entries and delete each other's ledgers.

    How sure:
        Confirmed: the VERSION files are equal.

    What to do:
        First stop one of the two bookies, then find out which has the newer data.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell cookie_get BOOKIE`.

    Limits:
        A backup of a directory is reported too. The check skips directories whose path does not end like a
        path in their VERSION.
    """
    configured_rows = [
        row
        for row in roster.directories
        if row["cookie_bookie_id"] is not None and row["configured"] is not None
    ]
    shared_directories = [
        {
            "bookie_id": rows[0]["cookie_bookie_id"],
            "configured": rows[0]["configured"],
            "places": holder_names,
            "found": sorted_facts(rows, "path", "place", "role"),
        }
        for rows in group_rows(configured_rows, _cookie_key).values()
        if len(holder_names := {row["place"] or row["path"] for row in rows}) > 1
    ]
    for bookie_id, rows in group_rows(shared_directories, lambda row: row["bookie_id"]).items():
        all_holder_names = sorted({holder_name for row in rows for holder_name in row["places"]})
        directory_count_text = count_text(len(rows), "directory", "directories")
        verb_form = "is" if len(rows) == 1 else "are"
        directories = sorted(
            ({"configured": row["configured"], "found": row["found"]} for row in rows),
            key=lambda row: (row["configured"], repr(row["found"])),
        )
        yield bookie_finding(
            bookie_id,
            f"{bookie_id}: {directory_count_text} {verb_form} in more than one place: "
            f"{', '.join(all_holder_names)}",
            {"directories": directories},
        )


def _cookie_key(row: TableRow) -> str:
    """Return a key from a directory's cookie that is equal for all copies of the directory."""
    field_names = (
        "cookie_bookie_id",
        "instance_id",
        "journal_dirs",
        "ledger_dirs",
        "index_dirs",
        "configured",
    )
    return repr([row[field_name] for field_name in field_names])
