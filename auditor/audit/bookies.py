"""Who the bookies are, before anything of them is read: whom ensembles name, and whose each directory is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auditor.audit import journal_scan
from auditor.audit.landing import Landing
from auditor.audit.metadata_scan import FirstScan
from auditor.model.states import BookieRead
from auditor.sources.bookies import owners as bookie_owners
from auditor.sources.bookies.collections.places import (
    CollectedPlaces,
    SettledPlaces,
    collected_places,
    settle_places,
)
from auditor.sources.bookies.collections.places import without_collections as without_collections
from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.owners import Attribution
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.spark.types import DataFrame
from auditor.tables.members import members
from auditor.tables.registry import registered_modes, registrations, store_cookies


@dataclass(frozen=True)
class ClusterBookies:
    """The bookies of a cluster, and where their data is.

    ``sources`` are the ``--bookies`` sources, ``rpc`` whether bookies may be asked themselves. ``members``
    are the rows of the table members by id: who is in ensembles. ``registered`` are modes at the first scan.
    ``attributed`` says whose each directory is, ``settled`` the same with collected ones taken out.
    ``tail_parts`` is what of the journals is to be read, from the marks as they were now.
    """

    sources: tuple[str, ...]
    rpc: bool
    members: Mapping[str, Mapping[str, Any]]
    registered: Mapping[str, str]
    collected: CollectedPlaces
    attributed: Attribution
    settled: SettledPlaces
    tail_parts: Sequence[TailPart]

    @property
    def replicas(self) -> int:
        """How many copies of ledgers, whole or in part, the metadata puts on bookies."""
        return sum(row["replicas"] for row in self.members.values())

    @property
    def attribution(self) -> Attribution:
        """Whose the directories on disk are."""
        return self.settled.attribution

    @property
    def foreign(self) -> list[str]:
        """Bookies whose directories all carry another cluster's instance id."""
        return [name for name, bookie in self.attribution.bookies.items() if bookie.foreign_instance]

    def unseen(self, bookie_id: str) -> bool:
        """Whether no directory and no collection shows anything of a bookie's index."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is None or bookie.read == BookieRead.UNREAD

    def read_whole(self, bookie_id: str) -> bool:
        """Whether a bookie's directories and collections show all of its index."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is not None and bookie.read == BookieRead.READ

    def without(self, damaged: Mapping[str, str]) -> ClusterBookies:
        """The same without collections, by path, that turned out to be damaged, and why."""
        collected = without_collections(self.collected, damaged)
        return replace(self, collected=collected, settled=settle_places(self.attributed, collected))


def find_bookies(landing: Landing, first: FirstScan, sources: Sequence[str]) -> ClusterBookies:
    """Look where bookies' data is, and whose it is.

    Directories are listed now, after M0, and the marks of journals are those of now: before the indexes.
    """
    landing.progress.stage("directories")
    kinds = split_sources(sources)
    collected = collected_places(kinds.collections)
    places = [*find_places(kinds.directories), *collected.places]
    members = {row["bookie_id"]: row.asDict() for row in _members(landing).collect()}
    cookies = store_cookies(first.nodes)
    registered = registered_modes(registrations(first.nodes))
    attributed = bookie_owners.attribute(
        places,
        {*members, *(cookie.bookie_id for cookie in cookies), *registered},
        {cookie.bookie_id: cookie.cookie for cookie in cookies if cookie.cookie is not None},
        first.source.instance_id,
    )
    whose = settle_places(attributed, collected)
    tail_parts = journal_scan.plan_tails(landing, whose.attribution.bookies, whose)
    return ClusterBookies(
        tuple(sources), kinds.rpc, members, registered, collected, attributed, whose, tail_parts
    )


def _members(landing: Landing) -> DataFrame:
    """Who is in ensembles: one row per bookie. What the server would refuse as an id is not a bookie."""
    # The indexes, which are still to come, are as large at least.
    tasks = landing.tasks_of(2 * landing.size("tables/ledgers"))
    return landing.land("members", lambda: members(tasks, landing.files("ledgers")))
