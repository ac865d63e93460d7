"""The stages of an audit as a person knows them, and the tables that are made in each."""

from __future__ import annotations

from auditor.checks import GROUPS

_TABLES: dict[str, tuple[str, ...]] = {
    "starting Spark": ("sample cluster", "spark"),
    "reading the metadata": ("cluster", "ledgers", "marks", "cookies", "registrations"),
    "reading the indexes": ("directories", "availability", "journal_tails", "tails", "entry_logs"),
    "asking bookies": ("answers",),
    "comparing": ("unequal", "judged_by_index", "judged", "testimony", "verdicts", "bookies"),
    "reading the metadata again": ("ledgers_again", "marks_again", "moved"),
    "checking": (
        "orphans",
        "contents",
        "identities",
        "holdings",
        "undrawn",
        "stale_marks",
        "gc_foresight",
        "checks",
        *GROUPS,
    ),
    "reporting": ("findings", "changes", "report"),
}

STAGES = tuple(_TABLES)
"""In the order in which an audit comes to them; a run that does less leaves some out."""

_STAGE = {table: number for number, tables in enumerate(_TABLES.values(), 1) for table in tables}


def stage_shown(table: str) -> int | None:
    """The number of the stage in which a table is made, from 1; None for one that may be made in several.

    >>> stage_shown("availability"), stage_shown("doubtful_ids")
    (3, None)
    """
    return _STAGE.get(table)
