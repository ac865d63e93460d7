"""Entries after the end of a closed ledger that its writer may have seen acknowledged.

The metadata says where a ledger ends. Most entries after the end are left-overs: writes that recovery cut
off because too few bookies had them. But an entry that an ack quorum of its bookies holds may have been
acknowledged. Recovery would have found and kept this entry if it had asked these bookies (bookkeeper #4812,
#2908).

Only consecutive entries, starting directly after the end, count. A writer gets acknowledgements in order.
If fewer bookies than the ack quorum have an entry, no later entry was acknowledged. If the writer itself
closed the ledger, no entry after the end counts. The writer knew the end, and reported later entries as
failed.

In a takeover, another client recovers a ledger that its writer still has open. The next add of the writer
is refused, and the writer closes the ledger at the last acknowledged entry
(`LedgerHandle.handleUnrecoverableErrorDuringAdd`). Meanwhile, recovery reads the entries that the writer
sent, and writes them to all bookies that should have them. If the writer's close comes first, recovery
keeps that end (`ReadOnlyLedgerHandle.closeRecovered`). The entries that recovery wrote are then after the
end on every bookie. Of 108 such takeovers on bookies of 4.17, 97 ended at the last acknowledged entry. Of
these 97, 55 left entries after the end on an ack quorum. Recovery closed the other 11 at a later entry, and
none of them left any entries after the end.
"""

from collections.abc import Mapping
from dataclasses import replace

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import Groups
from auditor.model.states import BookieRead
from auditor.tables.judge_replicas import BookieState, LedgerFacts, entries_striped_to
from auditor.tables.judgement import Judgement


def move_past_end_entries(
    ledger: LedgerFacts, bookies: Mapping[str, BookieState], judgement: Judgement
) -> None:
    """Move entries after the end that may have been acknowledged from ``surplus`` to ``past_end``.

    For a bookie that no ensemble names, the function keeps only the number of entries after the end
    (``behind_end``). It does so only if no takeover (recovery by another client during writing) explains
    these entries. After re-replication, such a bookie may have the only copies of acknowledged entries. Its
    collector deletes ledgers whose ensembles do not name the bookie.

    Entries that an index does not show do not count as held. Raises `CoverageLimitError` in the same cases
    as `judge`.
    """
    if not ledger.is_closed or is_closed_by_its_writer(ledger):
        return
    first_entry = ledger.last_entry_id + 1
    if not is_changed_by_takeover(ledger):
        judgement.foreign_copies = [
            replace(foreign_copy, behind_end=_count_entries_from(foreign_copy.held_groups, first_entry))
            for foreign_copy in judgement.foreign_copies
        ]
    newest_entry = max((coverage.last_entry(groups) for _, groups in judgement.surplus), default=-1)
    if newest_entry < first_entry:
        return
    reopened_ledger = replace(ledger, is_closed=False)
    present_groups = {
        bookie: coverage.clip(
            coverage.intersection(entries_striped_to(reopened_ledger, bookie, newest_entry), groups),
            first_entry,
            newest_entry,
        )
        for bookie, groups in judgement.surplus
        if not bookies.get(bookie, BookieState(BookieRead.UNREAD)).is_foreign
    }
    if len(present_groups) < ledger.ack_quorum:
        return
    last_entry = _last_consecutive_entry(
        coverage.at_least(list(present_groups.values()), ledger.ack_quorum), first_entry
    )
    if last_entry >= first_entry:
        judgement.past_end_last, judgement.past_end_by_takeover = last_entry, is_changed_by_takeover(ledger)
    past_end_groups = {
        bookie: coverage.clip(groups, first_entry, last_entry) for bookie, groups in present_groups.items()
    }
    judgement.past_end = [(bookie, groups) for bookie, groups in past_end_groups.items() if len(groups)]
    remaining_surplus = [
        (
            bookie,
            coverage.difference(groups, past_end_groups[bookie]) if bookie in past_end_groups else groups,
        )
        for bookie, groups in judgement.surplus
    ]
    judgement.surplus = [(bookie, groups) for bookie, groups in remaining_surplus if len(groups)]


def is_closed_by_its_writer(ledger: LedgerFacts) -> bool:
    """Return whether the writer closed the ledger.

    In that case only new segments and one close changed the metadata. There is one change for each segment
    after the first, and one for the close. A recovery makes two changes, and re-replication makes more.

    >>> ledger = LedgerFacts(7, True, 3, 3, 2, 14, 1_000, [(0, ["a", "b", "c"])], metadata_changes=1)
    >>> is_closed_by_its_writer(ledger), is_closed_by_its_writer(replace(ledger, metadata_changes=2))
    (True, False)
    """
    return ledger.is_closed and ledger.metadata_changes == len(ledger.segments)


def is_changed_by_takeover(ledger: LedgerFacts) -> bool:
    """Return whether only new segments, one start of a recovery and one close changed the metadata.

    The metadata does not tell whether the writer or the recovery closed the ledger. Re-replication makes
    more changes.

    >>> ledger = LedgerFacts(7, True, 3, 3, 2, 14, 1_000, [(0, ["a", "b", "c"])], metadata_changes=2)
    >>> is_changed_by_takeover(ledger), is_changed_by_takeover(replace(ledger, metadata_changes=3))
    (True, False)
    """
    return ledger.is_closed and ledger.metadata_changes == len(ledger.segments) + 1


def _count_entries_from(groups: Groups, first_entry: int) -> int:
    last_entry = coverage.last_entry(groups)
    return coverage.count(coverage.clip(groups, first_entry, last_entry)) if last_entry >= first_entry else 0


def _last_consecutive_entry(groups: Groups, first_entry: int) -> int:
    """Return the last entry of the consecutive entries that start at ``first_entry``.

    Returns ``first_entry - 1`` if the groups do not contain ``first_entry``.
    """
    if not len(groups) or int(groups["first_start"][0]) != first_entry:
        return first_entry - 1
    return first_entry + int(groups["size"][0]) - 1
