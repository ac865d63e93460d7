"""What cookies do to the start of a bookie that heals itself (Java: ``DataIntegrityCookieValidation``).

That is the validation of a server with ``dataIntegrityChecking``. It is stricter than
`auditor.model.cookie_validation` in what it compares: cookies must be equal, their layouts and absent index
directories too. And it is milder in what follows: with ``dataIntegrityStampMissingCookies`` the bookie checks
its data against the ledgers' metadata, fetches what is missing, and writes new cookies.

It asks the store under the bookie's current id only: for a bookie whose id was changed the cookie is missing
there, and that is never healed.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model.cookie import Cookie
from auditor.model.start_refusal import (
    INVALID_COOKIE,
    BookieDirectory,
    Fault,
    NoVersion,
    Refusal,
    Unreadable,
    certain,
    differing,
    lacking,
    old_data,
    unreadable,
)


def data_integrity_refusal(
    expected: Cookie,
    stored: Cookie | Unreadable | None,
    directories: Sequence[BookieDirectory],
    *,
    stamp_missing: bool = False,
) -> Refusal | None:
    """What ``DataIntegrityCookieValidation`` would refuse the bookie's start for; None if it would start.

    ``stored`` is the store's cookie under the id of ``expected``; all else as for
    `auditor.model.cookie_validation.legacy_refusal`. With ``stamp_missing`` the check of the bookie's data
    is taken to end well; if it does not, the bookie is refused after all.

    >>> old, new = (Cookie(layout, "bk1", "/j", ("/l",), None, "x") for layout in (4, 5))
    >>> there = [BookieDirectory("/j", "journal", old), BookieDirectory("/l", "ledger", old)]
    >>> data_integrity_refusal(new, old, there).reason
    "the store's cookie of bk1 says layout 4, expected 5"
    """

    def decide(looked_at: Sequence[BookieDirectory]) -> Refusal | None:
        return _decide(expected, stored, looked_at, stamp_missing)

    return certain(expected, directories, decide)


def _decide(
    expected: Cookie,
    stored: Cookie | Unreadable | None,
    directories: Sequence[BookieDirectory],
    stamp_missing: bool,
) -> Refusal | None:
    if old := old_data(directories):
        return old
    if expected.instance_id is None:
        return Refusal(INVALID_COOKIE, Fault.NO_INSTANCE_ID, "the cluster has no INSTANCEID")
    if isinstance(stored, Unreadable) and not stored.too_old:
        return unreadable(stored, None, expected.bookie_id)
    for directory in directories:
        if isinstance(directory.version, Unreadable) and not directory.version.too_old:
            return unreadable(directory.version, directory.path, None)
    if stored is None:
        stamped = [each.path for each in directories if isinstance(each.version, Cookie | Unreadable)]
        what = "a VERSION, and the store has no cookie of the bookie"
        return lacking(Fault.NOT_IN_STORE, stamped, what, expected.bookie_id) if stamped else None
    return None if stamp_missing else _difference(expected, stored, directories)


def _difference(
    expected: Cookie, stored: Cookie | Unreadable, directories: Sequence[BookieDirectory]
) -> Refusal | None:
    if refusal := _unequal(expected, stored, None, expected.bookie_id):
        return refusal
    for directory in directories:
        version = directory.version
        if isinstance(version, NoVersion):
            return lacking(Fault.VERSION_MISSING, [directory.path], "no VERSION")
        if version is not None and (refusal := _unequal(expected, version, directory.path, None)):
            return refusal
    return None


def _unequal(
    expected: Cookie, cookie: Cookie | Unreadable, path: str | None, stored_id: str | None
) -> Refusal | None:
    if isinstance(cookie, Unreadable):
        return unreadable(cookie, path, stored_id)
    fields = {
        "layout": cookie.layout == expected.layout,
        "bookieHost": cookie.bookie_id == expected.bookie_id,
        "journalDir": cookie.journal_dirs == expected.journal_dirs,
        "ledgerDirs": cookie.ledger_dirs == expected.ledger_dirs,
        "indexDirs": cookie.index_dirs == expected.index_dirs,
        "instanceId": cookie.instance_id == expected.instance_id,
    }
    if all(fields.values()):
        return None
    fault = Fault.STORE_DIFFERS if path is None else Fault.VERSION_DIFFERS
    unequal = [field for field, equal in fields.items() if not equal]
    return differing(expected, cookie, unequal, fault, path, stored_id)
