"""Bookies with another cluster's instance id, or with none."""

from auditor.checks.bookie_findings import bookie_finding, group_rows, sorted_facts
from auditor.checks.check import (
    ERASING_ACTIONS,
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Need,
    Roster,
    Severity,
    Urgency,
    roster_check,
)


@roster_check(
    Severity.CRITICAL,
    rests_on=Basis.DISKS,
    needs={Need.INSTANCE_ID, Need.DISKS},
    urgency=Urgency.DESTROYS_DATA,
    do_now="stop {bookies} until the correct metadata is found",
    action=ActionKind.STOP,
    holds=(HoldRule(HoldTarget.BOOKIE, (*ERASING_ACTIONS, ActionKind.START, ActionKind.MAKE_COOKIE)),),
)
def instance_mismatch(roster: Roster) -> Findings:
    """A bookie's cookie does not have the cluster's instance id.

    What it finds:
        Reports such cookies in the store and in VERSION files. Cookies with a layout version below 4
        have no instance id, and are reported too.

    Why it matters:
        Somebody formatted the metadata again, or the bookie belongs to another cluster. A running bookie's
        garbage collector then treats all ledgers as orphans and deletes everything.

    How sure:
        Confirmed: both ids were read.

    What to do:
        First stop the bookie. Then find the right metadata.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell bookieformat -deleteCookie`
          Run it only for disks whose data nobody needs.

    Limits:
        If the store's cookies belong to this cluster, but all given directories belong to another cluster,
        only `source-suspect` reports them.
    """
    cluster_instance_id = roster.cluster.instance_id
    if cluster_instance_id is None:
        return
    unproved_foreign_bookies = roster.cluster.unproved_bookies.keys() & {
        row["bookie_id"] for row in roster.bookies if row["foreign_instance"]
    }
    mismatched_rows = [
        row
        for row in roster.all_cookies
        if row["damage"] is None
        and row["instance_id"] != cluster_instance_id
        and row["bookie_id"] not in unproved_foreign_bookies
    ]
    for bookie_id, rows in group_rows(mismatched_rows, lambda row: row["bookie_id"]).items():
        instances = ", ".join(sorted({row["instance_id"] or "none" for row in rows}))
        cookies = sorted_facts(rows, "place", "instance_id")
        subject = bookie_id or cookies[0]["place"]
        yield bookie_finding(
            bookie_id,
            f"{subject}: its instance id is {instances}, but the cluster's is {cluster_instance_id}",
            {"cluster_instance_id": cluster_instance_id, "cookies": cookies},
        )
