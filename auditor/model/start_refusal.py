"""Cookie checks when a bookie starts: what the server compares, and why it refuses to start.

Before a bookie serves any request, it creates the cookie that it expects. It uses its configuration and the
cluster's INSTANCEID. It then checks the following, in this order (Java: ``LegacyCookieValidation``):

    1. its directories: no directory may contain data older than layout 3
    2. the store's cookies under every id that could be its own
    3. the VERSION of each directory: journals, then ledger directories, then index directories
    4. directories without VERSION: they may belong to a new bookie, to added storage, or to a wiped disk

The first failure ends the start with an exception and a stack trace. If a disk was swapped or wiped, the
server notices it only at its next start. This module finds it earlier.

Two cases are not covered. (1) If a cookie lacks a field, release 4.17 fails with protobuf's
UninitializedMessageException instead of InvalidCookieException. (2) A list of directories in a cookie
begins with their number. The module assumes that this number is right, because every server writes the
right number.

A server with ``dataIntegrityChecking`` uses a different validation. It compares more fields, but a difference
has milder consequences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from auditor.model.cookie import Cookie

INVALID_COOKIE = "org.apache.bookkeeper.bookie.BookieException$InvalidCookieException"
IO_EXCEPTION = "java.io.IOException"


class Fault(StrEnum):
    """Reason why a server refuses to start."""

    OLD_DATA = "old-data"  # a directory has data older than layout 3
    STORE_UNREADABLE = "store-unreadable"
    STORE_DIFFERS = "store-differs"
    STORE_INSTANCE = "store-instance"
    NOT_IN_STORE = "not-in-store"
    VERSION_UNREADABLE = "version-unreadable"
    VERSION_DIFFERS = "version-differs"
    VERSION_INSTANCE = "version-instance"
    VERSION_MISSING = "version-missing"
    DISK_WIPED = "wiped"  # a directory that a cookie names has no VERSION
    NOT_EMPTY = "not-empty"  # a new directory has something in it
    INDEX_NOT_IN_COOKIE = "index-not-in-cookie"  # the cookies are of before 4.16, and name no index directory
    INDEX_COUNT = "index-count"  # DbLedgerStorage takes as many index directories as ledger directories
    JOURNAL_GONE = "journal-gone"  # a journal lacks the file from which it would be replayed
    JOURNAL_INVALID_RECORD = "journal-invalid-record"  # replay ends there, unless a setting skips it
    JOURNAL_UNREADABLE = "journal-unreadable"  # replay ends there, whatever is configured


@dataclass(frozen=True, slots=True)
class UnreadableCookie:
    """A cookie that cannot be read, because it is damaged or has layout 1 or 2."""

    reason: str


@dataclass(frozen=True, slots=True)
class MissingVersion:
    """The state of a directory without VERSION.

    ``empty`` is True if its subdirectory ``current`` is empty or does not exist. It is None if this is not
    known. An unknown value never leads to a refusal. ``old_data`` is True if ``current`` does not exist,
    but the directory itself contains VERSION or data files.
    """

    empty: bool | None
    old_data: bool = False


@dataclass(frozen=True, slots=True)
class BookieDirectory:
    """A directory in a bookie's configuration: its path as configured, its role, and its VERSION.

    ``role`` is journal, ledger or index. ``version`` is None if the directory could not be read.
    """

    path: str
    role: str
    version: Cookie | UnreadableCookie | MissingVersion | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a bookie to start, with its reason.

    ``error`` is the full class name of the server's exception. ``paths`` are the faulty directories.
    ``stored_id`` is the id whose cookie in the store is faulty or missing. ``certain`` is False if there
    may be a different explanation. ``way_out`` describes a setting with which the bookie starts, and the
    cost of using it. It is None if no such setting is known.
    """

    error: str
    fault: Fault
    reason: str
    paths: tuple[str, ...] = ()
    stored_id: str | None = None
    certain: bool = True
    way_out: str | None = None


def configured_paths(expected: Cookie) -> tuple[tuple[str, str], ...]:
    """Return the role and the path of every directory, in the order in which the server reads them.

    A directory that is configured several times occurs only once, with its first role.

    >>> configured_paths(Cookie(5, "bk1", "/j", ("/l", "/j"), ("/i",)))
    (('journal', '/j'), ('ledger', '/l'), ('index', '/i'))
    """
    roles: dict[str, tuple[str, str]] = {}
    for role, paths in (
        ("journal", expected.journal_paths),
        ("ledger", expected.ledger_dirs),
        ("index", expected.index_dirs or ()),
    ):
        for path in paths:
            roles.setdefault(file_path(path), (role, path))
    return tuple(roles.values())


def file_path(path: str) -> str:
    """Return a path in the normalised form in which Java's ``File`` compares paths.

    >>> file_path("//data/l1/")
    '/data/l1'
    """
    return re.sub("/+", "/", path).rstrip("/") or "/"


def refusal_without_unread(
    expected: Cookie,
    directories: Sequence[BookieDirectory],
    find_refusal: Callable[[Sequence[BookieDirectory]], Refusal | None],
) -> Refusal | None:
    """Return a refusal to start that is certain whatever the unread directories contain, or None.

    The function calls ``find_refusal`` twice: as if all unread directories had the expected cookie, and as if
    all of them were new. If the start is refused in both cases, it is refused with any other content of these
    directories too.

    Args:
        expected: the cookie that the bookie expects.
        directories: all configured directories.
        find_refusal: function with the checks of a server. It returns a refusal or None.
    """
    if all(directory.version is not None for directory in directories):
        return find_refusal(directories)
    refusals = [
        find_refusal(
            [
                directory if directory.version is not None else replace(directory, version=assumed_cookie)
                for directory in directories
            ]
        )
        for assumed_cookie in (expected, MissingVersion(empty=True))
    ]
    return refusals[0] if all(refusals) else None


def old_data_refusal(directories: Sequence[BookieDirectory]) -> Refusal | None:
    """Return a bookie's refusal to start with data older than layout 3, or None. Servers check this first."""
    for directory in directories:
        if isinstance(directory.version, MissingVersion) and directory.version.old_data:
            reason = f"{directory.path} has data older than layout 3: upgrade this data first"
            return Refusal(IO_EXCEPTION, Fault.OLD_DATA, reason, (directory.path,))
    return None


def unreadable_cookie_refusal(cookie: UnreadableCookie, path: str | None, stored_id: str | None) -> Refusal:
    """Return a bookie's refusal to start because of a cookie that cannot be read.

    ``cookie`` is in the directory ``path``. If ``path`` is None, ``cookie`` is the store's cookie under
    ``stored_id``.
    """
    fault = Fault.STORE_UNREADABLE if path is None else Fault.VERSION_UNREADABLE
    reason = f"{_cookie_location_text(path, stored_id)} cannot be read: {cookie.reason}"
    return Refusal(INVALID_COOKIE, fault, reason, _as_tuple(path), stored_id)


def unequal_cookie_refusal(
    expected: Cookie,
    cookie: Cookie,
    fields: Sequence[str],
    fault: Fault,
    path: str | None,
    stored_id: str | None,
) -> Refusal:
    """Return a bookie's refusal to start because ``fields`` of a cookie differ from the expected cookie.

    ``cookie`` is in the directory ``path``. If ``path`` is None, ``cookie`` is the store's cookie under
    ``stored_id``.
    """
    actual_values, expected_values = _cookie_fields(cookie), _cookie_fields(expected)
    fields_text = "; ".join(
        f"{field} {actual_values[field]}, expected {expected_values[field]}" for field in fields
    )
    reason = f"{_cookie_location_text(path, stored_id)} says {fields_text}"
    return Refusal(INVALID_COOKIE, fault, reason, _as_tuple(path), stored_id)


def directories_refusal(
    fault: Fault, paths: Sequence[str], problem: str, stored_id: str | None = None
) -> Refusal:
    """Return the refusal to start because ``paths`` have the same fault.

    ``problem`` is the predicate of a sentence about one of the paths, such as "has no VERSION".
    """
    path_text = paths[0] if len(paths) == 1 else f"each of {', '.join(paths)}"
    return Refusal(INVALID_COOKIE, fault, f"{path_text} {problem}", tuple(paths), stored_id)


def _cookie_location_text(path: str | None, stored_id: str | None) -> str:
    return f"the store's cookie of {stored_id}" if path is None else f"the VERSION of {path}"


def _as_tuple(path: str | None) -> tuple[str, ...]:
    return () if path is None else (path,)


def _cookie_fields(cookie: Cookie) -> dict[str, str]:
    return {
        "layout": str(cookie.layout),
        "bookieHost": cookie.bookie_id,
        "journalDir": cookie.journal_dirs,
        "ledgerDirs": ", ".join(cookie.ledger_dirs),
        "indexDirs": ", ".join(cookie.index_dirs) if cookie.index_dirs else "(the ledger directories)",
        "instanceId": cookie.instance_id or "(none)",
    }


def legacy_refusal(
    expected: Cookie,
    stored_cookies: Sequence[tuple[str, Cookie | UnreadableCookie]],
    directories: Sequence[BookieDirectory],
    *,
    allow_expansion: bool = False,
) -> Refusal | None:
    """Return the refusal of ``LegacyCookieValidation``, or None if the bookie would start.

    The result never depends on directories that could not be read (`refusal_without_unread`).

    >>> cookie = Cookie(5, "bk1", "/j", ("/l",), None, "x")
    >>> wiped = BookieDirectory("/l", "ledger", MissingVersion(empty=True))
    >>> legacy_refusal(cookie, [("bk1", cookie)], [BookieDirectory("/j", "journal", cookie), wiped]).reason
    '/l has no VERSION'

    Args:
        expected: the cookie that the bookie creates from its configuration, with the cluster's instance id
            (`auditor.model.cookie` infers it).
        stored_cookies: (id, cookie) pairs for all ids that could be the bookie's and that have a cookie in
            the store. They are in the order in which the server tries them. If there is a custom id, only
            this id is tried. Otherwise the order is IP, host name, advertised address.
        directories: the directories of `configured_paths`, in that order.
        allow_expansion: value of the server's ``allowStorageExpansion``.
    """

    def find_refusal(read_directories: Sequence[BookieDirectory]) -> Refusal | None:
        return _legacy_decision(expected, stored_cookies, read_directories, allow_expansion)

    return refusal_without_unread(expected, directories, find_refusal)


def unequal_cookie_fields(
    expected: Cookie, cookie: Cookie, *, allow_expansion: bool = False
) -> tuple[str, ...]:
    """Return the fields that differ from the expected cookie and thus make the server refuse to start.

    The instance id is not compared here. Lists are compared in order. If ``allow_expansion`` is True,
    ledger and index directories are compared as sets, and the expected set may contain more directories. If
    only one of the two cookies has index directories, they are compared with the ledger directories of the
    other cookie. All layouts from 3 on are compatible.

    >>> new, old = (Cookie(5, "bk1", "/j", paths) for paths in [("/a", "/b"), ("/b",)])
    >>> unequal_cookie_fields(new, old), unequal_cookie_fields(new, old, allow_expansion=True)
    (('ledgerDirs',), ())
    """

    def do_paths_match(expected_paths: tuple[str, ...], cookie_paths: tuple[str, ...]) -> bool:
        return set(cookie_paths) <= set(expected_paths) if allow_expansion else expected_paths == cookie_paths

    is_equal_by_field = {
        "bookieHost": expected.bookie_id == cookie.bookie_id,
        "journalDir": expected.journal_dirs == cookie.journal_dirs,
        "ledgerDirs": do_paths_match(expected.ledger_dirs, cookie.ledger_dirs),
        "indexDirs": (expected.index_dirs is None and cookie.index_dirs is None)
        or do_paths_match(
            expected.index_dirs or expected.ledger_dirs, cookie.index_dirs or cookie.ledger_dirs
        ),
    }
    return tuple(field for field, is_equal in is_equal_by_field.items() if not is_equal)


def _legacy_decision(
    expected: Cookie,
    stored_cookies: Sequence[tuple[str, Cookie | UnreadableCookie]],
    directories: Sequence[BookieDirectory],
    allow_expansion: bool,
) -> Refusal | None:
    if data_refusal := old_data_refusal(directories):
        return data_refusal
    existing_cookies: list[Cookie] = []
    for stored_id, cookie in stored_cookies:
        if refusal := _cookie_refusal(expected, cookie, allow_expansion, None, stored_id):
            return refusal
        if isinstance(cookie, Cookie):
            existing_cookies = [cookie]  # the server also keeps only the last one
    missing_directories: list[BookieDirectory] = []
    for directory in directories:
        version = directory.version
        if isinstance(version, MissingVersion):
            missing_directories.append(directory)
        elif version is not None:
            if refusal := _cookie_refusal(expected, version, allow_expansion, directory.path, None):
                return refusal
            if isinstance(version, Cookie):
                existing_cookies.append(version)
    if not stored_cookies:
        return _new_bookie_refusal(expected.bookie_id, missing_directories)
    if missing_directories and not allow_expansion:
        return directories_refusal(
            Fault.VERSION_MISSING, [directory.path for directory in missing_directories], "has no VERSION"
        )
    return _expansion_refusal(missing_directories, existing_cookies)


def _cookie_refusal(
    expected: Cookie,
    cookie: Cookie | UnreadableCookie,
    allow_expansion: bool,
    path: str | None,
    stored_id: str | None,
) -> Refusal | None:
    if isinstance(cookie, UnreadableCookie):
        return unreadable_cookie_refusal(cookie, path, stored_id)
    if fields := unequal_cookie_fields(expected, cookie, allow_expansion=allow_expansion):
        fault = Fault.STORE_DIFFERS if path is None else Fault.VERSION_DIFFERS
        return unequal_cookie_refusal(expected, cookie, fields, fault, path, stored_id)
    if expected.instance_id != cookie.instance_id:
        fault = Fault.STORE_INSTANCE if path is None else Fault.VERSION_INSTANCE
        return unequal_cookie_refusal(expected, cookie, ["instanceId"], fault, path, stored_id)
    return None


def _new_bookie_refusal(bookie_id: str, missing_directories: Sequence[BookieDirectory]) -> Refusal | None:
    if not missing_directories:
        reason = "the bookie's directories have a VERSION, but the store has no cookie for the bookie"
        return Refusal(INVALID_COOKIE, Fault.NOT_IN_STORE, reason, stored_id=bookie_id)
    # Like the server, do not look into directories that already have a VERSION.
    if non_empty_paths := _find_non_empty(missing_directories):
        problem = "has no VERSION but is not empty, and the store has no cookie for the bookie"
        return directories_refusal(Fault.NOT_EMPTY, non_empty_paths, problem, bookie_id)
    return None


def _expansion_refusal(
    missing_directories: Sequence[BookieDirectory], existing_cookies: Iterable[Cookie]
) -> Refusal | None:
    # Journals are not checked: the server takes a wiped one for a new one, and starts without its data.
    cookie_paths = {
        file_path(path)
        for cookie in existing_cookies
        for path in (*cookie.ledger_dirs, *(cookie.index_dirs or ()))
    }
    if wiped_dirs := [
        directory.path for directory in missing_directories if file_path(directory.path) in cookie_paths
    ]:
        return directories_refusal(
            Fault.DISK_WIPED,
            wiped_dirs,
            "has no VERSION, but the bookie's cookies contain this directory: the directory was wiped",
        )
    if non_empty_paths := _find_non_empty(missing_directories):
        return directories_refusal(Fault.NOT_EMPTY, non_empty_paths, "has no VERSION but is not empty")
    return None


def _find_non_empty(directories: Iterable[BookieDirectory]) -> list[str]:
    return [
        directory.path
        for directory in directories
        if isinstance(directory.version, MissingVersion) and directory.version.empty is False
    ]
