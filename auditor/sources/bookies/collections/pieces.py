"""How availability is cut up when nobody knows yet whose it is: into pieces.

A directory belongs to the bookie that its VERSION names, if the cluster knows that id, else to the one in
whose place it lies. So all directories that lie in one place and name one id have one owner, whoever that
will be: they are a piece. Those of a place whose VERSION cannot be read are a piece of their own. The index
directories of a piece are read together, in configured order, as they are when a bookie's disks are audited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from auditor.sources.bookies.journal.replay import NONE, Journals
from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.owners import attribute
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.bookies.places import PlaceFound


@dataclass(frozen=True, slots=True)
class Piece:
    """The index directories of the place numbered ``place`` that name ``bookie_id``, in configured order.

    ``id`` is unique among all collections; ``bookie_id`` is None where no VERSION says. ``journals`` are
    those of that id in the same place, and so are ``ledger_directories``, in configured order, "" for one
    that was not found.
    """

    id: str
    place: int
    bookie_id: str | None
    directories: tuple[IndexDirectory, ...]
    journals: Journals = NONE
    ledger_directories: tuple[str, ...] = ()

    @property
    def tail(self) -> TailPart:
        """What is to be read of its journals, under its own id."""
        return TailPart(self.id, self.journals.directories, self.journals.trouble)


def pieces_of(collection_id: str, places: Sequence[PlaceFound]) -> list[Piece]:
    """Cut the index directories of ``places`` into pieces; each directory is in one at most.

    A directory whose VERSION cannot be read is matched with the paths that its neighbours' VERSIONs name;
    where no VERSION of a place can be read, nothing says which directories are an index.
    """
    pieces: list[Piece] = []
    taken: set[str] = set()
    for number, place in enumerate(places):
        for each in _by_id(place):
            own = tuple(directory for directory in each.directories if directory.path not in taken)
            taken.update(directory.path for directory in own)
            if own:
                name = f"{collection_id}:{len(pieces)}"
                pieces.append(Piece(name, number, each.bookie_id, own, each.journals, each.homes))
    return pieces


class _OfId(NamedTuple):
    """What names one id in a place; ``homes`` are its ledger directories."""

    bookie_id: str | None
    directories: list[IndexDirectory]
    journals: Journals = NONE
    homes: tuple[str, ...] = ()


def _by_id(place: PlaceFound) -> list[_OfId]:
    known = attribute([place], frozenset(), {}, None)
    named = {row.path: row.cookie_bookie_id for row in known.directories}
    counted = Counter(sorted(bookie_id for bookie_id in named.values() if bookie_id is not None))
    ids = [bookie_id for bookie_id, _ in counted.most_common()]
    written = [each for each in ids if place.name in (each, each.replace(":", "_"))]
    found: list[_OfId] = []
    for bookie_id in ids:
        whole = attribute([replace(place, name=bookie_id, names_bookie=True)], frozenset(ids), {}, None)
        directories, journals = whole.bookies[bookie_id].index_directories, whole.bookies[bookie_id].journals
        own = [each for each in directories if named.get(each.path) == bookie_id]
        homes = tuple(whole.ledger_directories(bookie_id))
        found.append(_OfId(bookie_id, own, journals, homes))
        if bookie_id == (written or ids)[0]:
            found.append(_OfId(None, [each for each in directories if named.get(each.path) is None]))
    return found
