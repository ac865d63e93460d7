"""Cookies of bookies that no ledger or registration names."""

from auditor.checks.bookie_findings import bookie_finding, suspect_or_confirmed
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check


@roster_check(Severity.NOTE, rests_on=Basis.METADATA, needs={Need.ALL_BOOKIES})
def cookie_unused(roster: Roster) -> Findings:
    """The store has a cookie for a bookie that is not registered and that no ledger names.

    What it finds:
        Reports cookies of bookies that are neither registered nor in an ensemble.

    Why it matters:
        While the cookie exists, a bookie with this id cannot start on empty disks.

    How sure:
        Confirmed: nothing names the bookie. Suspect if LAYOUT and the ledger tree disagree
        (`metadata-misplaced`), because the audit may then miss ledgers.

    What to do:
        Delete the cookie once you are certain that the bookie will not return.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Save the output.
        - `bookkeeper shell cookie_delete BOOKIE`
          deletes the cookie from the store. Risk: writes; the disks keep their VERSION, and the bookie
          cannot start again without a new cookie.

    Limits:
        A new bookie that stopped before its first ledger is reported too.
    """
    for row in roster.certain_bookies:
        if row["has_cookie"] and not row["named"] and row["registered"] is None:
            yield bookie_finding(
                row["bookie_id"],
                f"{row['bookie_id']} has a cookie, is in no ensemble and is not registered",
                {"found": row["found"]},
                confidence=suspect_or_confirmed(roster.cluster.wrong_tree_reason is not None),
            )
