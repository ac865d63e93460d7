"""Bookies whose data, as it was given to the audit, is of another time or cluster than the metadata."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Confidence, Findings, Roster, Severity, Urgency, roster_check


@roster_check(
    Severity.WARNING,
    rests_on=Basis.DISKS,
    urgency=Urgency.UNSEEN,
    do_now="give the audit the directories of {bookies} as they are now",
)
def source_suspect(roster: Roster) -> Findings:
    """The data of a bookie is of another time, or of another cluster, than the metadata.

    What it finds:
        Bookies whose directories are more than one hour older than the metadata: later ledgers exist, the
        bookie took entries of them, and its index has none of them. Bookies whose collection was made more
        than one hour before the metadata was read. Bookies whose directories carry another cluster's instance
        id, if those of all bookies do and the store's own cookies say otherwise.

    Why it matters:
        Old data proves what existed then, not what is missing now, and what it holds may have been collected
        since. Acting on it can destroy good copies.

    How sure:
        Always unconfirmed: the data may be a copy that nobody renewed. No finding that rests on it is
        confirmed, its missing entries are unknown, and the audit is incomplete (exit code 3).

    What to do:
        Do nothing to the bookie. Audit with the bookie's directories as they are now, with a collection made
        within an hour of the metadata, or with metadata of the same time and cluster.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`
          Look at its directories.

    Limits:
        The age comes from the times of lastMark and journal files: a copy without them looks new, unless
        `--index-time` says its time. An idle bookie writes nothing, so age alone is no finding. A store
        without times (etcd) dates no ledger: only collections are dated there.
    """
    for bookie_id, reason in sorted(roster.cluster.unproved_bookies.items()):
        yield bookie_finding(
            bookie_id,
            f"{bookie_id}: {reason}; what it lacks is unknown, and no finding that rests on it is confirmed",
            {"reason": reason},
            confidence=Confidence.SUSPECT,
            unknown=[bookie_id],
        )
