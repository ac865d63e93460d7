"""Refused starts of bookies whose index directories are separate from their ledger directories.

The behaviour depends on the release:

    4.14, 4.15      A bookie writes VERSION to the index directories, but its cookie does not contain them.
                    DbLedgerStorage ignores these directories.
    4.16 to 4.18    The cookie contains the index directories (layout 5). DbLedgerStorage keeps its index
                    there.

The server compares cookies before it opens the storage (`auditor.model.start_refusal`).
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model.cookie import Cookie
from auditor.model.start_refusal import INVALID_COOKIE, IO_EXCEPTION, Fault, Refusal

FIRST_INDEX_LAYOUT = 5
"""First layout of cookies that name index directories, which 4.16.0 introduced (``Cookie``)."""


def unnamed_index_refusal(paths: Sequence[str], in_rocksdb: bool) -> Refusal:
    """Return a bookie's refusal to start with index directories that are not in its cookies.

    The cookies have a layout before 5, which contains no index directories. Releases before 4.16 write
    VERSION to index directories, but compare only the journal and ledger directories with the cookie. From
    4.16 on, the configured index directories must equal those in the cookie. If a cookie has no index
    directories, the server compares its ledger directories with the configured index directories. The
    superset check of allowStorageExpansion fails too (bookkeeper #2421). It is not known which release will
    start, so the refusal is not certain.

    Args:
        paths: the index directories.
        in_rocksdb: whether the bookie uses DbLedgerStorage. Only the advice depends on it.

    >>> unnamed_index_refusal(["/i"], True).certain
    False
    """
    way_out = (
        "without the setting indexDirectories, the bookie starts: DbLedgerStorage before 4.16 keeps "
        "no index in these directories"
        if in_rocksdb
        else (
            "write the bookie's index directories as indexDirs, with layout 5, into all its VERSION "
            "files and into the store's cookie. Keep the setting indexDirectories, because the index is "
            "in these directories"
        )
    )
    reason = (
        f"{', '.join(paths)}: the bookie's cookies do not contain these index directories. BookKeeper "
        "before 4.16 writes such cookies, and from 4.16 on the bookie refuses to start"
    )
    return Refusal(
        INVALID_COOKIE, Fault.INDEX_NOT_IN_COOKIE, reason, tuple(paths), certain=False, way_out=way_out
    )


def index_count_refusal(expected_cookie: Cookie, in_rocksdb: bool) -> Refusal | None:
    """Return the refusal to start of a bookie with unequal numbers of index and ledger directories.

    Returns None if the numbers are equal, if no index directories are configured, or if the bookie does not
    use DbLedgerStorage. The server has checked the numbers since 4.16.0 (``DbLedgerStorage.initialize``).

    >>> cookie = Cookie(5, "bk1", "/j", ("/l0", "/l1"), ("/i0",))
    >>> print(index_count_refusal(cookie, True).reason)
    ledger directories: 2, index directories: 1; DbLedgerStorage needs equal numbers
    """
    if (
        not in_rocksdb
        or expected_cookie.index_dirs is None
        or len(expected_cookie.index_dirs) == len(expected_cookie.ledger_dirs)
    ):
        return None
    reason = (
        f"ledger directories: {len(expected_cookie.ledger_dirs)}, index directories: "
        f"{len(expected_cookie.index_dirs)}; DbLedgerStorage needs equal numbers"
    )
    return Refusal(IO_EXCEPTION, Fault.INDEX_COUNT, reason, expected_cookie.index_dirs)
