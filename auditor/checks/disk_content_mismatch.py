"""Directories that hold the ledgers of another bookie, even if their cookies do not show it."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows, sorted_facts
from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    Confidence,
    Findings,
    HoldRule,
    HoldTarget,
    Roster,
    Severity,
    TableRow,
    Urgency,
    roster_check,
)
from auditor.model.alias_evidence import MIN_COMPARED_LEDGERS


def matches_other_bookie(row: TableRow, match_margin: int) -> bool:
    """Return whether a directory's data seems to belong to another bookie, the candidate of the row.

    ``row`` is a row of the table ``contents``. A ledger matches a bookie if its entries are those that the
    bookie should have. At least `MIN_COMPARED_LEDGERS` ledgers must match only the candidate. Their number
    must also be at least ``match_margin`` times the number of ledgers that match only the directory's own
    bookie (``owner``).
    """
    minimum_ledgers = max(MIN_COMPARED_LEDGERS, match_margin * row["worse"])
    return bool(row["candidate"] != row["owner"] and row["better"] >= minimum_ledgers)


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies}, and mount the right disks",
    action=ActionKind.STOP,
    holds=(
        HoldRule(
            HoldTarget.BOOKIE,
            (*ERASING_ACTIONS, ActionKind.START, ActionKind.RECOVER, ActionKind.REBUILD_INDEX),
        ),
    ),
    settings=("content_margin",),
)
def disk_content_mismatch(roster: Roster) -> Findings:
    """A directory holds the ledgers of another bookie.

    What it finds:
        Reports directories in which at least five ledgers have exactly the entries that another bookie
        should have, but lacks. Hardly any ledger in the directory has the entries that the bookie named in
        VERSION should have. If `disk-id-mismatch` also reports the directory, somebody copied VERSION into
        it, and the disk may be in its right place.

    Why it matters:
        Somebody swapped two bookies' disks and gave each disk the cookie of its new bookie. The bookie
        starts without its own ledgers. After a day its garbage collector deletes the other bookie's
        ledgers.

    How sure:
        Always suspect, because matching ledgers are no proof.

    What to do:
        First stop the bookie. Decommission neither bookie, because both disks still have their data. Then
        mount the disk on the bookie to which its ledgers belong, with that bookie's own VERSION.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Compare both cookies.
        - `bookkeeper shell listledgers -bookieid BOOKIE`.
        - `bookkeeper shell listfilesondisc -txn -log -idx`.

    Limits:
        The check cannot tell apart two bookies that should have the same entries.
    """
    bookies_by_id = {row["bookie_id"]: row for row in roster.bookies}
    mismatched_rows = [
        row
        for row in roster.contents
        if matches_other_bookie(row, roster.cluster.settings.content_margin)
        and row["owner"] in bookies_by_id
        and row["candidate"] in bookies_by_id
        and not _took_new_id(bookies_by_id[row["owner"]], bookies_by_id[row["candidate"]])
        and (row["owner"], row["candidate"]) not in roster.aliases
    ]
    for owner_id, rows in group_rows(mismatched_rows, lambda row: row["owner"]).items():
        candidate_ids = sorted({row["candidate"] for row in rows})
        directory_count = len({row["directory"] for row in rows})
        better_match_count = sum(row["better"] for row in rows)
        yield bookie_finding(
            owner_id,
            f"{owner_id}: {count_text(directory_count, 'directory', 'directories')} attributed to this "
            f"bookie {'holds' if directory_count == 1 else 'hold'} entries of "
            f"{count_text(better_match_count, 'ledger', 'ledgers')} that are missing on "
            f"{', '.join(candidate_ids)} (compared entry by entry)",
            {"directories": sorted_facts(rows, *_CONTENT_FIELDS)},
            confidence=Confidence.SUSPECT,
        )


def _took_new_id(owner: TableRow, candidate: TableRow) -> bool:
    """Return whether the directory's bookie is registered and the candidate gone, as if its id changed."""
    return owner["registered"] is not None and candidate["registered"] is None and not candidate["found"]


_CONTENT_FIELDS = ("directory", "place", "candidate", "ledgers", "named", "exact", "better", "worse")
