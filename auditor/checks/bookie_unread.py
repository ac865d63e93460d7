"""Bookies whose indexes the audit could not read completely."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import (
    Basis,
    Confidence,
    Findings,
    Roster,
    Severity,
    TableRow,
    Urgency,
    roster_check,
)
from auditor.model.cookie import ConfigSource
from auditor.model.states import BookieRead


@roster_check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    urgency=Urgency.UNCHECKED,
    do_now="pass all directories of {bookies} with --bookies",
)
def bookie_unread(roster: Roster) -> Findings:
    """A bookie was not read, so it is unknown which copies it holds.

    What it finds:
        Reports bookies that no source covers. Also reports bookies whose cookie lists a directory that was
        not given or not listable. If a given directory has data but no cookie, `start-refused` reports the
        bookie instead.

    Why it matters:
        The bookie's copies count as unknown, never as missing.

    How sure:
        Always unknown, because the copies were not read.

    What to do:
        Pass every index directory of the bookie. Check paths, mounts, and the permissions of the audit's
        user. If Spark's executors cannot read the bookie's disks, run `bkaudit collect` on the bookie.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bkaudit collect --bookies PATH --out DIR`
          writes the bookie's indexes as tables for --bookies. Run it on the bookie. Risk: none; it only
          reads, and writes to DIR.

    Limits:
        The table `verdicts` lists the undecided ledgers.
    """
    if not roster.cluster.has_sources:
        yield _no_bookie_read(roster.unread_bookies)
        return
    ids_without_cookie = {
        row["bookie_id"] for row in roster.starts if row["source"] == ConfigSource.NO_SOURCE
    }
    for row in roster.unread_bookies:
        bookie_id = row["bookie_id"]
        if bookie_id in ids_without_cookie:
            continue
        yield bookie_finding(
            bookie_id,
            f"{bookie_id} was {'partially read' if row['read'] == BookieRead.PARTIAL else 'not read'}: "
            f"{row['reason'] or 'the reason is unknown'}; "
            f"{count_text(row['ledgers'], 'ledger names it', 'ledgers name it')}, "
            f"at most {count_text(row['replicas'], 'replica', 'replicas')} unknown",
            {field: row[field] for field in ("read", "reason", "ledgers", "replicas")},
            confidence=Confidence.UNKNOWN,
            unknown=[bookie_id],
        )


def _no_bookie_read(unread_bookies: list[TableRow]) -> TableRow:
    """Return the single finding of an audit to which no bookie source was given."""
    reason = "no --bookies was given"
    replica_count = sum(row["replicas"] for row in unread_bookies)
    return bookie_finding(
        None,
        f"no bookie was read: {reason}; {count_text(replica_count, 'replica', 'replicas')} on "
        f"{count_text(len(unread_bookies), 'bookie', 'bookies')} were not checked",
        {
            "read": BookieRead.UNREAD,
            "reason": reason,
            "bookies": len(unread_bookies),
            "replicas": replica_count,
        },
        confidence=Confidence.UNKNOWN,
        unknown=sorted(row["bookie_id"] for row in unread_bookies),
    )
