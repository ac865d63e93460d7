"""Bookies' replies to single reads of a ledger's entries, and what they mean for entries in missing logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import GROUP, Groups
from auditor.codecs.bookie.wire import Status, status_text
from auditor.model.states import WitnessAnswer

NO_GROUPS: Groups = np.empty(0, GROUP)
READ_ERROR_TEXT = status_text(Status.EIO)
"""End of the reason in the table ``witness`` if a bookie could not read an entry from its disk."""


@dataclass(frozen=True, slots=True)
class ReadReplies:
    """The replies of one bookie to reads of entries of one ledger.

    ``served_groups`` are entries that the bookie returned. ``denied_groups`` are entries that it does not
    have. If ``has_no_ledger`` is True, it has no entry of the ledger. ``failed_groups`` are entries that it
    could not read from its disk, because of the error ``read_error``. ``no_reply_reason`` says why some reads
    got no reply. It is None if all reads got a reply. ``is_refused`` is True if that reason is only that the
    bookie accepts no reads from this client.
    """

    served_groups: Groups = field(default_factory=lambda: NO_GROUPS)
    denied_groups: Groups = field(default_factory=lambda: NO_GROUPS)
    has_no_ledger: bool = False
    no_reply_reason: str | None = None
    is_refused: bool = False
    failed_groups: Groups = field(default_factory=lambda: NO_GROUPS)
    read_error: str | None = None

    @property
    def doubt_reason(self) -> str | None:
        """Return why some read got no reply or only a disk error, or None if there is no such read."""
        return self.no_reply_reason or (self.read_error if len(self.failed_groups) else None)

    def drop_entries(self, entries: Groups) -> ReadReplies:
        """Return a copy without the replies about ``entries``."""
        reply_groups = (self.served_groups, self.denied_groups, self.failed_groups)
        served_groups, denied_groups, failed_groups = (
            coverage.difference(groups, entries) for groups in reply_groups
        )
        return replace(
            self, served_groups=served_groups, denied_groups=denied_groups, failed_groups=failed_groups
        )


def replies_by_bookie(answers: Iterable[Mapping[str, Any]]) -> dict[str, ReadReplies]:
    """Return the replies of each bookie, from rows of the table ``witness`` about the same ledger."""
    rows_by_bookie: dict[str, list[Mapping[str, Any]]] = {}
    for row in answers:
        rows_by_bookie.setdefault(row["bookie_id"], []).append(row)
    return {bookie: _merge_replies(rows) for bookie, rows in rows_by_bookie.items()}


def _merge_replies(rows: Sequence[Mapping[str, Any]]) -> ReadReplies:
    def select_answers(*answers: WitnessAnswer) -> list[Mapping[str, Any]]:
        return [row for row in rows if row["answer"] in answers]

    unknown_rows, refusal_rows = select_answers(WitnessAnswer.UNKNOWN), select_answers(WitnessAnswer.REFUSED)
    read_error_rows = [row for row in unknown_rows if (row["reason"] or "").endswith(READ_ERROR_TEXT)]
    no_reply_rows = [row for row in unknown_rows if row not in read_error_rows] or refusal_rows
    # The first reason in sorted order, so that the order of the answers does not matter.
    return ReadReplies(
        served_groups=entry_groups_of(select_answers(WitnessAnswer.SERVED)),
        denied_groups=entry_groups_of(
            select_answers(WitnessAnswer.NO_SUCH_ENTRY, WitnessAnswer.NO_SUCH_LEDGER)
        ),
        has_no_ledger=bool(select_answers(WitnessAnswer.NO_SUCH_LEDGER)),
        no_reply_reason=min((row["reason"] for row in no_reply_rows), default=None),
        is_refused=bool(refusal_rows) and not unknown_rows,
        failed_groups=entry_groups_of(read_error_rows),
        read_error=min((row["reason"] for row in read_error_rows), default=None),
    )


def entry_groups_of(rows: Iterable[Mapping[str, Any]]) -> Groups:
    """Return the entries in rows of the table ``witness``, as groups."""
    entry_ids = np.array(sorted({row["entry_id"] for row in rows}), np.int64)
    return np.frombuffer(fold_entries(entry_ids, np.array([0, len(entry_ids)], np.int64)).tobytes(), GROUP)


class LostLogCopies(NamedTuple):
    """Copies of entries in missing entry logs, divided into missing and unknown copies."""

    missing_groups: Groups
    unknown_groups: Groups


def judge_log_loss(lost_log_groups: Groups, is_log_loss_certain: bool, replies: ReadReplies) -> LostLogCopies:
    """Decide for which entries in missing entry logs the bookie has no copy.

    Args:
        lost_log_groups: The entries that an index locates in missing logs. No other log is known to contain
            them.
        is_log_loss_certain: Whether two readings of index and logs agree, or the bookie was stopped.
        replies: The bookie's replies to reads.

    Returns:
        The missing copies and the unknown copies. Served entries are in neither group. If the bookie served
        any of the entries, the list of its logs was incomplete. Each remaining entry is then missing if the
        bookie denied it or could not read it, else unknown. If the bookie served none of the entries, all are
        missing in two cases: ``is_log_loss_certain`` is True, or the bookie denied or could not read an
        entry. Otherwise all are unknown.
    """
    groups_without_reply = coverage.difference(lost_log_groups, replies.served_groups)
    refuted_groups = (
        lost_log_groups
        if replies.has_no_ledger
        else coverage.union([replies.denied_groups, replies.failed_groups])
    )
    refuted_lost_groups = coverage.intersection(groups_without_reply, refuted_groups)
    if len(coverage.intersection(lost_log_groups, replies.served_groups)):
        return LostLogCopies(
            refuted_lost_groups, coverage.difference(groups_without_reply, refuted_lost_groups)
        )
    empty_groups = groups_without_reply[:0]
    return (
        LostLogCopies(groups_without_reply, empty_groups)
        if is_log_loss_certain or len(refuted_lost_groups)
        else LostLogCopies(empty_groups, groups_without_reply)
    )


def merge_by_bookie(groups_of_bookies: Sequence[tuple[str, Groups]]) -> list[tuple[str, Groups]]:
    """Return one set of entries per bookie. Bookies keep the order in which they first occur."""
    groups_by_bookie: dict[str, Groups] = {}
    for bookie_id, groups in groups_of_bookies:
        groups_by_bookie[bookie_id] = (
            coverage.union([groups_by_bookie[bookie_id], groups]) if bookie_id in groups_by_bookie else groups
        )
    return list(groups_by_bookie.items())
