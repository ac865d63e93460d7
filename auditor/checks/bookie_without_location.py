"""Bookies of which the mapping says nothing."""

from auditor.checks.bookie_findings import bookie_finding, number_of
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check
from auditor.model.amounts import first_names
from auditor.model.placement import Policy

SHOWN = 10


@roster_check(Severity.WARNING, rests_on=Basis.PLACEMENT, do_now="add {bookies} to the mapping")
def bookie_without_location(roster: Roster) -> Findings:
    """Bookies have no location, so that servers put all of them in one default place.

    What it finds:
        Bookies that are registered or in an ensemble and that have no location in the mapping, or only a
        default (/default-rack). One finding for the cluster. Nothing where the policy is none.

    Why it matters:
        A server takes them to be in one rack, and a zone policy calls every ensemble with one of them FAIL.
        Nobody can say what one domain holds of their ledgers.

    How sure:
        Confirmed: the mapping is complete.

    What to do:
        Add them to the mapping. Pulsar uses it at once; a script is asked when a bookie joins.

    Commands:
        - `bookkeeper shell listbookies -rw -h`
          Look at the hosts that the mapping is to name.

    Limits:
        With no location at all, only this is reported: placement-violated would be every ledger.
    """
    from auditor.model.adherence import DEFAULTS  # it loads NumPy, which explain check does without

    settings = roster.cluster.placement
    if settings is None or settings.policy is Policy.NONE:
        return
    concerned = {row["bookie_id"] for row in roster.bookies if row["named"] or row["registered"]}
    lacking = sorted(concerned - {name for name in concerned if roster.locations.path(name) is not None})
    if lacking:
        default = DEFAULTS[settings.policy]
        names = first_names(lacking, SHOWN)
        yield bookie_finding(
            None,
            f"{number_of(len(lacking), 'bookie has', 'bookies have')} no location, of {len(concerned)}, and "
            f"servers take them to be in {default}: {names}",
            {"bookies": lacking, "of": len(concerned), "default": default},
        )
