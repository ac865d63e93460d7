"""Which of several collections of one bookie counts: the newer one, entirely.

Even where the older one has directories that the newer one lacks: a disk that was lost since must not count
as read. A bookie was collected again if both collections have a directory that is the same path in VERSIONs
with the same id and instance; where its disks lie apart and were collected one by one, it was not, and what
they hold is united. Directories whose VERSION cannot be read were collected again if their place was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.errors import DecodeError
from auditor.model.cookie import Cookie
from auditor.sources.bookies.paths import OwnedDirectory, paths_of
from auditor.sources.bookies.places import DirectoryFound, PlaceFound


class Newer:
    """What the collections have that were added, newest first."""

    def __init__(self) -> None:
        self._directories: dict[tuple[str | None, str | None, str], str] = {}
        self._places: dict[tuple[str, str], str] = {}

    def add(self, collection: str, places: Sequence[PlaceFound]) -> None:
        """The next older collection, and its places."""
        for place in places:
            self._places.setdefault((place.name, place.path), collection)
            for key in _logical(place):
                self._directories.setdefault(key, collection)

    def take_from(self, place: PlaceFound, gone: dict[str, str]) -> PlaceFound | None:
        """An older place less the bookies that a newer collection has; None if nothing of it is left.

        ``gone`` gets them, each with the newer collection.
        """
        newer = {key[0]: self._directories[key] for key in _logical(place) if key in self._directories}
        if (again := self._places.get((place.name, place.path))) is not None:
            newer[None] = again
        named = [(found, _cookie(found)) for found in place.directories]
        gone.update((bookie_id, path) for bookie_id, path in newer.items() if bookie_id is not None)
        ids = {cookie.bookie_id for _, cookie in named if cookie is not None}
        if newer and ids <= newer.keys():
            return None  # what is left of the place says nothing of anybody else
        kept = tuple(found for found, cookie in named if (cookie.bookie_id if cookie else None) not in newer)
        return replace(place, directories=kept)


def _logical(place: PlaceFound) -> Iterator[tuple[str | None, str | None, str]]:
    """Which directories a place has, by what their VERSION says: (id, instance, path on the bookie)."""
    owned: dict[str, list[OwnedDirectory]] = {}
    for found in place.directories:
        if (cookie := _cookie(found)) is not None:
            owned.setdefault(cookie.bookie_id, []).append(
                OwnedDirectory(found, cookie, None, None, [found.declared] if found.declared else [])
            )
    for bookie_id, directories in owned.items():
        for path, directory in paths_of(bookie_id, directories, None).found.items():
            yield bookie_id, directory.cookie.instance_id if directory.cookie else None, path


def _cookie(found: DirectoryFound) -> Cookie | None:
    if found.version is None:
        return None
    try:
        return cookie_codec.decode(found.version)
    except DecodeError:
        return None
