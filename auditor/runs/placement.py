"""The placement policy and the locations that a finished run was made with; without Spark."""

from __future__ import annotations

from auditor.model.placement import Locations, PlacementSettings
from auditor.model.run_facts import REPORT
from auditor.runs.directory import damaged
from auditor.runs.reader import RunReader
from auditor.tables.placement import BOOKIE_LOCATIONS, locations_of


def load_placement(run: RunReader) -> tuple[PlacementSettings, Locations]:
    """By which policy the run was judged, and where its bookies stand.

    A run that did not look at placement, or that an earlier version wrote, has policy none with an empty
    origin, and no location.

    Raises:
        RunError: the run's table is missing or broken, or its report has a policy that nobody knows.
    """
    facts = run.report.run.placement
    if facts is None:
        return PlacementSettings(), Locations()
    rows = run.table("bookie_locations", BOOKIE_LOCATIONS.names).to_pylist()
    try:
        settings = PlacementSettings.from_json(facts["policy"], facts["settings"], facts["policy_origin"])
    except (ValueError, TypeError) as error:
        raise damaged(f"{run.path}/{REPORT}", error) from error
    return settings, locations_of(rows, facts["mapping_origin"])
