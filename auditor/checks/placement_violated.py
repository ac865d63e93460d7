"""Ledgers with an ensemble that the server's placement class calls FAIL."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import (
    PLACEMENT_COLUMNS,
    bookie_locations_text,
    group_by_ledger,
    policy_sentence,
)
from auditor.model.placement import PlacementSettings, Policy


@check(
    Severity.WARNING,
    rests_on=Basis.PLACEMENT,
    needs={Need.LOCATIONS, Need.ALL_BOOKIES},
    do_now="check whether the policy and mapping are correct for {ledgers}",
)
def placement_violated(tables: Tables) -> DataFrame:
    """An ensemble breaks the placement policy.

    What it finds:
        Reports ledgers, including open ones, with a segment that the server's placement class rates as
        FAIL. The severity is `note` if the only cause is a bookie that is not writable. Causes:
        - Racks: a write quorum is in fewer racks than minNumRacksPerWriteQuorum.
        - Zones: a write quorum is in fewer zones than minNumZonesPerWriteQuorum, or a bookie has no
          zone.
        - Zones: a write quorum's bookies in one zone are all in one upgrade domain.
        - Zones: the write quorum does not divide the ensemble size, or is not above
          minNumZonesPerWriteQuorum. One finding covers all such ledgers.

    Why it matters:
        A failing rack or zone may take more copies than the policy allows. With
        repairedPlacementPolicyNotAdheringBookieEnable the Auditor moves the data.

    How sure:
        Confirmed: a server that starts now with this mapping and these settings gives the same rating.
        Suspect if the ledger changed between the two metadata scans.

    What to do:
        Check that your Auditor has the report's policy and mapping. If the write quorum or ensemble size
        breaks the policy, change this number or minNumZonesPerWriteQuorum. If the severity is `note`, make
        the named bookies writable. The ledgers of other findings stay where they are until the Auditor
        repairs them, or you replace their bookies.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell listbookies -ro -h`.

    Limits:
        The check ignores ack quorums, entries and isolation groups. If locations have different depths, it
        reports only ledgers that are FAIL for every depth. For regions see `placement-at-risk`.
    """
    settings = tables.cluster.placement
    if settings is None:
        return finding_rows(tables.bookies.limit(0), message="the policy is unknown", evidence="bookie_id")
    ensemble_shape_findings = _ensemble_shape_findings(tables, settings)
    if "placement" not in tables.frames:
        return ensemble_shape_findings
    placement_findings = _placement_findings(tables, policy_sentence(settings))
    return (
        placement_findings.unionByName(ensemble_shape_findings)
        if settings.policy is Policy.ZONE
        else placement_findings
    )


def _placement_findings(tables: Tables, policy_text: str) -> DataFrame:
    """Return one finding for each ledger with bookies whose locations break the policy."""
    exception_text = words(
        "; the locations of its bookies satisfy the policy, but these bookies are not writable: "
        "{unwritable:,}"
    )
    return finding_rows(
        group_by_ledger(tables.placement.where("violated")),
        ledger_id="ledger_id",
        severity=F.when(F.col("excused"), Severity.NOTE.value),
        message=words(
            "ledger {ledger} breaks the placement policy ({rule}) in {segments:segment|segments}, "
            "first at entry {first_entry_id}: {bookie_locations}{excuse}",
            rule=policy_text,
            bookie_locations=bookie_locations_text(),
            excuse=F.when(F.col("excused"), exception_text).otherwise(F.lit("")),
        ),
        evidence=f"{PLACEMENT_COLUMNS}, excused, unwritable, '{policy_text}' AS rule",
    )


def _ensemble_shape_findings(tables: Tables, settings: PlacementSettings) -> DataFrame:
    """Return at most one finding, for all ensemble sizes and quorums that the zone policy refuses.

    `auditor.model.adherence.refuses_shape` defines the rule.
    """
    policy_text = policy_sentence(settings)
    # Other policies refuse no shape.
    is_zone_policy_sql = "true" if settings.policy is Policy.ZONE else "false"
    refusal_sql = f"ensemble_size % write_quorum != 0 OR write_quorum <= {settings.min_zones}"
    ensemble_shape_counts = (
        tables.ledgers.where(is_zone_policy_sql)
        .where("ledger_id IS NOT NULL AND NOT undecidable AND write_quorum > 0")
        .where(refusal_sql)
        .groupBy("ensemble_size", "write_quorum")
        .agg(F.count("*").alias("ledgers"))
    )
    ensemble_shape_totals = ensemble_shape_counts.agg(
        F.expr("array_sort(collect_list(struct(ensemble_size, write_quorum, ledgers)))").alias("shapes"),
        F.sum("ledgers").alias("ledgers"),
    )
    ensemble_shape_texts = F.expr(
        "transform(shapes, each -> concat('E', each.ensemble_size, ' Qw', each.write_quorum, ' (', "
        "each.ledgers, ')'))"
    )
    return finding_rows(
        ensemble_shape_totals.where("ledgers > 0"),
        message=words(
            "the placement policy ({rule}) accepts no ensemble of {ledgers:ledger|ledgers} at any location: "
            "it requires a write quorum that is larger than {least} and divides the ensemble size; "
            "found instead: {named:,}",
            rule=policy_text,
            least=settings.min_zones,
            named=ensemble_shape_texts,
        ),
        evidence=f"ledgers, shapes, '{policy_text}' AS rule",
    )
