"""Registrations that no session keeps alive."""

from auditor.checks.bookie_findings import bookie_finding, group_rows, number_of
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.ERROR, rests_on=Basis.METADATA, do_now="see which tool copied the registrations of {bookies}"
)
def registration_not_ephemeral(roster: Roster) -> Findings:
    """A bookie's registration is not ephemeral: nothing says that the bookie is alive.

    What it finds:
        Registrations, writable or read-only, whose znode is persistent (`ephemeralOwner` 0), whose etcd key
        has no lease, or whose Oxia record has no session (0 is a session). Such a bookie counts as not
        registered everywhere else. One finding per bookie.

    Why it matters:
        Tools that copy a tree from one store to another leave such registrations. They outlive the bookie:
        clients choose it for ensembles and wait, the auditor never marks its ledgers, and a bookie of this id
        cannot register beside it.

    How sure:
        Confirmed: the store says whose each registration is. Of a dump that leaves the field out nothing is
        said.

    What to do:
        See that no tool copies trees into this store any more. Then delete the registration, and start the
        bookie, which registers anew. If there is no such bookie, deleting it is all. In ZooKeeper it is the
        znode `ROOT/available/BOOKIE` (or below `readonly`), where `stat PATH` of ZooKeeper's own client shows
        `ephemeralOwner = 0x0`. In Oxia it is the record of that path: `oxia client get -v PATH` shows
        `"ephemeral":false` and a `version_id`, and `oxia client delete -e VERSION_ID PATH` deletes that
        version only.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.

    Limits:
        A bookie may run all the same, if the registration was put there after the bookie's own.
    """
    persistent = [row for row in roster.registrations if row["ephemeral"] is False]
    bookies = {row["bookie_id"]: row for row in roster.bookies}
    for name, rows in group_rows(persistent, lambda row: row["bookie_id"]).items():
        bookie = bookies.get(name, {})
        modes = sorted(row["mode"] for row in rows)
        ledgers = bookie.get("ledgers", 0)
        names = number_of(ledgers, "ledger names it", "ledgers name it")
        yield bookie_finding(
            name,
            f"{name}: its registration ({' and '.join(modes)}) is not ephemeral and proves no live "
            f"bookie; {names}",
            {
                "modes": modes,
                "since": min((row["ctime"] for row in rows if row["ctime"] is not None), default=None),
                "ledgers": ledgers,
                "has_cookie": bookie.get("has_cookie", False),
                "found": bookie.get("found", False),
            },
        )
