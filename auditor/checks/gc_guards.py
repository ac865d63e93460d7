"""Guards before garbage collection: reasons to distrust metadata that lists too few ledgers.

A bookie deletes ledgers that its metadata store does not list. A wrong listing, or one of another cluster,
makes it delete everything. Many orphans at once, or a foreign instance id, are signs of such a listing.
"""

from collections.abc import Mapping

from auditor.checks.finding_rows import if_known, in_words, with_attribution, words
from auditor.model.check_settings import CheckSettings
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables, cached_query


@cached_query
def distrusted_bookies(tables: Tables) -> DataFrame:
    """Return the bookies for which the metadata looks wrong, with the rules that hold.

    Returns:
        One row per bookie. ``sure`` is true if a rule holds without the orphans that are ``in_doubt``: the
        scan of the store may have missed these. These columns count orphans or ranges:

        - ``recent``: orphans that were in the metadata within the collectors' last interval. They do not
          count for `orphan-share` and `vanished-ranges`.
        - ``lasting``: orphans that an earlier run had already. On a live store these two rules need enough.
        - ``unexplained``: the only orphans that count for `large-orphan-share` and `store-empty`. These two
          rules are never sure.
        - ``vanished``: ranges of ids that are gone as a whole, from ``low`` to ``high``, in the scope with
          most of them (``vanished_scope``).
        - ``undrawn``: orphans with ids from ``lowest`` to ``highest`` that the store's id generator has not
          given out.
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
    # On a busy cluster most of a bookie's ledgers may have been deleted since its last collection. If all
    # ledgers live equally long, whole ranges of the oldest ids vanish.
    share = "lasting" if live else "(orphans - in_doubt - recent)"
    ranges_gone = f"CASE WHEN lasting < {settings.least_orphans} THEN 0 ELSE seen END" if live else "seen"
    # A saved store that looks bare may be an incomplete copy.
    sure = _rules(settings, certain_orphans, share, ranges_gone, bare and live)
    # Orphans of an old source may be collected by now, so they say nothing about the metadata.
    rows = rows.where(~F.col("bookie_id").isin(list(tables.cluster.unproved_bookies)))
    return rows.selectExpr("*", f"{rules} AS rules", f"size({sure}) > 0 AS sure").where("size(rules) > 0")


def _rules(
    settings: CheckSettings, orphans: str, share: str, vanished: str, bare: bool, empty: bool | None = None
) -> str:
    """Return SQL for the names of the rules that hold.

    Args:
        settings: the constants of the checks.
        orphans: SQL for the number of orphans.
        share: SQL for the number of orphans that count for `orphan-share`.
        vanished: SQL for the number of vanished ranges.
        bare: whether the store looks bare.
        empty: whether the store lists no ledger; None leaves out the rules that are never sure.
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
    """Return SQL for whether a bookie has so many unexplained orphans that the metadata is in doubt."""
    return (
        f"unexplained >= {settings.least_unexplained} "
        f"AND unexplained * 100 > ledgers * {settings.large_orphan_share_percent}"
    )


def _names_of(rules: Mapping[str, str]) -> str:
    """Return SQL for the names of the rules that hold."""
    cases = ", ".join(f"CASE WHEN {rule} THEN '{name}' END" for name, rule in rules.items())
    return f"array_compact(array({cases}))"


@cached_query
def doubted_orphans(tables: Tables) -> DataFrame:
    """Return the rows of ``orphans`` with ``doubts``: reasons why a ledger may not be an orphan."""
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
    """Return the end of a sentence about a row of `doubted_orphans`: its doubts and the part of the store."""
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
"""Text for the reader, by the word for a doubt in a table."""
