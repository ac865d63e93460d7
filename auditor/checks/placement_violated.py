"""Ledgers with an ensemble that breaks the placement policy, by the server's own class."""

from auditor.checks.check import Basis, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.checks.ledger_queries import PLACES, by_ledger, rule_of, window_words
from auditor.model.placement import PlacementSettings, Policy


@check(
    Severity.WARNING,
    rests_on=Basis.PLACEMENT,
    needs={Need.LOCATIONS, Need.ALL_BOOKIES},
    do_now="see whether policy and mapping are right for {ledgers}",
)
def placement_violated(tables: Tables) -> DataFrame:
    """An ensemble does not keep to the placement policy.

    What it finds:
        Ledgers with a segment whose ensemble the server's placement class calls FAIL with this run's
        settings. Racks: a write quorum with fewer racks than minNumRacksPerWriteQuorum. Zones: fewer zones
        than minNumZonesPerWriteQuorum, two bookies of a zone in one upgrade domain, or a bookie without a
        zone. Open ledgers count too, which the Auditor's own task leaves out. With mixed depths only a FAIL
        for every depth counts. One finding per ledger, with the first segment and the places of its bookies;
        a note where only an unwritable bookie is at fault. One finding for the cluster for what a zone policy
        always refuses: a write quorum that does not divide the ensemble size, or is not above
        minNumZonesPerWriteQuorum.

    Why it matters:
        A failing rack or zone may take more copies of an entry than the policy allows. The Auditor counts
        such ledgers, and with repairedPlacementPolicyNotAdheringBookieEnable it moves their data.

    How sure:
        Confirmed, as a server would answer that starts now with this mapping and these settings. Suspect
        where the ledger changed between the two scans. A running server may remember bookies that are gone.

    What to do:
        First make sure that policy and mapping are those of your Auditor: the report says which were used.
        Where it refuses the ensemble size or the write quorum, change these or the minimum. A note only needs
        its bookies writable again. Other ledgers stay until the Auditor repairs them or their bookies are
        replaced.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          Look at its ensembles.
        - `bookkeeper shell listbookies -ro -h`
          Look which bookies are read-only.

    Limits:
        Like the server, it ignores the ack quorum, entries and isolation groups. For regions see
        placement-at-risk.
    """
    settings = tables.cluster.placement
    if settings is None:
        return finding_rows(tables.bookies.limit(0), message="no policy is known", evidence="bookie_id")
    refused = _refused_shapes(tables, settings)
    if "placement" in tables.known_empty:
        return refused
    by_places = _by_places(tables, rule_of(settings))
    return by_places.unionByName(refused) if settings.policy is Policy.ZONE else by_places


def _by_places(tables: Tables, rule: str) -> DataFrame:
    """One finding for each ledger whose bookies stand where the policy does not want them."""
    excuse = words("; by the locations of its bookies it keeps to it, but not writable are {unwritable:,}")
    return finding_rows(
        by_ledger(tables.placement.where("violated")),
        ledger_id="ledger_id",
        severity=F.when(F.col("excused"), Severity.NOTE.value),
        message=words(
            "ledger {ledger} breaks the placement policy ({rule}) in {segments:segment|segments}, "
            "first at entry {first_entry_id}: {window_words}{excuse}",
            rule=rule,
            window_words=window_words(),
            excuse=F.when(F.col("excused"), excuse).otherwise(F.lit("")),
        ),
        evidence=f"{PLACES}, excused, unwritable, '{rule}' AS rule",
    )


def _refused_shapes(tables: Tables, settings: PlacementSettings) -> DataFrame:
    """The finding of what `auditor.model.adherence.refuses_shape` says, or none."""
    rule = rule_of(settings)
    # Other policies refuse no shape.
    is_zone = "true" if settings.policy is Policy.ZONE else "false"
    refused = f"ensemble_size % write_quorum != 0 OR write_quorum <= {settings.min_zones}"
    shapes = (
        tables.ledgers.where(is_zone)
        .where("ledger_id IS NOT NULL AND NOT undecidable AND write_quorum > 0")
        .where(refused)
        .groupBy("ensemble_size", "write_quorum")
        .agg(F.count("*").alias("ledgers"))
    )
    whole = shapes.agg(
        F.expr("array_sort(collect_list(struct(ensemble_size, write_quorum, ledgers)))").alias("shapes"),
        F.sum("ledgers").alias("ledgers"),
    )
    shape_words = F.expr(
        "transform(shapes, each -> concat('E', each.ensemble_size, ' Qw', each.write_quorum, ' (', "
        "each.ledgers, ')'))"
    )
    return finding_rows(
        whole.where("ledgers > 0"),
        message=words(
            "the placement policy ({rule}) takes no ensemble of {ledgers:ledger|ledgers}, wherever bookies "
            "are: it wants a write quorum larger than {least} that divides the ensemble size; these have "
            "{named:,}",
            rule=rule,
            least=settings.min_zones,
            named=shape_words,
        ),
        evidence=f"ledgers, shapes, '{rule}' AS rule",
    )
