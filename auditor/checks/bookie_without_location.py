"""Bookies without a location in the mapping of bookies to racks."""

from auditor.checks.bookie_findings import bookie_finding, count_text
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check
from auditor.model.amounts import first_names
from auditor.model.placement import Policy

MAX_SHOWN_BOOKIES = 10


@roster_check(Severity.WARNING, rests_on=Basis.PLACEMENT, do_now="add {bookies} to the rack mapping")
def bookie_without_location(roster: Roster) -> Findings:
    """Bookies have no location, so servers put them in one default location.

    What it finds:
        Reports bookies, registered or in an ensemble, that have no location or only a default one.

    Why it matters:
        Servers treat bookies without a location as one rack. A zone policy rates every ensemble with such
        a bookie as FAIL.

    How sure:
        Confirmed: the mapping is complete.

    What to do:
        Add the bookies to the rack mapping. Pulsar uses the new mapping at once. Servers run a
        rack script only when a bookie joins.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        Nothing is reported if the placement policy is `none`. If no bookie has a location,
        `placement-violated` reports nothing.
    """
    from auditor.model.adherence import DEFAULT_PATHS  # imports NumPy, too slow for bkaudit explain check

    placement_settings = roster.cluster.placement
    if placement_settings is None or placement_settings.policy is Policy.NONE:
        return
    named_ids = {row["bookie_id"] for row in roster.bookies if row["named"] or row["registered"]}
    unlocated_bookies = sorted(
        named_ids - {name for name in named_ids if roster.locations.path(name) is not None}
    )
    if unlocated_bookies:
        default_location = DEFAULT_PATHS[placement_settings.policy]
        names_text = first_names(unlocated_bookies, MAX_SHOWN_BOOKIES)
        yield bookie_finding(
            None,
            f"{len(unlocated_bookies)} of {count_text(len(named_ids), 'bookie', 'bookies')} "
            f"{'has' if len(unlocated_bookies) == 1 else 'have'} no location, so servers assume that they "
            "are in "
            f"{default_location}: {names_text}",
            {"bookies": unlocated_bookies, "of": len(named_ids), "default": default_location},
        )
