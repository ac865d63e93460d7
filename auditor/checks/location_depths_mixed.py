"""Locations of different depths. A topology accepts only one depth."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Findings, Roster, Severity, roster_check
from auditor.model.amounts import first_names
from auditor.model.placement import Policy
from auditor.model.states import WRITABLE_MODES

MAX_SHOWN_BOOKIES = 5


@roster_check(Severity.ERROR, rests_on=Basis.PLACEMENT, do_now="give all bookies locations of the same depth")
def location_depths_mixed(roster: Roster) -> Findings:
    """Locations have different depths, and servers use only bookies of the depth that they see first.

    What it finds:
        Reports writable bookies whose locations have different numbers of parts, such as /r1 and /east/r1.

    Why it matters:
        A client or Auditor accepts only the depth of the first bookie that it sees. Bookies of other depths
        get no ledgers and count for no rack. One bookie in /default-rack can exclude all in /region/rack.

    How sure:
        Confirmed by this run's mapping.

    What to do:
        Give all bookies locations of the same depth. Then restart clients and the Auditor.

    Commands:
        - `bookkeeper shell listbookies -rw -h`.

    Limits:
        Read-only and absent bookies do not count. The audit cannot know which bookie a client or the
        Auditor saw first.
    """
    from auditor.model.adherence import ServerView, depth_of  # NumPy, too slow for bkaudit explain check

    placement_settings = roster.cluster.placement
    if placement_settings is None or placement_settings.policy is Policy.NONE:
        return
    writable_bookies = [row["bookie_id"] for row in roster.bookies if row["registered"] in WRITABLE_MODES]
    server_view = ServerView.from_locations(
        roster.locations, placement_settings.policy, writable_bookies, writable_bookies
    )
    bookies_by_depth: dict[int, list[str]] = {}
    for bookie_id in sorted(writable_bookies):
        bookies_by_depth.setdefault(depth_of(server_view.paths[bookie_id]), []).append(bookie_id)
    if len(bookies_by_depth) < 2 or not roster.locations.has_known_location:
        return
    group_texts = [
        f"{first_names([f'{name} in {server_view.paths[name]}' for name in bookie_ids], MAX_SHOWN_BOOKIES)}"
        for _, bookie_ids in sorted(bookies_by_depth.items())
    ]
    yield bookie_finding(
        None,
        f"locations have {len(bookies_by_depth)} different depths; a server takes "
        "the depth of the first bookie that it adds, and ignores bookies at other depths: "
        f"{'; or '.join(group_texts)}",
        {
            "depths": [
                {"depth": depth, "bookies": bookie_ids}
                for depth, bookie_ids in sorted(bookies_by_depth.items())
            ]
        },
    )
