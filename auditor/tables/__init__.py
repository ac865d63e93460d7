"""The tables a check may read, and queries of them that several checks ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from threading import RLock

from auditor.model.collector_settings import CollectorSettings
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.roster import ClusterFacts, Roster

__all__ = ["ClusterFacts", "Roster", "Tables", "cached_query"]


@dataclass(frozen=True)
class Tables:
    """One cluster at one time, as DataFrames: those that `auditor.tables.run_tables` lists, by name.

    ``tables.orphans`` is the table of that name; one that this audit does not have is an AttributeError, and
    not in ``frames``. Three are made for the checks and lie in no run: ``over_replicated``, ``unindexed`` and
    ``empty_directories`` (`auditor.tables.orphans`, `auditor.tables.judged`, `auditor.tables.marks`); and
    ``marks`` is split into ``marks`` and ``locks``.
    """

    frames: Mapping[str, DataFrame]
    ledgers_of_marks: DataFrame
    """The rows of ``ledgers`` that marks are of, or more of them: what is asked of a mark's ledger."""
    roster: Roster
    """What is known of the bookies, as rows and not as tables."""
    cluster: ClusterFacts
    moved: DataFrame | None = None
    """What two scans of a live store differ in (`auditor.tables.scans`); None where one stands for both."""
    collector: CollectorSettings = field(default_factory=CollectorSettings)
    """How the bookies' garbage collectors are taken to be set."""
    known_empty: frozenset[str] = frozenset()
    """Tables, those of the properties and parts (`auditor.tables.parts`) too, of which the driver knows that
    they have no rows."""
    queries: dict[Callable[[Tables], DataFrame], DataFrame] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What `cached_query` keeps; nothing of it goes along when other tables are made of these."""

    def __getattr__(self, name: str) -> DataFrame:
        """A table by its name."""
        try:
            frames: Mapping[str, DataFrame] = self.__dict__["frames"]
            return frames[name]
        except KeyError:
            raise AttributeError(f"this audit has no table {name}") from None

    def add(self, empty: Collection[str] = (), /, **frames: DataFrame) -> Tables:
        """These tables and more, in place of any of the same name; those in ``empty`` have no rows."""
        known_empty = (self.known_empty - {*frames}) | ({*empty} & {*frames})
        return replace(self, frames={**self.frames, **frames}, known_empty=known_empty)

    @property
    def unregistered(self) -> DataFrame:
        """The rows of ``bookies`` that are `Roster.unregistered`."""
        return self.bookies.where(
            F.col("bookie_id").isin([row["bookie_id"] for row in self.roster.unregistered])
        )


Query = Callable[[Tables], DataFrame]

_CACHING = RLock()
"""Two threads put questions together side by side; what both ask for is made by the first of them."""


def cached_query(make: Query) -> Query:
    """What ``make`` makes of an audit's tables: whoever asks for it again gets what was made at first.

    A query is put together step by step, and of a small audit each step costs more than the rows do. Nothing
    is worked out or kept but the question. It is let go with the tables.

        @cached_query
        def distrusted_bookies(tables: Tables) -> DataFrame: ...
    """

    @wraps(make)
    def cached(tables: Tables) -> DataFrame:
        with _CACHING:
            if make not in tables.queries:
                tables.queries[make] = make(tables)
            return tables.queries[make]

    return cached
