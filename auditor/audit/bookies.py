"""The bookies of a cluster, and the bookie that owns each directory.

The audit finds both before it reads bookie data. A directory is on disk or in a collection. A collection
consists of tables that ``bkaudit collect`` made from a bookie's directories.
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
from auditor.sources.bookies.journal.tails import JournalTailPart
from auditor.sources.bookies.owners import Attribution
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.spark.types import DataFrame
from auditor.tables.members import members
from auditor.tables.registry import find_registered_modes, registrations, store_cookies

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ClusterBookies:
    """The bookies of a cluster, and the directories and collections that contain their data.

    ``sources`` are the ``--bookies`` sources. ``has_rpc_source`` is True if one of them is ``rpc:``. The
    audit may then send requests to bookies. ``members`` are the bookies in ensembles: rows of the table
    ``members`` by bookie id. ``registered_modes`` maps each bookie to its mode at the first scan: writable,
    readonly or both.

    ``collection_places`` are the collections (tables that ``bkaudit collect`` made) among the sources.
    ``source_attribution`` names the bookie that owns each directory, on disk and in collections.
    ``directory_owners`` names the bookies that own index directories on disk and, separately, those that
    own the indexes in collections. ``journal_parts`` are the parts of journals to read. Each part starts at
    the last mark (lastMark) of its journal.
    """

    sources: tuple[str, ...]
    has_rpc_source: bool
    members: Mapping[str, Mapping[str, Any]]
    registered_modes: Mapping[str, str]
    collection_places: CollectedPlaces
    source_attribution: Attribution
    directory_owners: PieceOwnership
    journal_parts: Sequence[JournalTailPart]

    @property
    def replica_count(self) -> int:
        """Return the number of replicas, complete or partial, that the metadata assigns to bookies."""
        return sum(row["replicas"] for row in self.members.values())

    @property
    def attribution(self) -> Attribution:
        """Return which bookie owns each directory that the audit reads from disk."""
        return self.directory_owners.attribution

    @property
    def foreign_bookies(self) -> list[str]:
        """Return bookies whose directories all carry another cluster's instance id."""
        return [name for name, bookie in self.attribution.bookies.items() if bookie.foreign_instance]

    def has_no_index(self, bookie_id: str) -> bool:
        """Return whether a bookie's index is completely absent from the directories and collections."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is None or bookie.read == BookieRead.UNREAD

    def is_read_completely(self, bookie_id: str) -> bool:
        """Return whether the directories and collections together contain the whole index of a bookie."""
        bookie = self.attribution.bookies.get(bookie_id)
        return bookie is not None and bookie.read == BookieRead.READ

    def drop_damaged_collections(self, damage_by_path: Mapping[str, str]) -> ClusterBookies:
        """Return a copy without damaged collections (tables that ``bkaudit collect`` made from directories).

        ``damage_by_path`` maps the path of each damaged collection to a description of its damage.
        """
        usable_collections = without_collections(self.collection_places, damage_by_path)
        return replace(
            self,
            collection_places=usable_collections,
            directory_owners=find_piece_owners(self.source_attribution, usable_collections),
        )


def find_bookies(cache: TableCache, first_scan: FirstScan, sources: Sequence[str]) -> ClusterBookies:
    """Find the directories with the bookies' data, and the bookie that owns each of them.

    The directories are listed after M0, the first metadata scan. The last mark (lastMark) of each journal
    is read before the indexes.
    """
    cache.progress.table("directories")
    source_kinds = split_sources(sources)
    collected_sources = collected_places(source_kinds.collections)
    source_places = [*find_places(source_kinds.directories), *collected_sources.places]
    members = {row["bookie_id"]: row.asDict() for row in _write_members(cache).collect()}
    cookies = store_cookies(first_scan.nodes)
    modes_by_bookie = find_registered_modes(registrations(first_scan.nodes))
    attribution = bookie_owners.attribute_directories(
        source_places,
        {*members, *(cookie.bookie_id for cookie in cookies), *modes_by_bookie},
        {cookie.bookie_id: cookie.cookie for cookie in cookies if cookie.cookie is not None},
        first_scan.source.instance_id,
    )
    directory_owners = find_piece_owners(attribution, collected_sources)
    journal_parts = journal_scan.plan_tail_parts(
        cache.run_store, directory_owners.attribution.bookies, directory_owners
    )
    return ClusterBookies(
        tuple(sources),
        source_kinds.rpc,
        members,
        modes_by_bookie,
        collected_sources,
        attribution,
        directory_owners,
        journal_parts,
    )


def _write_members(cache: TableCache) -> DataFrame:
    """Write and return the table ``members``: bookies in ensembles, without ids that no server accepts."""
    return cache.write_table("members", lambda: members(cache.execution, cache.files("ledgers")))
