"""What a collection is made of: values that reading without Spark and reading in Spark share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.sources.bookies.collections.tables import Piece
from auditor.sources.bookies.parts import IndexDirectory, IndexPart
from auditor.sources.bookies.places import PlaceFound


@dataclass(frozen=True)
class CollectionInput:
    """Pieces of indexes, cut into ``parts``, and the directories that may have entry logs, with their
    VERSION's digest.

    ``whole_logs``: the ledgers in each log are wanted too, where the indexes point, and what lies beside.
    """

    collection_id: str
    pieces: Sequence[Piece]
    parts: Sequence[IndexPart]
    directories: Sequence[tuple[str, str | None]]
    whole_logs: bool

    @property
    def by_id(self) -> Mapping[str, Piece]:
        """The pieces by their ids, which parts have as their bookie's."""
        return {piece.id: piece for piece in self.pieces}

    @property
    def paths(self) -> list[str]:
        """The directories alone."""
        return [path for path, _ in self.directories]


def directories_of(places: Sequence[PlaceFound]) -> list[tuple[str, str | None]]:
    """Every directory with ``current``, by path, and the digest of its VERSION."""
    found = {each.path: each.version for place in places for each in place.directories if each.has_current}
    return [(path, IndexDirectory.seen(path, found[path]).version_sha256) for path in sorted(found)]
