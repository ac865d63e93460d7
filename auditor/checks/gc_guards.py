"""When a missing ledger should not be believed gone: the guards before garbage collection.

A bookie deletes what its metadata store does not list. A listing that is wrong, or of another cluster, makes
it delete everything. So many orphans at once, or a foreign instance id, say that the listing may be wrong.
"""

from collections.abc import Mapping

from auditor.checks.finding_rows import if_known, in_words, with_attribution, words
from auditor.model.check_settings import CheckSettings
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables, cached_query


@cached_query
def distrusted_bookies(tables: Tables) -> DataFrame:
    """Bookies for which the metadata looks wrong: bookie_id, rules (that hold), and their figures.

    ``ledgers``, ``orphans`` and ``in_doubt`` are counts, the last of orphans that the store may have unseen;
    ``sure`` says that a rule holds without these. On a live store `orphan-share` and `vanished-ranges` need
    so many that an earlier run had already (``lasting``). Of the orphans ``recent`` were in the metadata
    within the collectors' last interval, and count for neither. `large-orphan-share` and `store-empty` count
    only ``unexplained`` orphans, and are never sure. ``vanished`` counts whole ranges of ids, from
    ``low`` to ``high``, in the scope ``vanished_scope``, the one that has most of them. ``undrawn`` counts
    orphans whose ids, from ``lowest`` to ``highest``, the store's id generator has not given out.
    """
    of_scope = tables.vanished_ranges.groupBy("bookie_id", F.col("scope_id").alias("vanished_scope")).agg(
        F.expr("count(*) AS count"),
        F.expr("count_if(in_doubt = 0) AS seen"),
        F.expr("min(low) AS low"),
        F.expr("max(high) AS high"),
    )
    most = "max_by(struct(vanished_scope, low, high), struct(count, vanished_scope)) AS most"
    ranges = (
        of_scope.groupBy("bookie_id")
        .agg(F.expr("sum(count) AS vanished"), F.expr("sum(seen) AS seen"), F.expr(most))
        .selectExpr("bookie_id", "vanished", "seen", "most.*")
    )
    numbers = ("ledgers", "orphans", "in_doubt", "lasting", "recent", "unexplained")
    holdings = tables.holdings.select("bookie_id", *numbers)
    rows = (
        tables.bookies.selectExpr("bookie_id", "foreign_instance")
        .join(holdings, "bookie_id", "left")
        .join(ranges, "bookie_id", "left")
        .join(F.broadcast(tables.undrawn), "bookie_id", "left")
        .fillna(0, [*numbers, "vanished", "seen", "undrawn"])
    )
    bare, live, settings = tables.cluster.bare, tables.cluster.live, tables.cluster.settings
    rules = _rules(
        settings, "orphans", "(orphans - recent)", "vanished", bare, tables.cluster.lists_no_ledger
    )
    certain_orphans = "(orphans - in_doubt)"
    # Ledgers that were deleted since the last collection can be most of what a busy cluster's bookie has, and
    # with one age for all of them the oldest ids go range by range.
    share = "lasting" if live else "(orphans - in_doubt - recent)"
    ranges_gone = f"CASE WHEN lasting < {settings.least_orphans} THEN 0 ELSE seen END" if live else "seen"
    # A saved store that looks bare may be a copy that was cut short.
    sure = _rules(settings, certain_orphans, share, ranges_gone, bare and live)
    # What an old source holds and the metadata lacks may be collected by now: the source is in doubt.
    rows = rows.where(~F.col("bookie_id").isin(list(tables.cluster.unproved_bookies)))
    return rows.selectExpr("*", f"{rules} AS rules", f"size({sure}) > 0 AS sure").where("size(rules) > 0")


def _rules(
    settings: CheckSettings, orphans: str, share: str, vanished: str, bare: bool, empty: bool | None = None
) -> str:
    """SQL for the rules that hold with so many orphans and vanished ranges, in a store that is bare or not.

    ``share`` is how many of the orphans count for `orphan-share`. ``empty`` is whether the store lists no
    ledger; None leaves out the rules that are never sure.
    """
    least = settings.least_orphans
    rules = {
        "orphan-share": f"{share} >= {least} AND {share} * 100 > ledgers * {settings.orphan_share_percent}",
        "every-ledger": f"{orphans} >= {least} AND {orphans} >= ledgers",
        "vanished-ranges": f"{vanished} > 0",
        "foreign-instance": "foreign_instance",
        "store-older": "undrawn > 0",
        "store-bare": f"{bare} AND {orphans} > 0",
    }
    if empty is not None:
        rules |= {
            "large-orphan-share": large_orphan_share(settings),
            "store-empty": f"{empty} AND unexplained > 0",
        }
    return _names_of(rules)


def large_orphan_share(settings: CheckSettings) -> str:
    """SQL for whether so many orphans of a bookie are unexplained that the metadata is in doubt."""
    return (
        f"unexplained >= {settings.least_unexplained} "
        f"AND unexplained * 100 > ledgers * {settings.large_orphan_share_percent}"
    )


def _names_of(rules: Mapping[str, str]) -> str:
    """SQL for the names of those that hold."""
    cases = ", ".join(f"CASE WHEN {rule} THEN '{name}' END" for name, rule in rules.items())
    return f"array_compact(array({cases}))"


@cached_query
def doubted_orphans(tables: Tables) -> DataFrame:
    """The rows of ``orphans`` with ``doubts``: why each may not be one."""
    distrusted = distrusted_bookies(tables).selectExpr("bookie_id", "true AS distrusted")
    rows = with_attribution(tables.orphans, tables).join(F.broadcast(distrusted), "bookie_id", "left")
    doubts = {
        "newer-than-scan": "newer_than_scan",
        "metadata-suspect": "distrusted",
        "attribution-suspect": "attribution_suspect",
        "id-in-doubt": "doubt IS NOT NULL",
    }
    return rows.selectExpr("*", f"{_names_of(doubts)} AS doubts")


def doubt_clause() -> Column:
    """The end of a sentence about a row of `doubted_orphans`: its doubts, and which part of the store."""
    which = if_known(words(" ({doubt})"))
    doubt_words = words(
        "; not sure: {doubts}{which}", doubts=F.array_join(in_words("doubts", DOUBT_WORDS), "; "), which=which
    )
    return F.when(F.size("doubts") > 0, doubt_words).otherwise("")


DOUBT_WORDS = {
    "newer-than-scan": "the index may be newer than the metadata",
    "metadata-suspect": "the metadata of this bookie may be wrong (metadata-suspect)",
    "id-in-doubt": "the store may have it where it could not be read, or in the wrong place",
}
"""What a doubt that a table keeps as a word says to a person."""
