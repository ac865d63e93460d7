"""The judgement of one ledger's unequal replicas: which entries are missing, unknown, stale or surplus.

Replicas that hold exactly the entries that they should hold are not passed to this module. The entries of
the other replicas are sets of BP-34 groups, and the judgement consists of set operations on groups. So the
time depends on the number of groups, not on the number of entries.

The metadata decides which entries are judged. In a closed ledger, all entries are judged. In other ledgers, a
writer may still be sending some entries. So the last segment is not judged. Directly before that segment, a
number of entries equal to the write quorum is not judged either.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.striping import stripe
from auditor.model.states import BookieRead, IndexState, UnknownCopy
from auditor.tables import doubts
from auditor.tables.doubts import Doubt
from auditor.tables.judgement import ForeignCopy, Judgement
from auditor.tables.read_replies import ReadReplies, judge_log_loss, merge_by_bookie

Groups = NDArray[np.void]
NO_GROUPS: Groups = np.empty(0, GROUP)
_OPEN_END = (1 << 63) - 1

_REASON_BY_STATE: Mapping[str, UnknownCopy | None] = {
    IndexState.OK: None,
    IndexState.ABSENT: None,
    IndexState.CUT: UnknownCopy.UNREADABLE,
    IndexState.UNREADABLE: UnknownCopy.UNREADABLE,
    IndexState.LIMBO: UnknownCopy.LIMBO,
    IndexState.NOT_INDEXED: UnknownCopy.NOT_INDEXED,
    IndexState.MISPLACED: UnknownCopy.MISPLACED,
    IndexState.WRONG_DIRECTORY: UnknownCopy.WRONG_DIRECTORY,
}


@dataclass(frozen=True, slots=True)
class BookieState:
    """The facts about a bookie that are needed to judge its replicas."""

    read_state: str  # a `BookieRead`
    has_misplaced_directory: bool = False  # a directory's cookie and place disagree
    index_time: int | None = None  # ms; the index is at least as new as this
    is_foreign: bool = False  # all its directories carry another cluster's instance id
    journal_read: bool = False  # the journal after its mark was read completely
    is_stopped: bool = False  # it is not registered in a store that lists registrations


@dataclass(frozen=True, slots=True)
class Pair:
    """One bookie's unequal replica: the entries that must have a copy on it, and all entries that it holds.

    ``listed_groups`` are entries that the bookie listed but its completely read index lacks.
    ``gone_groups`` are entries that the index locates in a missing entry log. These entries are not held.
    """

    bookie_id: str
    expected_groups: Groups
    held_groups: Groups
    index_state: str  # an `IndexState`
    answer_time: int | None = None  # ms; when the bookie listed its entries; None if an index is used instead
    replies: ReadReplies | None = None
    listed_groups: Groups = field(default_factory=lambda: NO_GROUPS)
    gone_groups: Groups = field(default_factory=lambda: NO_GROUPS)
    read_twice: bool = False  # index and list of logs were read twice


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """The part of a ledger's metadata that is needed to judge the ledger."""

    ledger_id: int
    is_closed: bool
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    last_entry_id: int
    mtime: int | None  # ms; None where the store keeps no times (etcd)
    segments: Sequence[tuple[int, Sequence[str]]]
    metadata_changes: int | None = None  # since its creation; None if the store does not tell

    @property
    def segment_ranges(self) -> list[tuple[int, int]]:
        """Return (first, last) entry of each segment: last < first if it is empty, 2^63 - 1 if it is open."""
        ledger_end = self.last_entry_id if self.is_closed else _OPEN_END
        segment_starts = [first for first, _ in self.segments]
        return [
            (first, min(next_start - 1, ledger_end))
            for first, next_start in zip(segment_starts, [*segment_starts[1:], _OPEN_END], strict=True)
        ]


def classify_replicas(
    ledger: LedgerFacts, pairs: Sequence[Pair], bookies: Mapping[str, BookieState], grace_ms: int
) -> Judgement:
    """Classify the entries of one ledger's unequal replicas. The class of the ledger itself is not set.

    Args:
        ledger: Facts from the metadata.
        pairs: Replicas whose expected and held entries differ. Equal ones are needed only if the ledger is
            not closed, the bookie was not read completely, and the bookie answered about this ledger.
        bookies: States of all bookies that an ensemble names.
        grace_ms: Age in ms below which an index may lack the ledger's last entries.

    Raises:
        CoverageLimitError: The sets are too irregular to be compared within the bound.
    """
    judgement = Judgement()
    members = {member for _, ensemble in ledger.segments for member in ensemble}
    pairs = _drop_other_clusters_entries(pairs, members, bookies)
    for pair in sorted(pairs, key=lambda pair: pair.bookie_id):
        state = bookies.get(pair.bookie_id, BookieState(BookieRead.UNREAD))
        if pair.bookie_id not in members:
            if pair.index_state != IndexState.NOT_INDEXED:
                judgement.foreign_copies.append(ForeignCopy(pair.bookie_id, pair.held_groups))
            continue
        _classify_replica(ledger, _drop_unserved_entries(pair), state, grace_ms, judgement)
        if pair.index_state != IndexState.NOT_INDEXED:
            _classify_excess(ledger, pair, judgement)
    if not ledger.is_closed:
        _find_lagging(
            ledger, {pair.bookie_id: _drop_unserved_entries(pair) for pair in pairs}, bookies, judgement
        )
    judgement.missing = merge_by_bookie(judgement.missing)
    return judgement


def _drop_other_clusters_entries(
    pairs: Sequence[Pair], members: Collection[str], bookies: Mapping[str, BookieState]
) -> list[Pair]:
    """Return the replicas without entries on bookies of another cluster, whose ids mean other ledgers."""
    other_cluster_bookies = {
        pair.bookie_id for pair in pairs if pair.bookie_id in bookies and bookies[pair.bookie_id].is_foreign
    }
    if not other_cluster_bookies:
        return list(pairs)
    return [
        Pair(pair.bookie_id, pair.expected_groups, NO_GROUPS, pair.index_state, read_twice=pair.read_twice)
        if pair.bookie_id in other_cluster_bookies
        else pair
        for pair in pairs
        if pair.bookie_id in members or pair.bookie_id not in other_cluster_bookies
    ]


def _drop_unserved_entries(pair: Pair) -> Pair:
    """Return the replica as the bookie serves it.

    It has no entries if the ledger is not indexed or in limbo. A bookie refuses every entry of a ledger in
    limbo. If a bookie served an entry of the ledger, the ledger is no longer in limbo.
    """
    is_in_limbo = pair.index_state == IndexState.LIMBO and not (
        pair.replies and len(pair.replies.served_groups)
    )
    serves_no_entry = is_in_limbo or pair.index_state == IndexState.NOT_INDEXED
    return replace(pair, held_groups=NO_GROUPS) if serves_no_entry else pair


def _classify_replica(
    ledger: LedgerFacts, pair: Pair, state: BookieState, grace_ms: int, judgement: Judgement
) -> None:
    """Classify each expected entry without a held copy: missing if the index proves it, else unknown."""
    absent_groups = coverage.difference(pair.expected_groups, pair.held_groups)
    if len(pair.gone_groups):
        pair, absent_groups = _classify_gone_entries(ledger, pair, absent_groups, state, judgement)
    if pair.replies is not None:
        _apply_replies(ledger, pair, pair.replies, absent_groups, state, grace_ms, judgement)
        return
    if len(pair.listed_groups) and _is_index_complete(ledger, pair, state, grace_ms):
        _add_groups(judgement.listed, pair, coverage.intersection(pair.expected_groups, pair.listed_groups))
    if not len(absent_groups):
        return
    state_reason = why_unknown(state, pair)
    if state_reason is not None:
        judgement.unknown.append((pair.bookie_id, absent_groups, state_reason))
    else:
        judgement.missing.append((pair.bookie_id, absent_groups))
        judgement.doubts |= find_lasting_doubts(ledger, pair, state) | find_open_doubts(
            ledger, pair, state, grace_ms
        )


def _classify_gone_entries(
    ledger: LedgerFacts, pair: Pair, absent_groups: Groups, state: BookieState, judgement: Judgement
) -> tuple[Pair, Groups]:
    """Classify entries in missing entry logs. Return pair and ``absent_groups`` without these entries."""
    log_groups = coverage.intersection(absent_groups, pair.gone_groups)
    was_read_twice, replies = pair.read_twice or state.is_stopped, pair.replies or ReadReplies()
    lost_copies = judge_log_loss(log_groups, was_read_twice, replies)
    judgement.doubts |= find_lasting_doubts(ledger, pair, state) if len(lost_copies.missing_groups) else set()
    _add_groups(judgement.missing, pair, lost_copies.missing_groups)
    if len(lost_copies.unknown_groups):
        judgement.unknown.append((pair.bookie_id, lost_copies.unknown_groups, UnknownCopy.ENTRY_LOG))
    other_replies = pair.replies and pair.replies.drop_entries(log_groups)
    other_groups = coverage.difference(pair.expected_groups, log_groups)
    other_absent_groups = coverage.difference(absent_groups, log_groups)
    return replace(pair, expected_groups=other_groups, replies=other_replies), other_absent_groups


def _add_groups(replica_groups: list[tuple[str, Groups]], pair: Pair, groups: Groups) -> None:
    if len(groups):
        replica_groups.append((pair.bookie_id, groups))


def _apply_replies(
    ledger: LedgerFacts,
    pair: Pair,
    replies: ReadReplies,
    absent_groups: Groups,
    state: BookieState,
    grace_ms: int,
    judgement: Judgement,
) -> None:
    """Classify the replica of a bookie that was asked for entries (`auditor.tables.rejudgement`)."""
    state_reason = why_unknown(state, pair)
    listed_groups = coverage.intersection(pair.expected_groups, pair.listed_groups)
    unindexed_groups = coverage.intersection(
        coverage.union([absent_groups, listed_groups]), replies.served_groups
    )
    undecided_groups = coverage.difference(absent_groups, replies.served_groups)
    no_copy_groups = pair.expected_groups if replies.has_no_ledger else replies.denied_groups
    missing_groups, unknown_groups = (
        NO_GROUPS,
        coverage.difference(coverage.intersection(pair.expected_groups, no_copy_groups), absent_groups),
    )
    unknown_reason = UnknownCopy.DENIED
    # If the bookie does not look at this index, only its answer counts.
    if state_reason in (None, UnknownCopy.UNREAD, UnknownCopy.MISPLACED):
        missing_groups = coverage.intersection(undecided_groups, no_copy_groups)
        undecided_groups = coverage.difference(undecided_groups, no_copy_groups)
    if len(missing_groups):
        judgement.doubts |= find_lasting_doubts(ledger, pair, state)
    open_doubts = find_open_doubts(ledger, pair, state, grace_ms)
    if len(undecided_groups) and (
        state_reason is not None or len(unindexed_groups) or (len(missing_groups) and open_doubts)
    ):
        unknown_reason = state_reason or (
            UnknownCopy.INDEX_INCOMPLETE if len(unindexed_groups) else UnknownCopy.NOT_ASKED
        )
        unknown_groups = coverage.union([unknown_groups, undecided_groups])
    elif len(undecided_groups):
        missing_groups = coverage.union([missing_groups, undecided_groups])
        judgement.doubts |= find_lasting_doubts(ledger, pair, state) | open_doubts
        if (silence_reason := replies.doubt_reason) is not None and not (
            replies.is_refused and state.journal_read
        ):
            judgement.doubts.add(doubts.reads_unanswered(pair.bookie_id, silence_reason))
    _add_groups(judgement.missing, pair, missing_groups)
    if len(unknown_groups):
        judgement.unknown.append((pair.bookie_id, unknown_groups, unknown_reason))
    if _is_index_complete(ledger, pair, state, grace_ms):
        _add_groups(judgement.unindexed, pair, unindexed_groups)
        _add_groups(
            judgement.listed,
            pair,
            coverage.difference(listed_groups, coverage.union([replies.served_groups, no_copy_groups])),
        )


def _is_index_complete(ledger: LedgerFacts, pair: Pair, state: BookieState, grace_ms: int) -> bool:
    """Return whether the index should show all entries: it is complete, and newer than the closed ledger."""
    is_unchanging_ledger = ledger.is_closed and ledger.mtime is not None and not state.has_misplaced_directory
    return (
        is_unchanging_ledger
        and why_unknown(state, pair) is None
        and not find_open_doubts(ledger, pair, state, grace_ms)
    )


def why_unknown(state: BookieState, pair: Pair) -> UnknownCopy | None:
    """Return why entries that an index does not show are unknown; None if they are missing.

    unread: the bookie was not read completely. unreadable: its index of the ledger is damaged. limbo: the
    bookie itself does not know yet what it should have (data integrity check). not-indexed: the bookie does
    not serve the ledger. misplaced, wrong-directory: the bookie does not look in the directory with the
    index. If a bookie listed its entries of this ledger, the list is complete, even if a disk was not read.

    >>> bookie, pair = BookieState(BookieRead.READ), Pair("bk1", NO_GROUPS, NO_GROUPS, IndexState.CUT)
    >>> str(why_unknown(bookie, pair)), why_unknown(bookie, replace(pair, index_state=IndexState.ABSENT))
    ('unreadable', None)
    """
    if pair.answer_time is not None and pair.index_state == IndexState.OK:
        return None
    return UnknownCopy.UNREAD if state.read_state != BookieRead.READ else _REASON_BY_STATE[pair.index_state]


def find_lasting_doubts(ledger: LedgerFacts, pair: Pair, state: BookieState) -> set[Doubt]:
    """Return the doubts (why copies may only seem missing) that no answer of the bookie can settle."""
    pair_doubts = set()
    if state.has_misplaced_directory:
        pair_doubts.add(doubts.in_misplaced_directory(pair.bookie_id))
    if not ledger.is_closed:
        pair_doubts.add(doubts.ledger_not_closed())
    return pair_doubts


def find_open_doubts(ledger: LedgerFacts, pair: Pair, state: BookieState, grace_ms: int) -> set[Doubt]:
    """Return the doubts (why entries may only seem missing) that the bookie's answer can settle, if any.

    A listing proves that its entries exist. It may leave out a page that is only in memory (4.17.2).
    """
    if pair.answer_time is not None:
        return {doubts.only_in_listing(pair.bookie_id)}
    if state.index_time is None:
        return {doubts.index_without_time(pair.bookie_id)}
    if ledger.mtime is not None and ledger.mtime > state.index_time - grace_ms:
        return {doubts.index_too_old(pair.bookie_id)}
    return set()


def _classify_excess(ledger: LedgerFacts, pair: Pair, judgement: Judgement) -> None:
    """Classify held entries outside the stripe as stale if their segment lacks the bookie, else surplus."""
    if not len(pair.held_groups):
        return
    striped_groups = (
        pair.expected_groups
        if ledger.is_closed
        else entries_striped_to(ledger, pair.bookie_id, coverage.last_entry(pair.held_groups))
    )
    excess_groups = coverage.difference(pair.held_groups, striped_groups)
    if not len(excess_groups):
        return
    foreign_segments = [
        coverage.clip(excess_groups, first, last)
        for (first, last), (_, ensemble) in zip(ledger.segment_ranges, ledger.segments, strict=True)
        if last >= first and pair.bookie_id not in ensemble
    ]
    stale_groups = coverage.union(foreign_segments) if foreign_segments else NO_GROUPS
    _add_groups(judgement.stale, pair, stale_groups)
    _add_groups(judgement.surplus, pair, coverage.difference(excess_groups, stale_groups))


def entries_striped_to(
    ledger: LedgerFacts, bookie_id: str, max_entry_id: int, last_segment_only: bool = False
) -> Groups:
    """Return the entries striped to a bookie up to ``max_entry_id``, in all segments or only in the last."""
    rows = [
        (first, min(last, max_entry_id), ensemble.index(bookie_id))
        for (first, last), (_, ensemble) in zip(ledger.segment_ranges, ledger.segments, strict=True)
        if bookie_id in ensemble
    ]
    if last_segment_only:
        rows = [row for row in rows if row[0] == ledger.segments[-1][0]]
    if not rows:
        return NO_GROUPS
    first, last, index = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    sizes, quorums = np.full_like(first, ledger.ensemble_size), np.full_like(first, ledger.write_quorum)
    striped_entries = stripe(first, last, index, sizes, quorums)
    merged_groups = fold(striped_entries.merge(np.zeros(len(rows), np.int64), 1))
    return groups_of(merged_groups.tobytes())


def _find_lagging(
    ledger: LedgerFacts, pairs: Mapping[str, Pair], bookies: Mapping[str, BookieState], judgement: Judgement
) -> None:
    """Find entries of the open last segment that an ack quorum has but a completely read member lacks."""
    last_segment_start, ensemble = ledger.segments[-1]
    held_groups = {member: pairs[member].held_groups if member in pairs else NO_GROUPS for member in ensemble}
    newest_entry = max((coverage.last_entry(groups) for groups in held_groups.values()), default=-1)
    if newest_entry < last_segment_start:
        return
    expected_groups = {
        member: entries_striped_to(ledger, member, newest_entry, last_segment_only=True)
        for member in ensemble
    }
    present_groups = [
        coverage.intersection(expected_groups[member], held_groups[member]) for member in ensemble
    ]
    acknowledged_groups = coverage.at_least(present_groups, ledger.ack_quorum)
    for member in sorted(ensemble):
        state = bookies.get(member, BookieState(BookieRead.UNREAD))
        # A member without a pair gave no answer. If it was read, the entries that it lacks are known.
        if (
            why_unknown(state, pairs.get(member, Pair(member, NO_GROUPS, NO_GROUPS, IndexState.ABSENT)))
            is None
        ):
            lagging_groups = coverage.difference(
                coverage.intersection(expected_groups[member], acknowledged_groups), held_groups[member]
            )
            if len(lagging_groups):
                judgement.lagging.append((member, lagging_groups))


def groups_of(packed_groups: bytes | memoryview | None) -> Groups:
    """Return the BP-34 groups in a value of a binary column. None and b"" both represent the empty set.

    >>> from auditor.codecs.availability.groups import GroupBatch
    >>> groups_of(GroupBatch.from_tuples([[(1, 4, 2, 3)]]).tobytes()).tolist(), groups_of(None).tolist()
    ([(1, 4, 2, 3)], [])
    """
    return np.frombuffer(packed_groups, GROUP) if packed_groups else NO_GROUPS
