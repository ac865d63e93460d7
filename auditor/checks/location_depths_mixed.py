"""Locations of different depths; a topology accepts only one."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check
from auditor.model.amounts import first_names
from auditor.model.placement import Policy
from auditor.model.states import TAKES_WRITES

SHOWN = 5


@roster_check(Severity.ERROR, rests_on=Basis.PLACEMENT, do_now="give all bookies locations of one depth")
def location_depths_mixed(roster: Roster) -> Findings:
    """Locations have different depths, and servers use only bookies of the depth that they see first.

    What it finds:
        Writable bookies with locations of different numbers of parts, such as /r1 and /east/r1.

    Why it matters:
        A client or Auditor takes the depth of the first bookie that it sees. Bookies of other depths get no
        ledgers and count for no rack. One bookie in /default-rack can shut out all in /region/rack.

    How sure:
        Confirmed by this run's mapping.

    What to do:
        Give all bookies locations of one depth. Then restart clients and the Auditor.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        Read-only and absent bookies do not count. The audit cannot know which bookie a client or the Auditor
        saw first.
    """
    from auditor.model.adherence import ServerView, depth_of  # NumPy, too slow for bkaudit explain check

    settings = roster.cluster.placement
    if settings is None or settings.policy is Policy.NONE:
        return
    writable = [row["bookie_id"] for row in roster.bookies if row["registered"] in TAKES_WRITES]
    view = ServerView.of(roster.locations, settings.policy, writable, writable)
    depths: dict[int, list[str]] = {}
    for name in sorted(writable):
        depths.setdefault(depth_of(view.paths[name]), []).append(name)
    if len(depths) < 2 or not roster.locations.known:
        return
    groups = [
        f"{first_names([f'{name} in {view.paths[name]}' for name in names], SHOWN)}"
        for _, names in sorted(depths.items())
    ]
    yield bookie_finding(
        None,
        f"locations have {len(depths)} depths, and a server leaves out bookies of other depths "
        "than the first: "
        f"{'; or '.join(groups)}",
        {"depths": [{"depth": depth, "bookies": names} for depth, names in sorted(depths.items())]},
    )
