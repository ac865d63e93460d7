"""Directories whose cookie names another bookie."""

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
    roster_check,
)
from auditor.model.alias_evidence import Rule


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    do_now="move the disks of {bookies} back to where they belong",
    holds=(
        HoldRule(
            HoldTarget.BOOKIE,
            (
                *ERASING_ACTIONS,
                ActionKind.START,
                ActionKind.MAKE_COOKIE,
                ActionKind.RECOVER,
                ActionKind.REBUILD_INDEX,
            ),
        ),
    ),
)
def disk_id_mismatch(roster: Roster) -> Findings:
    """A directory that was given for one bookie contains the cookie of another bookie.

    What it finds:
        Reports directories whose VERSION names another bookie. If the cluster knows that bookie, the audit
        assigns the data to it. Nothing is reported if `bookie-alias` finds that both ids are the same
        bookie.

    Why it matters:
        Somebody swapped, cloned or misplaced disks, or changed the bookie's id. The bookie refuses to
        start.

    How sure:
        Confirmed: VERSION names another bookie.

    What to do:
        Put the disk where it belongs, or give the bookie its old id back (bookieId, advertisedAddress).
        Never copy VERSION from one directory to another.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Compare both cookies.
        - `bookkeeper shell updatecookie -b hostname`
          Set useHostNameAsBookieID first.

    Limits:
        A directory passed to the audit under the wrong bookie's id is reported too.
    """
    # bookie-alias already reports pairs of ids that these directories connect.
    alias_pairs = {
        id_pair
        for row in roster.identity_edges
        if row["rule"] == Rule.DISKS_NAME.value
        for id_pair in ((row["one"], row["other"]), (row["other"], row["one"]))
    } & roster.aliases
    mismatched_rows = [
        {**row, "names": row["cookie_bookie_id"]}
        for row in roster.directories
        if row["place"] is not None
        and row["cookie_bookie_id"] is not None
        and row["cookie_bookie_id"] != row["place"]
        and (row["place"], row["cookie_bookie_id"]) not in alias_pairs
    ]
    for given_bookie_id, rows in group_rows(mismatched_rows, lambda row: row["place"]).items():
        cookie_ids = sorted({row["names"] for row in rows})
        directories_text = count_text(len(rows), "directory", "directories")
        verb_form = "carries" if len(rows) == 1 else "carry"
        yield bookie_finding(
            given_bookie_id,
            f"{given_bookie_id}: {directories_text} at its path {verb_form} the cookie of "
            f"{', '.join(cookie_ids)}",
            {"directories": sorted_facts(rows, "path", "role", "names", "owner")},
        )
