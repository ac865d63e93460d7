"""Metadata of a ledger, and the rules that it can break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from auditor.model.bookie_id import is_accepted

NO_ENTRY = -1  # last entry of a ledger without entries, and of one that is not closed


class LedgerState(StrEnum):
    """State of a ledger. The last entry is known only if the ledger is closed."""

    OPEN = "OPEN"
    IN_RECOVERY = "IN_RECOVERY"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a ledger: the id of its first entry, and the ensemble that stores its entries."""

    first_entry_id: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """Metadata of one ledger (Java: ``LedgerMetadata``).

    The ledger id is not included. It is in the path of the metadata in the store. ``length`` is in bytes,
    and ``last_entry_id`` is inclusive. If the ledger is not CLOSED, they are 0 and -1. ``ctime`` is in ms
    since the epoch. It is None if neither the metadata nor the store contains it. ``digest_type`` is CRC32,
    MAC, CRC32C or DUMMY, or None if there is no password. The password itself is never stored here.

    >>> LedgerMetadata(3, 1, 1, 1, LedgerState.OPEN, segments=(Segment(0, ("bk1:3181",)),)).has_password
    False
    """

    format_version: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    state: LedgerState
    length: int = 0
    last_entry_id: int = NO_ENTRY
    segments: tuple[Segment, ...] = ()
    digest_type: str | None = None
    ctime: int | None = None
    ctoken: int = 0
    custom_metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    has_password: bool = False


class BrokenRule(NamedTuple):
    """A rule that a ledger's metadata breaks. ``rule`` is the id of the check that reports it.

    If ``refused`` is True, BookKeeper refuses to read the metadata. Otherwise BookKeeper reads the metadata
    and fails later.
    """

    rule: str
    reason: str
    refused: bool


def broken_rules(metadata: LedgerMetadata) -> tuple[BrokenRule, ...]:
    """Return the rules that the metadata breaks, in the order in which BookKeeper checks them.

    Each rule occurs only once in the result.

    >>> broken_rules(LedgerMetadata(3, 1, 2, 2, LedgerState.OPEN, segments=(Segment(0, ("bk1:3181",)),)))
    (BrokenRule(rule='quorum-invalid', reason='write quorum 2 is above ensemble size 1', refused=True),)
    """
    ensemble_size, segments = metadata.ensemble_size, metadata.segments
    rules = _quorum_rules(ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    if not segments:
        rules.append(BrokenRule("no-segment", "there is no segment", refused=True))
    elif (first_entry := segments[0].first_entry_id) != 0:
        rules.append(
            BrokenRule("segment-gap", f"the first segment starts at entry {first_entry}", refused=False)
        )
    rule_ids: set[str] = {rule.rule for rule in rules}
    # There may be many segments, but only a few bookies.
    members: set[str] = set().union(*(segment.ensemble for segment in segments))
    invalid_ids = {member for member in members if not is_accepted(member)}
    previous_entry: int | None = None
    for segment in segments:
        first_entry = segment.first_entry_id
        for rule in _segment_rules(ensemble_size, first_entry, segment.ensemble, previous_entry, invalid_ids):
            # Report one of a kind: a ledger can have very many segments.
            if rule.rule not in rule_ids:
                rule_ids.add(rule.rule)
                rules.append(rule)
        previous_entry = first_entry
    return tuple(rules)


def _quorum_rules(ensemble_size: int, write_quorum: int, ack_quorum: int) -> list[BrokenRule]:
    if write_quorum > ensemble_size:
        reason = f"write quorum {write_quorum} is above ensemble size {ensemble_size}"
    elif ack_quorum > write_quorum:
        reason = f"ack quorum {ack_quorum} is above write quorum {write_quorum}"
    elif ack_quorum < 1:
        return [BrokenRule("quorum-invalid", f"ack quorum {ack_quorum} is below 1", refused=False)]
    else:
        return []
    return [BrokenRule("quorum-invalid", reason, refused=True)]


def _segment_rules(
    ensemble_size: int,
    first_entry: int,
    ensemble: Sequence[str],
    previous_entry: int | None,
    invalid_ids: Set[str],
) -> list[BrokenRule]:
    rules = []
    if not invalid_ids.isdisjoint(ensemble):
        invalid_id = next(member for member in ensemble if member in invalid_ids)
        reason = f"{invalid_id[:_MAX_ID_SHOWN]!r} in the segment from entry {first_entry} is not a bookie id"
        rules.append(BrokenRule("bookie-id-invalid", reason, refused=True))
    if len(ensemble) != ensemble_size:
        reason = f"the segment from entry {first_entry} has {len(ensemble)} bookies, not {ensemble_size}"
        rules.append(BrokenRule("ensemble-size", reason, refused=True))
    if previous_entry is not None and first_entry <= previous_entry:
        reason = f"the segment from entry {first_entry} comes after the segment from entry {previous_entry}"
        rules.append(BrokenRule("segment-order", reason, refused=True))
    if len(set(ensemble)) != len(ensemble):
        repeated_id = Counter(ensemble).most_common(1)[0][0]
        reason = f"the segment from entry {first_entry} names {repeated_id[:_MAX_ID_SHOWN]} twice"
        rules.append(BrokenRule("ensemble-duplicate", reason, refused=False))
    return rules


_MAX_ID_SHOWN = 120  # largest part of a bookie id in a message, in characters
