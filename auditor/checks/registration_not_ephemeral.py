"""Registrations without a session."""

from auditor.checks.bookie_findings import bookie_finding, count_text, group_rows
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    do_now="find out which tool copied the registrations of {bookies}",
)
def registration_not_ephemeral(roster: Roster) -> Findings:
    """A bookie's registration is not ephemeral, so it does not prove that the bookie is alive.

    What it finds:
        Reports persistent znodes (`ephemeralOwner` 0), etcd keys without a lease, and Oxia records without
        a session. Other checks count such a bookie as not registered.

    Why it matters:
        Clients choose the dead bookie and wait. The auditor never marks its ledgers. A bookie with this id
        cannot register.

    How sure:
        Confirmed: the store has the owner of each registration.

    What to do:
        Check that no tool copies znodes into this store. Delete the registration, then restart the bookie
        if it runs.

        - ZooKeeper: delete the znode `ROOT/available/BOOKIE` (or below `readonly`) if `stat PATH` shows
          `ephemeralOwner = 0x0`.
        - Oxia: delete the record of that path. `oxia client get -v PATH` shows `"ephemeral":false` and a
          `version_id`. `oxia client delete -e VERSION_ID PATH` deletes only that version.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.

    Limits:
        Dumps without `ephemeralOwner` are not checked.
    """
    persistent_rows = [row for row in roster.registrations if row["ephemeral"] is False]
    bookies_by_id = {row["bookie_id"]: row for row in roster.bookies}
    for bookie_id, rows in group_rows(persistent_rows, lambda row: row["bookie_id"]).items():
        bookie = bookies_by_id.get(bookie_id, {})
        modes = sorted(row["mode"] for row in rows)
        ledgers = bookie.get("ledgers", 0)
        ledger_count_text = count_text(ledgers, "ledger names it", "ledgers name it")
        yield bookie_finding(
            bookie_id,
            f"{bookie_id}: its registration ({' and '.join(modes)}) is not ephemeral, so it "
            f"does not prove that the bookie is alive; {ledger_count_text}",
            {
                "modes": modes,
                "since": min((row["ctime"] for row in rows if row["ctime"] is not None), default=None),
                "ledgers": ledgers,
                "has_cookie": bookie.get("has_cookie", False),
                "found": bookie.get("found", False),
            },
        )
