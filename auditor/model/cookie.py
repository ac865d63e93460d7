"""A bookie's cookie, and the configuration of its directories, which is inferred from its cookies.

The configuration file is on the bookie's machine, where the audit cannot read it. A bookie creates a cookie
from this file at its first start, and whenever it adds directories. It writes the cookie first to all its
directories, and then to the store. The audit therefore takes the configuration from the first of these
sources that exists:

    versions   The VERSION files in the bookie's directories that contain its own id. The majority of them
               decides. They come before the store for three reasons. (1) An operator's tools change only
               the store. (2) A disk from a different bookie adds only one wrong VERSION. (3) A bookie may
               stop between the two writes. Then only its directories have the new lists.
    store      The store's cookie, if no VERSION in the bookie's directories contains its id.
    others     The VERSION files that contain other ids, if the store has no cookie. The majority of them
               decides. A bookie that was given a new id keeps its directories.

If somebody changes the configuration, no cookie contains the change until the bookie has started with it.
Until then, only the configuration file contains it (`auditor.model.bookie_conf`). If the file is given, it
takes precedence over all cookies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's cookie, from the metadata store or from one of its directories (Java: ``Cookie``).

    Like in the server, ``journal_dirs`` is a single string of paths that are joined by commas. The other
    lists are in the order of the configuration. ``index_dirs`` and ``instance_id`` are None if they are
    absent or empty in the cookie.

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
        """The journal directories, in the order of the configuration."""
        return tuple(self.journal_dirs.split(","))


DirectoryLists = tuple[str, tuple[str, ...], tuple[str, ...] | None]
"""Journal, ledger and index directories, in the form of a cookie."""

COOKIE_LAYOUT = 5
"""Layout version of the cookies that current servers write."""


class ConfigSource(StrEnum):
    """Source from which a bookie's configuration was inferred."""

    OWN_VERSION_FILES = "versions"
    STORE_COOKIE = "store"
    OTHER_VERSION_FILES = "others"
    CONFIG_FILE = "configuration"  # the file of --bookie-conf
    NO_SOURCE = "nothing"  # there is no cookie, and no file was given


@dataclass(frozen=True, slots=True)
class BookieConfiguration:
    """A bookie's lists of directories, in the form of a `Cookie`, and the source of these lists.

    ``do_cookies_agree`` is True if all cookies of the bookie contain its id and exactly these lists. The
    cookies are those in its directories and in the store.
    """

    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None
    source: ConfigSource
    do_cookies_agree: bool

    @property
    def directory_lists(self) -> DirectoryLists:
        """The journal directories, the ledger directories and the index directories."""
        return self.journal_dirs, self.ledger_dirs, self.index_dirs

    def expected_cookie(self, bookie_id: str, instance_id: str | None) -> Cookie:
        """Return the cookie that the bookie makes at its start and requires in its directories and the store.

        >>> inferred = infer_configuration("bk1:3181", [Cookie(4, "bk1:3181", "/j", ("/l",))], None)
        >>> inferred.expected_cookie("bk1:3181", "x")
        Cookie(layout=5, bookie_id='bk1:3181', journal_dirs='/j', ledger_dirs=('/l',), \
index_dirs=None, instance_id='x')
        """
        return Cookie(
            COOKIE_LAYOUT, bookie_id, self.journal_dirs, self.ledger_dirs, self.index_dirs, instance_id
        )


def infer_configuration(
    bookie_id: str, version_cookies: Sequence[Cookie], stored_cookie: Cookie | None
) -> BookieConfiguration | None:
    """Infer a bookie's configuration from its cookies. Returns None if no cookie can be read.

    The function chooses the lists of directories that most VERSION files contain. If several lists are tied,
    it chooses the lists in the store's cookie. If the store's cookie contains none of them, it chooses the
    lists with most directories, because operators usually add directories.

    Args:
        bookie_id: id of the bookie.
        version_cookies: the cookies in the VERSION files of the bookie's directories, one for each
            directory, with any id.
        stored_cookie: the store's cookie under the bookie's id, or None.
    """
    own_id_cookies = [cookie for cookie in version_cookies if cookie.bookie_id == bookie_id]
    if own_id_cookies:
        source, source_cookies = ConfigSource.OWN_VERSION_FILES, own_id_cookies
    elif stored_cookie is not None:
        source, source_cookies = ConfigSource.STORE_COOKIE, [stored_cookie]
    elif version_cookies:
        source, source_cookies = ConfigSource.OTHER_VERSION_FILES, list(version_cookies)
    else:
        return None
    stored_lists = _directory_lists(stored_cookie) if stored_cookie is not None else None
    list_counts = Counter(_directory_lists(cookie) for cookie in source_cookies)
    journal_dirs, ledger_dirs, index_dirs = max(
        list_counts,
        key=lambda lists: (
            list_counts[lists],
            lists == stored_lists,
            len(lists[1]) + len(lists[2] or ()),
            lists[0],
            lists[1],
            lists[2] or (),
        ),
    )
    all_cookies = [*version_cookies, *([stored_cookie] if stored_cookie is not None else [])]
    do_cookies_agree = all(
        cookie.bookie_id == bookie_id and _directory_lists(cookie) == (journal_dirs, ledger_dirs, index_dirs)
        for cookie in all_cookies
    )
    return BookieConfiguration(journal_dirs, ledger_dirs, index_dirs, source, do_cookies_agree)


def _directory_lists(cookie: Cookie) -> DirectoryLists:
    return cookie.journal_dirs, cookie.ledger_dirs, cookie.index_dirs
