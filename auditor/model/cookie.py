"""A bookie's cookie: what it says it is, and which directories it is configured with, as its cookies tell.

The configuration itself is on the bookie's machine and out of sight. What can be seen was written from it: at
its first start, and whenever it adds directories, a bookie writes one cookie to all its directories and then
to the store. So, in this order:

    versions   what most of the VERSION files in its place say, of those that carry its own id. They come
               first because an operator's tools rewrite the store alone, a disk that was moved brings one
               other VERSION along, and a bookie that stops between its directories and the store has
               already written its new lists to the directories.
    store      the store's cookie, where no VERSION in its place carries its id.
    others     what most of the other VERSION files say: a bookie that was given a new id, and has no cookie
               under it yet, kept its directories.

A change of the configuration that no start has yet accepted is in none of them. It is seen where the
configuration file itself was given (`auditor.model.bookie_conf`), which comes before all of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's cookie, as the metadata store and each of its directories keep it (Java: ``Cookie``).

    ``journal_dirs`` is the server's one string, paths joined by commas; the other lists are in configured
    order. ``index_dirs`` and ``instance_id`` are None where the cookie has none, or an empty one.

    >>> Cookie(5, "bk1:3181", "/j1,/j2", ("/l1",)).journal_paths
    ('/j1', '/j2')
    """

    layout: int
    bookie_id: str
    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None = None
    instance_id: str | None = None

    @property
    def journal_paths(self) -> tuple[str, ...]:
        """The journal directories, in configured order."""
        return tuple(self.journal_dirs.split(","))


DirectoryLists = tuple[str, tuple[str, ...], tuple[str, ...] | None]
"""Journal, ledger and index directories, as a cookie keeps them."""

LAYOUT = 5
"""The layout that a server of today expects to have written."""


class Source(StrEnum):
    """Which cookies a configuration was taken from."""

    VERSIONS = "versions"
    STORE = "store"
    OTHERS = "others"
    CONFIGURATION = "configuration"  # the file of --bookie-conf
    NOTHING = "nothing"  # there is no cookie, and no file was given


@dataclass(frozen=True, slots=True)
class BookieConfiguration:
    """A bookie's lists of directories, each as a `Cookie` keeps it, and where they were taken from.

    ``agreed``: every cookie of the bookie, in its place and in the store, names it and gives the same lists.
    """

    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None
    source: Source
    agreed: bool

    @property
    def lists(self) -> DirectoryLists:
        """Its journal, ledger and index directories."""
        return self.journal_dirs, self.ledger_dirs, self.index_dirs

    def expected(self, bookie_id: str, instance_id: str | None) -> Cookie:
        """The cookie that the bookie would make of it at its start, and hold all others to.

        >>> configuration("bk1:3181", [Cookie(4, "bk1:3181", "/j", ("/l",))], None).expected("bk1:3181", "x")
        Cookie(layout=5, bookie_id='bk1:3181', journal_dirs='/j', ledger_dirs=('/l',), \
index_dirs=None, instance_id='x')
        """
        return Cookie(LAYOUT, bookie_id, self.journal_dirs, self.ledger_dirs, self.index_dirs, instance_id)


def configuration(
    bookie_id: str, versions: Sequence[Cookie], stored: Cookie | None
) -> BookieConfiguration | None:
    """Infer a bookie's configuration; None where no cookie of it can be read.

    ``versions`` are the VERSION files that lie in its place, one per directory, whatever id they carry;
    ``stored`` is the store's cookie under its id. Where as many VERSION files say one thing as another, the
    one that the store says holds, or else the one that names more directories: bookies grow.
    """
    own = [cookie for cookie in versions if cookie.bookie_id == bookie_id]
    if own:
        source, telling = Source.VERSIONS, own
    elif stored is not None:
        source, telling = Source.STORE, [stored]
    elif versions:
        source, telling = Source.OTHERS, list(versions)
    else:
        return None
    stored_lists = _lists(stored) if stored is not None else None
    counts = Counter(_lists(cookie) for cookie in telling)
    journal, ledger, index = max(
        counts,
        key=lambda lists: (
            counts[lists],
            lists == stored_lists,
            len(lists[1]) + len(lists[2] or ()),
            lists[0],
            lists[1],
            lists[2] or (),
        ),
    )
    everyone = [*versions, *([stored] if stored is not None else [])]
    agreed = all(
        cookie.bookie_id == bookie_id and _lists(cookie) == (journal, ledger, index) for cookie in everyone
    )
    return BookieConfiguration(journal, ledger, index, source, agreed)


def _lists(cookie: Cookie) -> DirectoryLists:
    return cookie.journal_dirs, cookie.ledger_dirs, cookie.index_dirs
