"""Clusters without an instance id."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.WARNING, rests_on=Basis.METADATA, do_now="restore the instance id before a bookie restarts"
)
def instance_id_missing(roster: Roster) -> Findings:
    """The metadata store has no instance id for the cluster.

    What it finds:
        Reports a store whose INSTANCEID is missing or empty. The severity is `note` if no cookie has an
        instance id either.

    Why it matters:
        Bookies whose cookies have an instance id refuse to start. Other bookies do not notice that their
        disks belong to another cluster, or that somebody formatted the metadata again. They then delete all
        their ledgers.

    How sure:
        Confirmed: all of the store's own znodes were read.

    What to do:
        If cookies have an instance id, find out who removed INSTANCEID. Put that id back with ZooKeeper's
        client before a bookie restarts. If no cookie has an instance id (clusters formatted before 4.3,
        standalone Pulsar), do nothing.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`.

    Limits:
        `start-refused` does not repeat this cause for each bookie.
    """
    if not roster.cluster.instance_id_missing:
        return
    cookie_ids = [row["instance_id"] for row in roster.cookies if row["instance_id"] is not None]
    disk_ids = [row["instance_id"] for row in roster.directories if row["instance_id"] is not None]
    ids = sorted({*cookie_ids, *disk_ids})
    yield bookie_finding(
        None,
        "the cluster has no INSTANCEID; an instance id exists in "
        f"{count_text(len(cookie_ids), 'cookie', 'cookies')} in its store and "
        f"{count_text(len(disk_ids), 'VERSION file', 'VERSION files')} on disks",
        {"cookies": len(cookie_ids), "versions": len(disk_ids), "instance_ids": ids},
        severity=None if ids else Severity.NOTE,
    )
