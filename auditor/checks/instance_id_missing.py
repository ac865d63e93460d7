"""A cluster without an identity."""

from auditor.checks.bookie_findings import bookie_finding, number_of
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.WARNING, rests_on=Basis.METADATA, do_now="put the instance id back before a bookie restarts"
)
def instance_id_missing(roster: Roster) -> Findings:
    """The store keeps no instance id of the cluster.

    What it finds:
        A metadata store without an INSTANCEID, or with an empty one: one finding for the cluster. Its
        evidence counts the cookies, in the store and on disks, that carry an instance id, and lists these
        ids: they come from an INSTANCEID that is gone. A note where none does: such a cluster never had one,
        as a standalone Pulsar's.

    Why it matters:
        Without it a bookie does not notice that its disks belong to another cluster, or that the metadata was
        formatted anew: it starts, sees no ledger of its own, and its collector deletes them all. Bookies
        whose cookies carry an instance id refuse to start.

    How sure:
        Confirmed: all of the cluster's own znodes could be read; nothing is reported otherwise.

    What to do:
        If cookies carry an instance id, find out who removed the INSTANCEID, and put that id back with
        ZooKeeper's client before a bookie restarts. Clusters formatted before 4.3, and a standalone Pulsar's,
        never had one: do nothing.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`.

    Limits:
        The start of each bookie is not repeated as start-refused.
    """
    if not roster.cluster.instance_id_missing:
        return
    stored = [row["instance_id"] for row in roster.cookies if row["instance_id"] is not None]
    on_disk = [row["instance_id"] for row in roster.directories if row["instance_id"] is not None]
    ids = sorted({*stored, *on_disk})
    yield bookie_finding(
        None,
        "the cluster has no INSTANCEID; an instance id is carried by "
        f"{number_of(len(stored), 'cookie', 'cookies')} of its store and "
        f"{number_of(len(on_disk), 'VERSION file', 'VERSION files')} on disks",
        {"cookies": len(stored), "versions": len(on_disk), "instance_ids": ids},
        severity=None if ids else Severity.NOTE,
    )
