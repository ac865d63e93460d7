"""Clusters in which every registered bookie is read-only."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check
from auditor.model.repair import waiting_text


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES, Need.REGISTRATIONS},
    do_now="find out why every bookie is read-only (full disks, for example)",
)
def all_bookies_read_only(roster: Roster) -> Findings:
    """Every registered bookie is read-only.

    What it finds:
        Reports clusters with registered bookies, but no writable one.

    Why it matters:
        Nobody can create a ledger, replace a failed bookie or copy anything.

    How sure:
        Confirmed: neither metadata scan saw a writable bookie.

    What to do:
        Look for full disks, failed journals and `-readonly` on the bookies.

    Commands:
        - `bookkeeper shell listbookies -ro -h`.
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        The store does not say why the bookies are read-only.
    """
    repair_state, cluster = roster.cluster.repair, roster.cluster
    if (
        not repair_state.registered
        or repair_state.writable
        or not cluster.bookies_listed
        or cluster.unclear_bookies
    ):
        return
    yield bookie_finding(
        None,
        f"every registered bookie ({repair_state.registered}) is read-only: no ledger can be created and "
        f"nothing "
        f"can be copied; {waiting_text(repair_state)}",
        {"registered": repair_state.registered, "waiting": repair_state.waiting},
    )
