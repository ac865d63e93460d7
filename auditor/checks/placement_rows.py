"""Rows of the table placement as findings tell them: one ledger a row, with the first of its segments."""

from __future__ import annotations

from auditor.model.columns import LEDGER
from auditor.model.placement import PlacementSettings, Policy
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame

_OF_SEGMENT = (
    "first_entry_id, windows, bookies, locations, unwritable, domain, state, write_quorum, ack_quorum"
)

PLACES = {
    name: name
    for name in (
        "state",
        "segments",
        "first_entry_id",
        "windows",
        "bookies",
        "locations",
        "write_quorum",
        "ack_quorum",
    )
}
"""What the evidence of both checks has."""


def by_ledger(segments: DataFrame) -> DataFrame:
    """One row for each ledger of these segments: the first of them, and how many there are (``segments``)."""
    first = F.expr(f"min(struct({_OF_SEGMENT})) AS first")
    rows = segments.groupBy(*LEDGER).agg(
        F.expr("count(*) AS segments"), F.expr("bool_and(excused) AS excused"), first
    )
    return rows.selectExpr(*LEDGER, "segments", "excused", "first.*")


def window_words() -> Column:
    """The first window: its bookies, and where each is."""
    return F.expr(
        "array_join(transform(arrays_zip(bookies, locations), each -> concat(each.bookies, ' ', "
        "coalesce(concat('in ', each.locations), 'without a location'))), ', ')"
    )


def rule_of(settings: PlacementSettings | None) -> str:
    """A policy and what counts of its settings, by the server's names.

    >>> rule_of(PlacementSettings(Policy.RACK, enforce_min_racks=True))
    'rack, minNumRacksPerWriteQuorum 2, enforced'
    """
    assert settings is not None  # without settings there is no table placement
    match settings.policy:
        case Policy.RACK:
            enforced = ", enforced" if settings.enforce_min_racks else ""
            return f"rack, minNumRacksPerWriteQuorum {settings.min_racks}{enforced}"
        case Policy.ZONE:
            return f"zone, minNumZonesPerWriteQuorum {settings.min_zones}"
        case Policy.REGION if settings.regions_to_write:
            return f"region, reppMinimumRegionsForDurability {settings.min_regions}"
    return str(settings.policy)
