"""Parts of large tables: the rows that one kind of check needs.

In a healthy cluster, most parts have no rows. A single query of a few columns finds out which parts have
rows. Without this query, each check that finds nothing would scan its table.
"""

from collections.abc import Mapping

from auditor.model.bookie_id import PORTABLE_PATTERN, RESERVED_PATTERN
from auditor.spark.types import DataFrame

BROKEN_RULE_LEDGERS = ("ledgers", "ledger_id is not null and size(rules) > 0")

TABLE_PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "entry_lost": (("verdicts", "class = 'entry-lost'"),),
    "below_ack_quorum": (("verdicts", "class = 'below-ack-quorum'"),),
    "below_write_quorum": (("verdicts", "class = 'below-write-quorum'"),),
    "undecided": (("verdicts", "class != potential_class"),),
    "unavailable": (("reachability", "reach != 'single-copy'"),),
    "lagging": (("judged", "size(lagging) > 0"),),
    "stale": (("judged", "size(stale) > 0"),),
    "surplus": (("judged", "size(surplus) > 0"),),
    "past_end": (("judged", "size(past_end) > 0"),),
    "over_replicated": (("judged", "size(foreign) > 0"),),
    "unindexed": (("judged", "size(unindexed) > 0 or size(listed) > 0"),),
    "unreadable_indexes": (("availability", "state in ('cut', 'unreadable', 'misplaced', 'damaged')"),),
    "in_limbo": (("availability", "state = 'limbo'"),),
    "in_wrong_directory": (("availability", "state = 'wrong-directory'"),),
    "not_indexed": (("availability", "state = 'not-indexed'"),),
    "stray_files": (("availability", "state = 'stray'"),),
    "unreadable_ledgers": (("ledgers", "status = 'unreadable'"),),
    "misplaced_ledgers": (("ledgers", "status = 'misplaced'"),),
    "broken_ledgers": (BROKEN_RULE_LEDGERS,),
    "recovering_ledgers": (("ledgers", "state = 'IN_RECOVERY'"),),
    "open_ledgers": (("ledgers", "state = 'OPEN'"),),
    "odd_ids": (
        BROKEN_RULE_LEDGERS,
        (
            "bookies",
            rf"not bookie_id rlike r'\A{PORTABLE_PATTERN}\z' or bookie_id rlike r'\A{RESERVED_PATTERN}\z'",
        ),
    ),
    "damaged_marks": (("marks", "damage is not null or misplaced"), ("locks", "damage is not null")),
    "id_generators_behind": (("id_generators", "listed > 0 or held > 0"),),
    "orphans_or_foreign": (("orphans", "true"), ("bookies", "foreign_instance")),
}
"""Tables of each part, each with an SQL condition. A part has the rows that meet the condition."""


def filter_table_part(part_name: str, table: DataFrame) -> DataFrame:
    """Return the rows of ``table`` that belong to a part.

    A part is a set of rows that one kind of check needs. This part must belong to exactly one table.
    """
    [(_, condition)] = TABLE_PARTS[part_name]
    return table.where(condition)


def build_part_queries(tables: Mapping[str, DataFrame]) -> dict[str, tuple[DataFrame, list[str]]]:
    """Return, for each table, the expressions that count the rows of the table's parts.

    A part is a set of rows that one kind of check needs. The result is the input of
    `table_queries.aggregate_tables`.
    """
    conditions: dict[str, list[str]] = {}
    for part_conditions in TABLE_PARTS.values():
        for table, condition in part_conditions:
            table_conditions = conditions.setdefault(table, [])
            if condition not in table_conditions:
                table_conditions.append(condition)
    return {
        table: (tables[table], [f"count_if({condition})" for condition in counted_conditions])
        for table, counted_conditions in conditions.items()
    }


def find_empty_parts(
    count_queries: Mapping[str, tuple[DataFrame, list[str]]], counts: Mapping[str, tuple[int, ...]]
) -> frozenset[str]:
    """Return the parts without rows, from the results of `build_part_queries`.

    A part is a set of rows that one kind of check needs.
    """
    nonempty_parts = {
        (table, count_expression)
        for table, (_, table_queries) in count_queries.items()
        for count_expression, count in zip(table_queries, counts[table], strict=True)
        if count
    }
    return frozenset(
        part_name
        for part_name, table_conditions in TABLE_PARTS.items()
        if not any(
            (table, f"count_if({condition})") in nonempty_parts for table, condition in table_conditions
        )
    )
