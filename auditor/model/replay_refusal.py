"""Refused starts of bookies that cannot replay their journals from their last marks on.

The server first checks cookies (`auditor.model.start_refusal`). Then ``BookieImpl.readJournal`` replays
each journal from its mark. Releases 4.14 to 4.18 all fail at the same records. Only some of these releases
have a setting to skip an invalid record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from auditor.model.start_refusal import IO_EXCEPTION, Fault, Refusal
from auditor.model.states import ReplayError

SKIP_SETTING = "skipReplayJournalInvalidRecord"
SKIP_RELEASES = "from 4.14.8, 4.15.5, 4.16.3 and 4.17.0 on"
"""Releases that have the setting which skips an invalid record (bookkeeper PR 3956)."""

_EXCEPTIONS = {
    ReplayError.INVALID_RECORD: IO_EXCEPTION,
    ReplayError.SHORT_RECORD: "java.nio.BufferUnderflowException",
    ReplayError.INVALID_PADDING: "java.lang.IllegalArgumentException",
    ReplayError.INVALID_VERSION: IO_EXCEPTION,
    ReplayError.INVALID_NAME: "java.lang.NumberFormatException",
}


class FailedReplay(NamedTuple):
    """A journal file or a directory at which the replay fails.

    ``offset`` is the position of the byte at which the replay fails. It is None if there is no single byte.
    """

    path: str
    offset: int | None
    reason: str
    error: ReplayError


def missing_journals_refusal(files: Sequence[tuple[str, str]], certain: bool) -> Refusal:
    """Return a bookie's refusal to start without the journal ``files``, given as (directory, name) pairs.

    >>> print(missing_journals_refusal([("/j", "1a.txn")], True).reason)
    /j lacks 1a.txn, from which the bookie would replay its journal
    """
    reason = "; ".join(f"{path} lacks {name}" for path, name in files)
    reason = f"{reason}, from which the bookie would replay its journal"
    return Refusal(
        IO_EXCEPTION, Fault.JOURNAL_GONE, reason, tuple(path for path, _ in files), certain=certain
    )


def failed_replay_refusal(failures: Sequence[FailedReplay], certain: bool) -> Refusal:
    """Return a bookie's refusal to start after failed replays, with the exception of the first failure.

    >>> damaged = FailedReplay("/j/1a.txn", 512, "a record of -9 bytes", ReplayError.INVALID_RECORD)
    >>> print(failed_replay_refusal([damaged], certain=True).reason)
    /j/1a.txn: a record of -9 bytes at byte 512; the replay of the journal ends there
    """
    failures_text = "; ".join(
        f"{failure.path}: {failure.reason}" + ("" if failure.offset is None else f" at byte {failure.offset}")
        for failure in failures
    )
    is_skippable = all(failure.error is ReplayError.INVALID_RECORD for failure in failures)
    way_out = (
        f"with {SKIP_SETTING}=true ({SKIP_RELEASES}) the bookie starts without the records "
        "from the fault to the end of the file. First check other bookies' copies of these "
        "entries"
    )
    return Refusal(
        _EXCEPTIONS[failures[0].error],
        Fault.JOURNAL_INVALID_RECORD if is_skippable else Fault.JOURNAL_UNREADABLE,
        f"{failures_text}; the replay of the journal ends there",
        tuple(failure.path for failure in failures),
        certain=certain,
        way_out=way_out if is_skippable else None,
    )
