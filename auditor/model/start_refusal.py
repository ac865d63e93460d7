"""A bookie's start, as its cookies let it or not: what is looked at, and why it is refused.

Before it serves anything, a bookie makes the cookie that it expects of its configuration and the cluster's
INSTANCEID, and holds to it, in this order (Java: ``LegacyCookieValidation``):

    1. its directories: none may keep data of before layout 3
    2. the store's cookies under every id that could be its own
    3. the VERSION of each directory: journals, then ledger directories, then index directories
    4. what the directories without VERSION may mean: a new bookie, added storage, or a wiped disk

The first that fails ends the start with an exception, and the operator has a stack trace. A disk that was
swapped or wiped while its bookie ran shows only then; here it shows before.

Two things are not decided here. A cookie whose text parses but lacks a field ends a start of 4.17 with
protobuf's UninitializedMessageException, not with InvalidCookieException. And the number before a list of
directories is taken to be right, as every server writes it.

A server with ``dataIntegrityChecking`` validates otherwise: stricter in what it compares, milder in what
follows.
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
    """Why a start is refused."""

    OLD_DATA = "old-data"  # a directory keeps data of before layout 3
    STORE_UNREADABLE = "store-unreadable"
    STORE_DIFFERS = "store-differs"
    STORE_INSTANCE = "store-instance"
    NOT_IN_STORE = "not-in-store"
    VERSION_UNREADABLE = "version-unreadable"
    VERSION_DIFFERS = "version-differs"
    VERSION_INSTANCE = "version-instance"
    VERSION_MISSING = "version-missing"
    WIPED = "wiped"  # a directory that a cookie names has no VERSION
    NOT_EMPTY = "not-empty"  # a new directory has something in it
    INDEX_NOT_IN_COOKIE = "index-not-in-cookie"  # the cookies are of before 4.16, and name no index directory
    INDEX_COUNT = "index-count"  # DbLedgerStorage takes as many index directories as ledger directories
    JOURNAL_GONE = "journal-gone"  # a journal lacks the file from which it would be replayed
    JOURNAL_INVALID_RECORD = "journal-invalid-record"  # replay ends there, unless a setting skips it
    JOURNAL_UNREADABLE = "journal-unreadable"  # replay ends there, whatever is configured


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A cookie that is there and says nothing: damaged, or of layout 1 or 2."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoVersion:
    """A directory without VERSION.

    ``empty``: nothing lies in its ``current``, or there is none; None where that is not known, which never
    refuses a start. ``old_data``: it has no ``current``, and VERSION or data files in its place.
    """

    empty: bool | None
    old_data: bool = False


@dataclass(frozen=True, slots=True)
class BookieDirectory:
    """A configured directory: its path as the bookie's configuration writes it, its role, its VERSION.

    ``role`` is journal, ledger or index. ``version`` is None for a directory that could not be looked at.
    """

    path: str
    role: str
    version: Cookie | Unreadable | NoVersion | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a bookie would not start.

    ``error`` is the server's exception, by its full name. ``paths`` are the directories at fault;
    ``stored_id`` is the id under which the store keeps the cookie at fault, or lacks one. Where it is not
    ``certain``, something else may explain what was seen. ``way_out`` is a setting with which the bookie
    starts, and what that costs; None: none is known.
    """

    error: str
    fault: Fault
    reason: str
    paths: tuple[str, ...] = ()
    stored_id: str | None = None
    certain: bool = True
    way_out: str | None = None


def configured_paths(expected: Cookie) -> tuple[tuple[str, str], ...]:
    """Role and path of every directory, each once, in the order in which the server looks at them.

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
            roles.setdefault(as_file(path), (role, path))
    return tuple(roles.values())


def as_file(path: str) -> str:
    """A path as Java's ``File`` compares it.

    >>> as_file("//data/l1/")
    '/data/l1'
    """
    return re.sub("/+", "/", path).rstrip("/") or "/"


def certain(
    expected: Cookie,
    directories: Sequence[BookieDirectory],
    decide: Callable[[Sequence[BookieDirectory]], Refusal | None],
) -> Refusal | None:
    """The refusal that holds whatever is in directories that could not be looked at.

    It is decided with all of them in order, and with all of them new: nothing is easier on a bookie, and
    whether it is refused then depends on the others alone.
    """
    if all(directory.version is not None for directory in directories):
        return decide(directories)
    refusals = [
        decide(
            [
                directory if directory.version is not None else replace(directory, version=guess)
                for directory in directories
            ]
        )
        for guess in (expected, NoVersion(empty=True))
    ]
    return refusals[0] if all(refusals) else None


def old_data(directories: Sequence[BookieDirectory]) -> Refusal | None:
    """The first thing that any server looks for: data of before layout 3, which must be upgraded."""
    for directory in directories:
        if isinstance(directory.version, NoVersion) and directory.version.old_data:
            reason = f"{directory.path} keeps data of before layout 3: upgrade needed"
            return Refusal(IO_EXCEPTION, Fault.OLD_DATA, reason, (directory.path,))
    return None


def unreadable(cookie: Unreadable, path: str | None, stored_id: str | None) -> Refusal:
    """The refusal of a cookie that says nothing: a directory's, or the store's."""
    fault = Fault.STORE_UNREADABLE if path is None else Fault.VERSION_UNREADABLE
    reason = f"{_whose(path, stored_id)} cannot be read: {cookie.reason}"
    return Refusal(INVALID_COOKIE, fault, reason, _paths(path), stored_id)


def differing(
    expected: Cookie,
    cookie: Cookie,
    fields: Sequence[str],
    fault: Fault,
    path: str | None,
    stored_id: str | None,
) -> Refusal:
    """The refusal of a cookie, a directory's or the store's, that differs in ``fields``."""
    actual, expected_values = _cookie_fields(cookie), _cookie_fields(expected)
    unequal_fields = "; ".join(
        f"{field} {actual[field]}, expected {expected_values[field]}" for field in fields
    )
    reason = f"{_whose(path, stored_id)} says {unequal_fields}"
    return Refusal(INVALID_COOKIE, fault, reason, _paths(path), stored_id)


def lacking(fault: Fault, paths: Sequence[str], what: str, stored_id: str | None = None) -> Refusal:
    """The refusal of directories for what is the matter with each of them."""
    which = paths[0] if len(paths) == 1 else f"each of {', '.join(paths)}"
    return Refusal(INVALID_COOKIE, fault, f"{which} has {what}", tuple(paths), stored_id)


def _whose(path: str | None, stored_id: str | None) -> str:
    return f"the store's cookie of {stored_id}" if path is None else f"the VERSION of {path}"


def _paths(path: str | None) -> tuple[str, ...]:
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
    stored: Sequence[tuple[str, Cookie | Unreadable]],
    directories: Sequence[BookieDirectory],
    *,
    allow_expansion: bool = False,
) -> Refusal | None:
    """What ``LegacyCookieValidation`` would refuse the bookie's start for; None if it would start.

    ``expected`` is the cookie that the bookie makes of its configuration, with the cluster's instance id
    (`auditor.model.cookie` infers it). ``stored`` are (id, cookie) of every id that could be
    the bookie's and that the store has a cookie of, in the order in which it asks: its custom id alone, or
    ip, host name and advertised address. ``directories`` are those of
    `auditor.model.start_refusal.configured_paths`, in that order. ``allow_expansion`` is the server's
    ``allowStorageExpansion``. Where directories could not be looked at, only a refusal that holds whatever
    is in them is given.

    >>> cookie = Cookie(5, "bk1", "/j", ("/l",), None, "x")
    >>> there = [BookieDirectory("/j", "journal", cookie), BookieDirectory("/l", "ledger", NoVersion(True))]
    >>> legacy_refusal(cookie, [("bk1", cookie)], there).reason
    '/l has no VERSION'
    """

    def decide(looked_at: Sequence[BookieDirectory]) -> Refusal | None:
        return _legacy_decision(expected, stored, looked_at, allow_expansion)

    return certain(expected, directories, decide)


def differences(expected: Cookie, cookie: Cookie, *, allow_expansion: bool = False) -> tuple[str, ...]:
    """In which fields a cookie differs from the expected one so that a start is refused; the instance apart.

    Lists are compared in order, and those of ledger and index directories as sets of which the expected one
    may have more, if storage may be added. A cookie without index directories has its ledger directories
    for them; where neither has any there is nothing to differ. Layouts from 3 on are all alike.

    >>> one, other = (Cookie(5, "bk1", "/j", dirs) for dirs in [("/a", "/b"), ("/b",)])
    >>> differences(one, other), differences(one, other, allow_expansion=True)
    (('ledgerDirs',), ())
    """

    def fits(expected_paths: tuple[str, ...], cookie_paths: tuple[str, ...]) -> bool:
        return set(cookie_paths) <= set(expected_paths) if allow_expansion else expected_paths == cookie_paths

    fit = {
        "bookieHost": expected.bookie_id == cookie.bookie_id,
        "journalDir": expected.journal_dirs == cookie.journal_dirs,
        "ledgerDirs": fits(expected.ledger_dirs, cookie.ledger_dirs),
        "indexDirs": (expected.index_dirs is None and cookie.index_dirs is None)
        or fits(expected.index_dirs or expected.ledger_dirs, cookie.index_dirs or cookie.ledger_dirs),
    }
    return tuple(field for field, is_so in fit.items() if not is_so)


def _legacy_decision(
    expected: Cookie,
    stored: Sequence[tuple[str, Cookie | Unreadable]],
    directories: Sequence[BookieDirectory],
    allow_expansion: bool,
) -> Refusal | None:
    if old := old_data(directories):
        return old
    existing: list[Cookie] = []
    for stored_id, cookie in stored:
        if refusal := _cookie_refusal(expected, cookie, allow_expansion, None, stored_id):
            return refusal
        if isinstance(cookie, Cookie):
            existing = [cookie]  # the server, too, keeps the last it finds
    missing: list[BookieDirectory] = []
    for directory in directories:
        version = directory.version
        if isinstance(version, NoVersion):
            missing.append(directory)
        elif version is not None:
            if refusal := _cookie_refusal(expected, version, allow_expansion, directory.path, None):
                return refusal
            if isinstance(version, Cookie):
                existing.append(version)
    if not stored:
        return _new_bookie_refusal(expected.bookie_id, missing)
    if missing and not allow_expansion:
        return lacking(Fault.VERSION_MISSING, [directory.path for directory in missing], "no VERSION")
    return _expansion_refusal(missing, existing)


def _cookie_refusal(
    expected: Cookie,
    cookie: Cookie | Unreadable,
    allow_expansion: bool,
    path: str | None,
    stored_id: str | None,
) -> Refusal | None:
    if isinstance(cookie, Unreadable):
        return unreadable(cookie, path, stored_id)
    if fields := differences(expected, cookie, allow_expansion=allow_expansion):
        fault = Fault.STORE_DIFFERS if path is None else Fault.VERSION_DIFFERS
        return differing(expected, cookie, fields, fault, path, stored_id)
    if expected.instance_id != cookie.instance_id:
        fault = Fault.STORE_INSTANCE if path is None else Fault.VERSION_INSTANCE
        return differing(expected, cookie, ["instanceId"], fault, path, stored_id)
    return None


def _new_bookie_refusal(bookie_id: str, missing: Sequence[BookieDirectory]) -> Refusal | None:
    if not missing:
        reason = "its directories have a VERSION, and the store has no cookie of it"
        return Refusal(INVALID_COOKIE, Fault.NOT_IN_STORE, reason, stored_id=bookie_id)
    # Directories that have a VERSION already are not looked into, by the server neither.
    if filled := _non_empty(missing):
        what = "no VERSION and is not empty, and the store has no cookie of the bookie"
        return lacking(Fault.NOT_EMPTY, filled, what, bookie_id)
    return None


def _expansion_refusal(missing: Sequence[BookieDirectory], existing: Iterable[Cookie]) -> Refusal | None:
    # Not the journals: one that was wiped counts as added, and its bookie starts without what it kept.
    cookie_paths = {
        as_file(path) for cookie in existing for path in (*cookie.ledger_dirs, *(cookie.index_dirs or ()))
    }
    if wiped := [directory.path for directory in missing if as_file(directory.path) in cookie_paths]:
        return lacking(Fault.WIPED, wiped, "no VERSION, and the bookie's cookies name it: it was wiped")
    if filled := _non_empty(missing):
        return lacking(Fault.NOT_EMPTY, filled, "no VERSION and is not empty")
    return None


def _non_empty(directories: Iterable[BookieDirectory]) -> list[str]:
    return [
        directory.path
        for directory in directories
        if isinstance(directory.version, NoVersion) and directory.version.empty is False
    ]
