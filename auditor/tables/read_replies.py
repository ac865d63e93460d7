"""Bookies' replies to single reads of a ledger's entries, and their effect on entries in missing logs."""

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
"""Reply of a bookie that cannot read an entry from its disk."""


@dataclass(frozen=True, slots=True)
class ReadReplies:
    """The replies of one bookie.

    ``served`` are entries that it returned. ``denied`` are entries that it does not have; with ``no_ledger``
    it has none of the ledger. ``failed`` are entries that it could not read from its disk, and ``failure`` is
    the error. ``silent`` is why some reads have no reply at all; None if all have one. ``refused`` is whether
    the only reason for ``silent`` is that the bookie accepts no reads from this client.
    """

    served: Groups = field(default_factory=lambda: NO_GROUPS)
    denied: Groups = field(default_factory=lambda: NO_GROUPS)
    no_ledger: bool = False
    silent: str | None = None
    refused: bool = False
    failed: Groups = field(default_factory=lambda: NO_GROUPS)
    failure: str | None = None

    @property
    def unheard(self) -> str | None:
        """Return why some read has no reply, or only a disk error; None if there is no such read."""
        return self.silent or (self.failure if len(self.failed) else None)

    def without(self, entries: Groups) -> ReadReplies:
        """Return the replies, without replies about ``entries``."""
        reply_groups = (self.served, self.denied, self.failed)
        served, denied, failed = (coverage.difference(reply_part, entries) for reply_part in reply_groups)
        return replace(self, served=served, denied=denied, failed=failed)


def replies_by_bookie(answers: Iterable[Mapping[str, Any]]) -> dict[str, ReadReplies]:
    """Return the replies of each bookie, from rows of the table ``witness`` for one ledger."""
    by_bookie: dict[str, list[Mapping[str, Any]]] = {}
    for row in answers:
        by_bookie.setdefault(row["bookie_id"], []).append(row)
    return {bookie: _replies_of(rows) for bookie, rows in by_bookie.items()}


def _replies_of(rows: Sequence[Mapping[str, Any]]) -> ReadReplies:
    def answer_rows(*answers: WitnessAnswer) -> list[Mapping[str, Any]]:
        return [row for row in rows if row["answer"] in answers]

    unknown, refused = answer_rows(WitnessAnswer.UNKNOWN), answer_rows(WitnessAnswer.REFUSED)
    failed = [row for row in unknown if (row["reason"] or "").endswith(READ_ERROR_TEXT)]
    unheard = [row for row in unknown if row not in failed] or refused
    # The least of the reasons, so that the same answers in another order give the same row.
    return ReadReplies(
        served=entries_of(answer_rows(WitnessAnswer.SERVED)),
        denied=entries_of(answer_rows(WitnessAnswer.NO_SUCH_ENTRY, WitnessAnswer.NO_SUCH_LEDGER)),
        no_ledger=bool(answer_rows(WitnessAnswer.NO_SUCH_LEDGER)),
        silent=min((row["reason"] for row in unheard), default=None),
        refused=bool(refused) and not unknown,
        failed=entries_of(failed),
        failure=min((row["reason"] for row in failed), default=None),
    )


def entries_of(rows: Iterable[Mapping[str, Any]]) -> Groups:
    """Return the entries in rows of the table ``witness``, as groups."""
    ids = np.array(sorted({row["entry_id"] for row in rows}), np.int64)
    return np.frombuffer(fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes(), GROUP)


class GoneCopies(NamedTuple):
    """Entries in missing entry logs: disjoint groups of ``missing`` and of ``unknown`` entries."""

    missing: Groups
    unknown: Groups


def weigh_gone(gone_groups: Groups, is_certain: bool, replies: ReadReplies) -> GoneCopies:
    """Decide whether entries that an index locates in missing entry logs are missing copies.

    Args:
        gone_groups: The entries. No other log is known to have them.
        is_certain: Whether index and list of logs agree in two readings, or the bookie was stopped.
        replies: The bookie's replies to reads.

    Returns:
        Entries that the bookie served are neither missing nor unknown. If it served any, the list of its logs
        was incomplete, and of the other entries only denied and unreadable ones are missing. If it served
        none, all are missing if ``is_certain``, or if it denied or could not read one.
    """
    unserved_groups = coverage.difference(gone_groups, replies.served)
    denied = gone_groups if replies.no_ledger else coverage.union([replies.denied, replies.failed])
    refused = coverage.intersection(unserved_groups, denied)
    if len(coverage.intersection(gone_groups, replies.served)):
        return GoneCopies(refused, coverage.difference(unserved_groups, refused))
    no_groups = unserved_groups[:0]
    return (
        GoneCopies(unserved_groups, no_groups)
        if is_certain or len(refused)
        else GoneCopies(no_groups, unserved_groups)
    )


def unite_by_bookie(groups_of_bookies: Sequence[tuple[str, Groups]]) -> list[tuple[str, Groups]]:
    """Return the entries of each bookie in one set. Bookies keep the order of their first entries."""
    groups_by_bookie: dict[str, Groups] = {}
    for bookie_id, groups in groups_of_bookies:
        groups_by_bookie[bookie_id] = (
            coverage.union([groups_by_bookie[bookie_id], groups]) if bookie_id in groups_by_bookie else groups
        )
    return list(groups_by_bookie.items())
