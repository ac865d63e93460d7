"""The bookies of a cluster and the owner of each directory, as found before bookie data is read.

A directory is on disk, or in a collection: tables that ``bkaudit collect`` made of a bookie's directories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from auditor.audit import journal_scan
from auditor.audit.metadata_scan import FirstScan
from auditor.audit.table_cache import TableCache
from auditor.model.states import BookieRead
from auditor.sources.bookies import owners as bookie_owners
from auditor.sources.bookies.collections.places import (
    CollectedPlaces,
    PieceOwnership,
    collected_places,
    find_piece_owners,
)
from auditor.sources.bookies.collections.places import without_collections as without_collections
from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.owners import Attribution
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.spark.types import DataFrame
from auditor.tables.members import members
from auditor.tables.registry import registered_modes, registrations, store_cookies

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ClusterBookies:
    """The bookies of a cluster, and the places of their data.

    ``sources`` are the ``--bookies`` sources. ``rpc`` is whether the audit may send requests to bookies.
    ``members`` are the bookies in ensembles: rows of the table ``members`` by bookie id. ``registered`` has
    the mode (writable, readonly or both) of each bookie at the first scan. ``attributed`` has the owner of
    each directory. ``settled`` has the owners of directories on disk and of collected pieces of indexes.
    ``tail_parts`` are the parts of journals to read, each from the journal's last mark (lastMark) on.
    """

    sources: tuple[str, ...]
    rpc: bool
    members: Mapping[str, Mapping[str, Any]]
    registered: Mapping[str, str]
    collected: CollectedPlaces
    attributed: Attribution
    settled: PieceOwnership
    tail_parts: Sequence[TailPart]

    @property
    def replicas(self) -> int:
        """Return the number of replicas, complete or partial, that the metadata puts on bookies."""
        return sum(row["replicas"] for row in self.members.values())

    @property
    def attribution(self) -> Attribution:
        """Return the owners of the directories on disk."""
        return self.settled.attribution

    @property
    def foreign(self) -> list[str]:
        """Return bookies whose directories all carry another cluster's instance id."""
        return [name for name, bookie in self.attribution.bookies.items() if bookie.foreign_instance]

    def unseen(self, bookie_id: str) -> bool:
        """Return whether no directory and no collection has any part of a bookie's index."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is None or bookie.read == BookieRead.UNREAD

    def read_whole(self, bookie_id: str) -> bool:
        """Return whether directories and collections contain all of a bookie's index."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is not None and bookie.read == BookieRead.READ

    def without(self, damaged: Mapping[str, str]) -> ClusterBookies:
        """Return a copy without the collections at the paths that are keys of ``damaged``."""
        collected = without_collections(self.collected, damaged)
        return replace(self, collected=collected, settled=find_piece_owners(self.attributed, collected))


def find_bookies(cache: TableCache, first: FirstScan, sources: Sequence[str]) -> ClusterBookies:
    """Find the places of the bookies' data, and the owner of each place.

    Directories are listed after M0, the first scan of the metadata. The last mark (lastMark) of each journal
    is read before the indexes.
    """
    cache.progress.table("directories")
    kinds = split_sources(sources)
    collected = collected_places(kinds.collections)
    places = [*find_places(kinds.directories), *collected.places]
    members = {row["bookie_id"]: row.asDict() for row in _members(cache).collect()}
    cookies = store_cookies(first.nodes)
    registered = registered_modes(registrations(first.nodes))
    attributed = bookie_owners.attribute(
        places,
        {*members, *(cookie.bookie_id for cookie in cookies), *registered},
        {cookie.bookie_id: cookie.cookie for cookie in cookies if cookie.cookie is not None},
        first.source.instance_id,
    )
    settled = find_piece_owners(attributed, collected)
    tail_parts = journal_scan.plan_tails(cache.run_store, settled.attribution.bookies, settled)
    return ClusterBookies(
        tuple(sources), kinds.rpc, members, registered, collected, attributed, settled, tail_parts
    )


def _members(cache: TableCache) -> DataFrame:
    """Return the bookies in ensembles, one row each, without ids that a server would refuse as its own."""
    return cache.write_table("members", lambda: members(cache.execution, cache.files("ledgers")))
