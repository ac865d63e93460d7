"""How large the pages of a bookie's index files are.

Sorted and Interleaved storage write whole pages, so a file that does not end on a page's edge was cut. But
the page size (``pageSize``, 8192 by default) is in the bookie's configuration and not in its files. It
shows in their lengths: nearly all are whole pages. It is taken as the largest power of two that nearly all
of them are multiples of; some must be allowed not to be, or one cut file would make every page look small
and hide itself.

A false alarm would call every entry behind the edge unknown. With the default page size it cannot happen:
every length that the server wrote is a multiple of 8192, so of the size found, which is never larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from auditor.model.states import IndexState

LARGEST = 8192
"""The server's default; a larger page is a multiple of it, so its files are whole pages of this size too."""

SECTOR = 512
"""The smallest page looked for; a length that is not a multiple of it was cut, whatever the page size."""

ENOUGH_FILES = 8
"""With fewer files one cut file would be too large a part to be told from a small page."""

CUT_PERCENT = 2
"""How many of the files may be cut; at least one."""


@dataclass(frozen=True)
class IndexShapes:
    """What all rows of the table availability are like: a few figures a bookie.

    ``pages`` is bytes per page by bookie, ``cut`` the bookies of which a file ends inside one, ``states`` all
    that occur.
    """

    pages: dict[str, int]
    cut: frozenset[str]
    states: frozenset[str]

    @property
    def edges(self) -> dict[str, int]:
        """Bytes per page, of the bookies that have a file which ends inside one.

        >>> IndexShapes({"bk1": 8192, "bk2": 4096}, frozenset({"bk1", "bk3"}), frozenset()).edges["bk3"]
        512
        """
        return {bookie: self.pages.get(bookie, SECTOR) for bookie in self.cut}


def index_shapes(rows: Iterable[tuple[str, str, int | None, int]]) -> IndexShapes:
    """Put together what is known of all indexes; a row is bookie, state, length and how many have these.

    Lengths are powers of two that divide the files' own; None of what is not a file.

    >>> shapes = index_shapes([("bk1", "ok", 8192, 40), ("bk1", "ok", 512, 1), ("bk2", "limbo", None, 2)])
    >>> shapes.pages, sorted(shapes.cut), sorted(shapes.states)
    ({'bk1': 8192}, ['bk1'], ['limbo', 'ok'])
    """
    lengths: dict[str, dict[int, int]] = {}
    found: list[tuple[str, int]] = []
    states = set()
    for bookie, state, length, count in rows:
        states.add(state)
        if state == IndexState.OK and length:
            found.append((bookie, length))
            if length % SECTOR == 0:
                lengths.setdefault(bookie, {})[length] = count
    pages = page_sizes(lengths)
    cut = frozenset(bookie for bookie, length in found if length % pages.get(bookie, SECTOR))
    return IndexShapes(pages, cut, frozenset(states))


def page_sizes(lengths: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """Find each bookie's page size, in bytes.

    ``lengths`` counts, for each bookie, its files by their length after the header. Lengths of 0 and such
    as are no multiple of 512 say nothing and are passed over. A file is cut if its length is not a multiple
    of the result.

    >>> page_sizes({"bk1": {8192: 40, 16384: 9, 4608: 1}, "bk2": {4096: 3, 8192: 4}})
    {'bk1': 8192, 'bk2': 4096}
    """
    return {bookie: _page_size(list(counts.items())) for bookie, counts in lengths.items()}


def _page_size(counts: Iterable[tuple[int, int]]) -> int:
    whole = [(length, count) for length, count in counts if length and length % SECTOR == 0]
    files = sum(count for _, count in whole)
    allowed = max(1, files * CUT_PERCENT // 100) if files >= ENOUGH_FILES else 0
    size = LARGEST
    while size > SECTOR and sum(count for length, count in whole if length % size) > allowed:
        size //= 2
    return size
