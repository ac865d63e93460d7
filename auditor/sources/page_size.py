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

LARGEST = 8192
"""The server's default; a larger page is a multiple of it, so its files are whole pages of this size too."""

SECTOR = 512
"""The smallest page looked for; a length that is no multiple of it was cut, whatever the page size."""

ENOUGH_FILES = 8
"""With fewer files one cut file would be too large a part to be told from a small page."""

CUT_PERCENT = 2
"""How many of the files may be cut; at least one."""


def page_sizes(lengths: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """Find each bookie's page size, in bytes.

    ``lengths`` counts, for each bookie, its files by their length after the header. Lengths of 0 and such
    as are no multiple of 512 say nothing and are passed over. A file is cut if its length is no multiple of
    the result.

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
