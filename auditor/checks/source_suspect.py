"""Bookies whose data is from a different time or cluster than the metadata."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Confidence, Findings, Roster, Severity, Urgency, roster_check


@roster_check(
    Severity.WARNING,
    rests_on=Basis.DISKS,
    urgency=Urgency.UNCHECKED,
    do_now="audit the current directories of {bookies}",
)
def source_suspect(roster: Roster) -> Findings:
    """The data of a bookie is from a different time or cluster than the metadata.

    What it finds:
        Reports bookies with one of these faults:
        - The bookie's newest file is over an hour older than the metadata, and its index lacks all later
          ledgers.
        - The bookie's tables from `bkaudit collect` are over an hour older than the metadata, or have a
          future time.
        - All bookies' directories have another cluster's instance id, but the cookies in the store do not.

    Why it matters:
        Acting on old data can destroy good copies.

    How sure:
        Always suspect, because the data may be an old copy. No finding that depends on this data is
        confirmed. Entries that this data lacks are unknown, and the exit code is 3.

    What to do:
        Do nothing to the bookie. Audit its present directories, or audit tables of `bkaudit collect` with
        metadata from the same time and cluster.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.

    Limits:
        Copied directories without lastMark and journal files look new, unless `--index-time` is given. With
        etcd, only tables of `bkaudit collect` have a date.
    """
    for bookie_id, reason in sorted(roster.cluster.unproved_bookies.items()):
        yield bookie_finding(
            bookie_id,
            f"{bookie_id}: {reason}; entries that it lacks count as unknown, and no finding that depends on "
            "its data is confirmed",
            {"reason": reason},
            confidence=Confidence.SUSPECT,
            unknown=[bookie_id],
        )
