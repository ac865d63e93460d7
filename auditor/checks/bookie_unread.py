"""Bookies whose indexes could not be read, or not all of them."""

from auditor.checks.bookie_findings import bookie_finding, number_of
from auditor.checks.check import Basis, Confidence, Findings, Roster, Row, Severity, Urgency, roster_check
from auditor.model.cookie import Source
from auditor.model.states import BookieRead


@roster_check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    urgency=Urgency.UNSEEN,
    do_now="pass all directories of {bookies} with --bookies",
)
def bookie_unread(roster: Roster) -> Findings:
    """A bookie was not read, so what it holds is unknown.

    What it finds:
        Bookies that an ensemble names, or of which a directory was found, that were not read completely: no
        source covers them, a directory of their cookie is absent, or a directory could not be listed. An
        audit without --bookies has one finding for all of them. A bookie whose given directories have data
        and no cookie is start-refused alone.

    Why it matters:
        The audit is incomplete: copies on such a bookie count as unknown, never as missing.

    How sure:
        Always unknown: it says what was not looked at.

    What to do:
        Pass every index directory of the bookie: check the paths of the inventory, the mounts, and the rights
        of the user who runs the audit. Where executors do not share the disks, run `bkaudit collect` beside
        the bookie and audit what it wrote.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Look at its directories.
        - `bkaudit collect --bookies PATH --out DIR`
          beside the bookie, writes its indexes as tables, a source of --bookies. Risk: none; it only reads,
          and writes to DIR.

    Limits:
        One finding per bookie. Which ledgers it leaves undecided is in the table of verdicts.
    """
    if not roster.cluster.has_sources:
        yield _none_read(roster.unread)
        return
    without_cookies = {row["bookie_id"] for row in roster.starts if row["source"] == Source.NOTHING}
    for row in roster.unread:
        name = row["bookie_id"]
        if name in without_cookies:
            continue
        yield bookie_finding(
            name,
            f"{name} was {'read in part' if row['read'] == BookieRead.PARTIAL else 'not read'}: "
            f"{row['reason'] or 'no reason is known'}; "
            f"{number_of(row['ledgers'], 'ledger names it', 'ledgers name it')}, "
            f"{number_of(row['replicas'], 'replica', 'replicas')} undecided at most",
            {field: row[field] for field in ("read", "reason", "ledgers", "replicas")},
            confidence=Confidence.UNKNOWN,
            unknown=[name],
        )


def _none_read(unread: list[Row]) -> Row:
    """Where no bookie was looked for, that is one fact, and not one per bookie."""
    reason = "no --bookies was given"
    replicas = sum(row["replicas"] for row in unread)
    return bookie_finding(
        None,
        f"no bookie was read: {reason}; {number_of(replicas, 'replica', 'replicas')} on "
        f"{number_of(len(unread), 'bookie', 'bookies')} were not checked",
        {"read": BookieRead.UNREAD, "reason": reason, "bookies": len(unread), "replicas": replicas},
        confidence=Confidence.UNKNOWN,
        unknown=sorted(row["bookie_id"] for row in unread),
    )
