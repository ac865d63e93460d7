"""The places and directories in collections, in the same form as those on this machine's disks.

A place holds the directories of one bookie. `auditor.sources.bookies.owners` can then attribute the
directories to bookies. A directory of a collection gets the path ``<collection>#<path>``, because different
hosts may use the same path.

A bookie may be in several collections. In that case, only its directories in the newest collection count.
The program ignores its directories in older collections, even those that the newest collection lacks.
Otherwise a disk that was lost in the meantime would count as read. A complete collection counts as newer
than an incomplete one.

A newer collection replaces an older one for a bookie if both contain the same directory of the bookie. Two
directories are the same if their VERSION files have the same id, instance and path. If the disks of a bookie
were collected one by one, no path is in two collections. All these collections count. If the VERSION file of
a directory cannot be read, a newer collection replaces the directory if it contains the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.errors import UnreadError
from auditor.model.states import BookieRead
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest, parse_places
from auditor.sources.bookies.owners import Attribution
from auditor.sources.bookies.paths import OwnedDirectory, paths_of
from auditor.sources.bookies.places import FoundPlace


class NewestCollections:
    """The newest collection that contains each directory, and each place (one bookie's directories).

    The caller adds the collections in order, newest first.
    """

    def __init__(self) -> None:
        self._collection_by_directory: dict[tuple[str | None, str | None, str], str] = {}
        self._collection_by_place: dict[tuple[str, str], str] = {}

    def add(self, collection: str, places: Sequence[FoundPlace]) -> None:
        """Add a collection (its path) and its places. It must be older than all that were added before."""
        for place in places:
            self._collection_by_place.setdefault((place.name, place.path), collection)
            for directory_key in _directory_keys(place):
                self._collection_by_directory.setdefault(directory_key, collection)

    def drop_newer_bookies(self, place: FoundPlace, newer_collections: dict[str, str]) -> FoundPlace | None:
        """Return ``place`` without the directories of bookies that a newer collection contains.

        ``place`` is from a collection that is older than all added ones. If every bookie of the place is in a
        newer collection, return None. Each removed bookie id is added to ``newer_collections``, with the path
        of the newer collection.
        """
        newer_by_bookie = {
            directory_key[0]: self._collection_by_directory[directory_key]
            for directory_key in _directory_keys(place)
            if directory_key in self._collection_by_directory
        }
        if (newer_collection := self._collection_by_place.get((place.name, place.path))) is not None:
            newer_by_bookie[None] = newer_collection
        cookies_of_directories = [(directory, directory.cookie[0]) for directory in place.directories]
        newer_collections.update(
            (bookie_id, path) for bookie_id, path in newer_by_bookie.items() if bookie_id is not None
        )
        bookie_ids = {cookie.bookie_id for _, cookie in cookies_of_directories if cookie is not None}
        if newer_by_bookie and bookie_ids <= newer_by_bookie.keys():
            return None  # no other bookie has a directory in the place
        remaining_directories = tuple(
            directory
            for directory, cookie in cookies_of_directories
            if (cookie.bookie_id if cookie else None) not in newer_by_bookie
        )
        return replace(place, directories=remaining_directories)


def _directory_keys(place: FoundPlace) -> Iterator[tuple[str | None, str | None, str]]:
    """Yield (bookie id, instance id, path on the bookie) for each directory of a place.

    All three values come from the VERSION files in the place.
    """
    directories_by_bookie: dict[str, list[OwnedDirectory]] = {}
    for found_directory in place.directories:
        if (cookie := found_directory.cookie[0]) is not None:
            directories_by_bookie.setdefault(cookie.bookie_id, []).append(
                OwnedDirectory(
                    found_directory,
                    cookie,
                    None,
                    None,
                    [found_directory.declared_role] if found_directory.declared_role else [],
                )
            )
    for bookie_id, directories in directories_by_bookie.items():
        for path, directory in paths_of(bookie_id, directories, None).directory_by_path.items():
            yield bookie_id, directory.cookie.instance_id if directory.cookie else None, path


COLLECTION_SEPARATOR = "#"
"""The separator between a collection's path and the path of a directory in it."""


@dataclass(frozen=True, slots=True)
class CollectedDirectory:
    """A directory in a collection.

    Attributes:
        path: The directory's path on the host where it was collected.
        piece_id: The id of the piece (the index directories of one bookie in a place) to which the directory
            belongs. None if no index was read from the directory.
        unread_reason: The reason why the collection cannot be used. None if it can be used.
    """

    collection: str
    path: str
    piece_id: str | None
    unread_reason: str | None


@dataclass(frozen=True, slots=True)
class CollectedPlaces:
    """The places (one bookie's directories each) in some collections, and the directories in them.

    Attributes:
        directories: The directories, by their path in ``places``, which has the form ``<collection>#<path>``.
        readable_collections: The collections that can be read, with their manifests.
        unreadable_collections: The (path, reason) of each collection that cannot be read.
        notes: One text for each bookie that is read from a newer collection instead of an older one.
    """

    places: tuple[FoundPlace, ...]
    directories: Mapping[str, CollectedDirectory]
    readable_collections: tuple[tuple[Collection, CollectionManifest], ...]
    unreadable_collections: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PieceOwner:
    """The bookie that owns a piece: index directories of one place whose VERSION files name the same bookie.

    ``owned_paths`` are the directories of the piece that belong to this bookie. Their paths are those on the
    host where they were collected.
    """

    bookie_id: str
    owned_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PieceOwnership:
    """The bookie that owns each piece, and an `Attribution` without the collected index directories.

    A piece is the collected index directories of one bookie in a place. ``overlapping_bookies`` are the
    bookies whose index comes from several pieces, or from pieces and from disk. The same ledger may occur in
    several of these sources.
    """

    attribution: Attribution
    owner_by_piece_id: Mapping[str, PieceOwner]
    overlapping_bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _OpenCollection:
    """A collection and its places. ``piece_id_by_path`` maps (place number, directory path) to a piece id."""

    path: str
    id: str
    creation_time: int
    collection: Collection
    manifest: CollectionManifest | None
    unread_reason: str | None
    places: list[FoundPlace]
    piece_id_by_path: Mapping[tuple[int, str], str]


def collected_places(paths: Sequence[str]) -> CollectedPlaces:
    """Open collections, compare their files with their manifests, and return their places and directories.

    This does not read the table ``availability``. A damaged collection raises no error. Instead, it is
    listed in ``unreadable_collections``, and each of its directories has the reason in ``unread_reason``.
    """
    collection_by_id: dict[str, _OpenCollection] = {}
    for collection in map(_open_collection, paths):
        # A copy has the same id. A complete copy replaces a broken one.
        if collection.id not in collection_by_id or collection_by_id[collection.id].unread_reason is not None:
            collection_by_id[collection.id] = collection
    collections_newest_first = sorted(
        collection_by_id.values(),
        key=lambda opened: (opened.unread_reason is None, opened.creation_time, opened.id),
        reverse=True,
    )
    places: list[FoundPlace] = []
    directories: dict[str, CollectedDirectory] = {}
    notes: list[str] = []
    newest_collections = NewestCollections()
    for collection in collections_newest_first:
        newer_collections: dict[str, str] = {}
        remaining_places = [
            newest_collections.drop_newer_bookies(place, newer_collections) for place in collection.places
        ]
        newest_collections.add(collection.path, collection.places)
        notes += [
            f"{collection.path}: bookie {bookie} is read from the newer collection {newer_collection}"
            for bookie, newer_collection in sorted(newer_collections.items())
        ]
        for place_number, place in enumerate(remaining_places):
            if place is None:
                continue
            places.append(_with_collection_paths(collection.path, place))
            for directory in place.directories:
                directories.setdefault(
                    _name_in_collection(collection.path, directory.path),
                    CollectedDirectory(
                        collection.path,
                        directory.path,
                        collection.piece_id_by_path.get((place_number, directory.path)),
                        collection.unread_reason,
                    ),
                )
    return CollectedPlaces(
        places=tuple(places),
        directories=directories,
        readable_collections=tuple(
            (candidate.collection, candidate.manifest)
            for candidate in collections_newest_first
            if candidate.manifest and candidate.unread_reason is None
        ),
        unreadable_collections=tuple(
            sorted(
                (candidate.path, candidate.unread_reason)
                for candidate in collections_newest_first
                if candidate.unread_reason is not None
            )
        ),
        notes=tuple(sorted(notes)),
    )


def without_collections(collected: CollectedPlaces, reasons: Mapping[str, str]) -> CollectedPlaces:
    """Return a copy of ``collected`` with some collections moved to ``unreadable_collections``.

    ``reasons`` maps the path of each such collection to a description of its damage, which was found later.
    """
    return replace(
        collected,
        directories={
            name: replace(directory, unread_reason=reasons.get(directory.collection, directory.unread_reason))
            for name, directory in collected.directories.items()
        },
        readable_collections=tuple(
            readable_collection
            for readable_collection in collected.readable_collections
            if readable_collection[0].path not in reasons
        ),
        unreadable_collections=tuple(sorted({**dict(collected.unreadable_collections), **reasons}.items())),
    )


def find_piece_owners(attribution: Attribution, collected: CollectedPlaces) -> PieceOwnership:
    """Remove the collected index directories from an attribution, and return the owner of each piece instead.

    Args:
        attribution: The attribution of all directories to bookies, both on disk and collected.
        collected: The collected places.

    Returns:
        The changed attribution, and the bookie that owns each piece (index directories of one bookie in a
        place). A bookie counts as not completely read if one of its index directories is in a collection that
        cannot be read. The reason then names this collection.
    """
    owner_by_piece_id: dict[str, PieceOwner] = {}
    overlapping_bookies: list[str] = []
    bookies = {}
    for bookie_id, bookie in attribution.bookies.items():
        disk_directories, paths_by_piece_id, unread_reasons = [], dict[str, list[str]](), []
        for directory in bookie.index_directories:
            collected_directory = collected.directories.get(directory.path)
            if collected_directory is None:
                disk_directories.append(directory)
            elif collected_directory.unread_reason is not None:
                unread_reasons.append(
                    f"collection {collected_directory.collection}: {collected_directory.unread_reason}"
                )
            elif collected_directory.piece_id is None:
                unread_reasons.append(f"{directory.path}: no index was collected from it")
            else:
                paths_by_piece_id.setdefault(collected_directory.piece_id, []).append(
                    collected_directory.path
                )
        if len(paths_by_piece_id) + bool(disk_directories) > 1:
            overlapping_bookies.append(bookie_id)
        owner_by_piece_id.update(
            (piece_id, PieceOwner(bookie_id, tuple(paths))) for piece_id, paths in paths_by_piece_id.items()
        )
        changed_bookie = replace(bookie, index_directories=tuple(disk_directories))
        if unread_reasons:
            reasons = [*([bookie.reason] if bookie.reason else []), *dict.fromkeys(unread_reasons)]
            read_state = BookieRead.PARTIAL if disk_directories or paths_by_piece_id else BookieRead.UNREAD
            changed_bookie = replace(
                changed_bookie, read=read_state, reason="; ".join(reasons), absent_directories=()
            )
        bookies[bookie_id] = changed_bookie
    return PieceOwnership(
        replace(attribution, bookies=bookies), owner_by_piece_id, tuple(overlapping_bookies)
    )


def _open_collection(path: str) -> _OpenCollection:
    collection = Collection(path)
    manifest: CollectionManifest | None = None
    unread_reason: str | None = None
    try:
        manifest = collection.manifest()
        collection.verify(manifest)
    except UnreadError as error:
        unread_reason = error.reason
    places: list[FoundPlace] = []
    piece_id_by_path: dict[tuple[int, str], str] = {}
    try:
        rows = list(collection.read_rows("directories", manifest))
        places = parse_places(collection.read_rows("places", manifest), rows)
        piece_id_by_path = {
            (row["place"], row["path"]): row["piece"] for row in rows if row["piece"] is not None
        }
    except UnreadError as error:
        unread_reason = unread_reason or error.reason
    except (KeyError, TypeError) as error:
        unread_reason = (
            unread_reason
            or f"the collection's table directories is damaged or has a different version: {error}"
        )
    return _OpenCollection(
        path=collection.path,
        id=manifest.id if manifest else collection.path,
        creation_time=manifest.made if manifest else 0,
        collection=collection,
        manifest=manifest,
        unread_reason=unread_reason,
        places=places,
        piece_id_by_path=piece_id_by_path,
    )


def _name_in_collection(collection: str, path: str) -> str:
    return f"{collection}{COLLECTION_SEPARATOR}{path}"


def _with_collection_paths(collection: str, place: FoundPlace) -> FoundPlace:
    """Return a copy of ``place`` in which all paths begin with the path of its collection.

    The last parts of the paths stay the same. The program compares these parts with the configured paths to
    match directories.
    """
    return replace(
        place,
        path=_name_in_collection(collection, place.path),
        directories=tuple(
            replace(
                directory,
                path=_name_in_collection(collection, directory.path),
                parts_in_place=(collection, *directory.parts_in_place),
            )
            for directory in place.directories
        ),
        gaps=tuple((_name_in_collection(collection, path), reason) for path, reason in place.gaps),
    )
