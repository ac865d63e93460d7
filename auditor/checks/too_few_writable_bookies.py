"""Clusters with fewer writable bookies than their ensembles need."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import Basis, Findings, Need, Roster, Severity, roster_check
from auditor.model.repair import waiting_text


@roster_check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    needs={Need.ALL_BOOKIES, Need.ALL_LEDGERS, Need.REGISTRATIONS},
    do_now="find out which bookies are down or read-only: too few accept writes",
)
def too_few_writable_bookies(roster: Roster) -> Findings:
    """There are fewer writable bookies than an ensemble needs.

    What it finds:
        Reports clusters with fewer writable bookies than the largest ensemble size in use. The severity is
        `warning` if enough bookies are writable for the smallest size in use. Sizes in use are those of
        ledgers that are open or less than a week old. If there are none, all ledgers count.

    Why it matters:
        Applications cannot create ledgers with such an ensemble, and their writers stop at the next
        failure.

    How sure:
        Confirmed: the store lists every registration.

    What to do:
        Bring back the bookies that are down or read-only.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.
        - `bookkeeper shell listbookies -ro -h`.

    Limits:
        The check does not see configured ensemble sizes that no ledger has.
    """
    repair_state, cluster = roster.cluster.repair, roster.cluster
    if not repair_state.knows_registrations or not cluster.bookies_listed or cluster.unclear_bookies:
        return
    if repair_state.writable >= repair_state.largest_ensemble or (
        repair_state.registered and not repair_state.writable
    ):
        return
    is_none_possible = repair_state.writable < repair_state.smallest_ensemble
    ensemble_size = repair_state.smallest_ensemble if is_none_possible else repair_state.largest_ensemble
    yield bookie_finding(
        None,
        f"{count_text(repair_state.writable, 'bookie is', 'bookies are')} writable, but ensembles of "
        f"{ensemble_size} are in "
        f"use: no ledger of that ensemble size can be created; {waiting_text(repair_state)}",
        {
            "writable": repair_state.writable,
            "registered": repair_state.registered,
            "smallest_ensemble": repair_state.smallest_ensemble,
            "largest_ensemble": repair_state.largest_ensemble,
            "waiting": repair_state.waiting,
        },
        severity=None if is_none_possible else Severity.WARNING,
    )
