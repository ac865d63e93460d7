"""The tables that checks read, and a cache of queries that several checks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps

from auditor.model.collector_settings import CollectorSettings
from auditor.spark import functions as F
from auditor.spark.table_queries import names_without_rows
from auditor.spark.types import DataFrame
from auditor.tables.roster import ClusterFacts, Roster

__all__ = ["ClusterFacts", "Roster", "Tables", "cached_query"]


@dataclass(frozen=True)
class Tables:
    """The tables of a cluster at one time, as DataFrames by name (`auditor.tables.run_tables`).

    A table is also an attribute: ``tables.orphans`` is the table ``orphans``. If this audit does not have a
    table, the table is not in ``frames``, and its attribute raises AttributeError. Three tables exist only
    for the checks and are not saved in a run: ``over_replicated`` (`auditor.tables.orphans`), ``unindexed``
    (`auditor.tables.judged`) and ``empty_directories`` (`auditor.tables.marks`). The run's table ``marks``
    is split into ``marks`` (under-replication marks) and ``locks`` (the locks of replication workers).
    """

    frames: Mapping[str, DataFrame]
    ledgers_of_marks: DataFrame
    """Rows of ``ledgers`` that include every ledger with an under-replication mark."""
    roster: Roster
    """Facts about the bookies, as rows in the driver."""
    cluster: ClusterFacts
    moved_ledgers: DataFrame | None = None
    """Differences between the two scans of a live store (`auditor.tables.scans`); None if there was one scan.
    """
    collector_settings: CollectorSettings = field(default_factory=CollectorSettings)
    """Assumed settings of the bookies' garbage collectors."""
    empty_table_names: frozenset[str] = frozenset()
    """Names of tables and of parts of tables (`auditor.tables.parts`) that are known to have no rows.

    Names of properties such as ``unregistered`` are included. Only `auditor.spark.table_queries` uses them,
    to leave out queries.
    """
    cached_queries: dict[Callable[[Tables], DataFrame], DataFrame] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Queries that `cached_query` keeps. A copy of this object with different tables has none at first."""

    def __getattr__(self, name: str) -> DataFrame:
        """Return the table with this name."""
        try:
            frames: Mapping[str, DataFrame] = self.__dict__["frames"]
            return frames[name]
        except KeyError:
            raise AttributeError(f"this audit has no table {name}") from None

    def add(self, **frames: DataFrame) -> Tables:
        """Return a copy with more tables. A new table replaces the table with the same name."""
        empty_table_names = (self.empty_table_names - {*frames}) | names_without_rows(frames)
        return replace(self, frames={**self.frames, **frames}, empty_table_names=empty_table_names)

    @property
    def unregistered(self) -> DataFrame:
        """Return the rows of ``bookies`` that are in `Roster.unregistered`.

        An ensemble names these bookies, but they are certainly not registered.
        """
        return self.bookies.where(
            F.col("bookie_id").isin([row["bookie_id"] for row in self.roster.unregistered])
        )


Query = Callable[[Tables], DataFrame]


def cached_query(build_query: Query) -> Query:
    """Return ``build_query`` with a cache, so that it builds its query only once for the same tables.

    Spark builds a query step by step. In a small audit, each step takes longer than reading the rows. The
    cache keeps the query, not its rows. It is freed together with the tables.

        @cached_query
        def distrusted_bookies(tables: Tables) -> DataFrame: ...
    """

    @wraps(build_query)
    def build_once(tables: Tables) -> DataFrame:
        if build_query not in tables.cached_queries:
            tables.cached_queries[build_query] = build_query(tables)
        return tables.cached_queries[build_query]

    return build_once
