"""A bookie's start, as its cookies let it or not: what is looked at, and why it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
    JOURNAL_GONE = "journal-gone"  # a journal lacks the file from which it would be replayed


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
    ``certain``, something else may explain what was seen.
    """

    error: str
    fault: Fault
    reason: str
    paths: tuple[str, ...] = ()
    stored_id: str | None = None
    certain: bool = True


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
        decide([each if each.version is not None else replace(each, version=guess) for each in directories])
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


def unreplayable(files: Sequence[tuple[str, str]], certain: bool) -> Refusal:
    """The refusal to replay journals, (directory, name), from files that are not there.

    >>> print(unreplayable([("/j", "1a.txn")], True).reason)
    /j lacks 1a.txn, from which the bookie would replay its journal
    """
    reason = "; ".join(f"{path} lacks {name}" for path, name in files)
    reason = f"{reason}, from which the bookie would replay its journal"
    return Refusal(
        IO_EXCEPTION, Fault.JOURNAL_GONE, reason, tuple(path for path, _ in files), certain=certain
    )


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
    its, mine = _cookie_fields(cookie), _cookie_fields(expected)
    said = "; ".join(f"{field} {its[field]}, expected {mine[field]}" for field in fields)
    reason = f"{_whose(path, stored_id)} says {said}"
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
