"""Guards before garbage collection: reasons to distrust metadata that lists too few ledgers.

A bookie deletes ledgers that its metadata store does not list. If that list is wrong or belongs to another
cluster, the bookie may delete everything. One sign of a wrong list is a large number of orphans: ledgers on a
bookie that the list lacks. Another sign is the instance id of another cluster.
"""

from collections.abc import Mapping

from auditor.checks.finding_rows import empty_if_null, meanings_of_codes, with_attribution, words
from auditor.model.check_settings import CheckSettings
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables, cached_query


@cached_query
def distrusted_bookies(tables: Tables) -> DataFrame:
    """Return the bookies whose data suggests that the metadata is wrong, with the rules that apply.

    Returns:
        One row per bookie. ``rules`` has the names of the rules of `metadata-suspect` that apply to the
        bookie. ``in_doubt`` counts orphans whose metadata the scan of the store may have missed. ``sure``
        is true if a rule applies even without these orphans. Other columns count orphans or ranges of ids:

        - ``recent``: orphans that were in the metadata within the last interval of garbage collection. They
          do not count for the rules `orphan-share` and `vanished-ranges`.
        - ``lasting``: orphans that an earlier run also had. On a live store, `orphan-share` and
          `vanished-ranges` are sure only if there are enough lasting orphans.
        - ``unexplained``: orphans that are neither recent, nor newer than the scan, nor dropped by their
          owner. Only they count for `large-orphan-share` and `store-empty`, two rules that are never sure.
        - ``vanished``: ranges of ids in which all ledgers of the bookie are orphans. ``vanished_scope`` is
          the scope (the upper half of the 128-bit ledger id) with most of these ranges. ``low`` and ``high``
          are the lowest and the highest id in the ranges of that scope.
        - ``undrawn``: orphans with ids that the store's id generator has not given out. ``lowest`` and
          ``highest`` are the limits of these ids.
    """
    ranges_by_scope = tables.vanished_ranges.groupBy(
        "bookie_id", F.col("scope_id").alias("vanished_scope")
    ).agg(
        F.expr("count(*) AS count"),
        F.expr("count_if(in_doubt = 0) AS seen"),
        F.expr("min(low) AS low"),
        F.expr("max(high) AS high"),
    )
    largest_scope_sql = "max_by(struct(vanished_scope, low, high), struct(count, vanished_scope)) AS most"
    vanished_range_counts = (
        ranges_by_scope.groupBy("bookie_id")
        .agg(F.expr("sum(count) AS vanished"), F.expr("sum(seen) AS seen"), F.expr(largest_scope_sql))
        .selectExpr("bookie_id", "vanished", "seen", "most.*")
    )
    count_columns = ("ledgers", "orphans", "in_doubt", "lasting", "recent", "unexplained")
    orphan_counts = tables.holdings.select("bookie_id", *count_columns)
    rows = (
        tables.bookies.selectExpr("bookie_id", "foreign_instance")
        .join(orphan_counts, "bookie_id", "left")
        .join(vanished_range_counts, "bookie_id", "left")
        .join(F.broadcast(tables.undrawn), "bookie_id", "left")
        .fillna(0, [*count_columns, "vanished", "seen", "undrawn"])
    )
    lacks_layout_and_generator, is_store_live, settings = (
        tables.cluster.looks_unused,
        tables.cluster.live,
        tables.cluster.settings,
    )
    possible_rules_sql = _rule_names_sql(
        settings,
        "orphans",
        "(orphans - recent)",
        "vanished",
        lacks_layout_and_generator,
        tables.cluster.lists_no_ledger,
    )
    certain_orphans_sql = "(orphans - in_doubt)"
    # On a busy cluster most of a bookie's ledgers may have been deleted since its last collection. If all
    # ledgers live equally long, whole ranges of the oldest ids vanish.
    orphan_share_sql = "lasting" if is_store_live else "(orphans - in_doubt - recent)"
    certain_vanished_ranges_sql = (
        f"CASE WHEN lasting < {settings.least_orphans} THEN 0 ELSE seen END" if is_store_live else "seen"
    )
    # A saved store that looks bare may be an incomplete copy.
    certain_rules_sql = _rule_names_sql(
        settings,
        certain_orphans_sql,
        orphan_share_sql,
        certain_vanished_ranges_sql,
        lacks_layout_and_generator and is_store_live,
    )
    # Orphans of an old source may be deleted by now, so they say nothing about the metadata.
    rows = rows.where(~F.col("bookie_id").isin(list(tables.cluster.unproved_bookies)))
    return rows.selectExpr(
        "*", f"{possible_rules_sql} AS rules", f"size({certain_rules_sql}) > 0 AS sure"
    ).where("size(rules) > 0")


def _rule_names_sql(
    settings: CheckSettings,
    orphans: str,
    orphan_share_sql: str,
    vanished_ranges: str,
    lacks_layout_and_generator: bool,
    has_no_ledger: bool | None = None,
) -> str:
    """Return SQL for the names of the rules that apply to a bookie.

    Args:
        settings: the constants of the checks.
        orphans: SQL for the number of orphans (ledgers that the metadata store does not list).
        orphan_share_sql: SQL for the number of orphans that count for `orphan-share`.
        vanished_ranges: SQL for the number of id ranges in which all ledgers of the bookie are orphans.
        lacks_layout_and_generator: whether the store has neither a LAYOUT nor an id generator.
        has_no_ledger: whether the store lists no ledger. None: leave out the rules that are never sure.
    """
    min_orphans, share_percent = settings.least_orphans, settings.orphan_share_percent
    condition_by_rule = {
        "orphan-share": f"{orphan_share_sql} >= {min_orphans} "
        f"AND {orphan_share_sql} * 100 > ledgers * {share_percent}",
        "every-ledger": f"{orphans} >= {min_orphans} AND {orphans} >= ledgers",
        "vanished-ranges": f"{vanished_ranges} > 0",
        "foreign-instance": "foreign_instance",
        "store-older": "undrawn > 0",
        "store-bare": f"{lacks_layout_and_generator} AND {orphans} > 0",
    }
    if has_no_ledger is not None:
        condition_by_rule |= {
            "large-orphan-share": large_orphan_share(settings),
            "store-empty": f"{has_no_ledger} AND unexplained > 0",
        }
    return _names_of_true_conditions(condition_by_rule)


def large_orphan_share(settings: CheckSettings) -> str:
    """Return SQL: a bookie has too many unexplained ledgers without metadata to trust the metadata."""
    return (
        f"unexplained >= {settings.least_unexplained} "
        f"AND unexplained * 100 > ledgers * {settings.large_orphan_share_percent}"
    )


def _names_of_true_conditions(condition_by_name: Mapping[str, str]) -> str:
    """Return SQL for the array of the names whose condition is true."""
    name_cases = ", ".join(
        f"CASE WHEN {condition} THEN '{name}' END" for name, condition in condition_by_name.items()
    )
    return f"array_compact(array({name_cases}))"


@cached_query
def orphan_doubts(tables: Tables) -> DataFrame:
    """Return the table orphans (ledgers without metadata), with ``doubts``: why a row may be no orphan."""
    distrusted_rows = distrusted_bookies(tables).selectExpr("bookie_id", "true AS distrusted")
    rows = with_attribution(tables.orphans, tables).join(F.broadcast(distrusted_rows), "bookie_id", "left")
    condition_by_doubt = {
        "newer-than-scan": "newer_than_scan",
        "metadata-suspect": "distrusted",
        "attribution-suspect": "attribution_suspect",
        "id-in-doubt": "doubt IS NOT NULL",
    }
    return rows.selectExpr("*", f"{_names_of_true_conditions(condition_by_doubt)} AS doubts")


def orphan_doubt_clause() -> Column:
    """Return the end of a message: why the row of `orphan_doubts` may be no orphan, if there are doubts."""
    store_doubt_clause = empty_if_null(words(" ({doubt})"))
    doubt_sentence = words(
        "; unconfirmed: {doubts}{which}",
        doubts=F.array_join(meanings_of_codes("doubts", TEXT_BY_DOUBT), "; "),
        which=store_doubt_clause,
    )
    return F.when(F.size("doubts") > 0, doubt_sentence).otherwise("")


TEXT_BY_DOUBT = {
    "newer-than-scan": "the index may be newer than the metadata",
    "metadata-suspect": "the metadata of this bookie may be wrong (metadata-suspect)",
    "id-in-doubt": "the store may have the ledger at a path that could not be read, or at a wrong path",
}
"""Text of each doubt in messages, by the code of the doubt in tables."""
