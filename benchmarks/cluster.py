"""A generated cluster of any size, with planted faults whose findings are known.

Every ledger has one of a few shapes (`SHAPES`), and its id determines the first bookie of its ensemble. The
cluster is therefore described by `groups_of_ledgers`: the ids for each shape and first bookie. To write the
cluster in any form of bytes, a few templates are filled with the ids. The entries of each ensemble member
are computed one by one, not with the closed formula that the audit uses.

A quarter of the ledgers changed their ensemble once. One ledger in a thousand lacks one copy of an entry.
One ledger in ten thousand lacks both copies. For each thousand ledgers there is one orphan index on a
bookie.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from benchmarks.ledger_records import encode_binary
from benchmarks.snapshot_file import TIME_MS

Longs = NDArray[np.int64]

INSTANCE_ID = "11111111-2222-4333-8444-555555555555"
ENSEMBLE, WRITE_QUORUM = 3, 2
ENTRIES = int(os.environ.get("BKAUDIT_ENTRIES", "50"))
"""Number of entries in each ledger. Pulsar writes 50,000 entries into a ledger by default."""
NOW_MS = TIME_MS
INDEX_TIME_MS = NOW_MS + 3_600_000
"""Time at which the indexes were written, in ms since 1970.

It is an hour after the last ledger was closed, so that the audit confirms every finding.
"""

DIRECTORIES = 1 << 16
"""Number of directories for index files in each index directory (`auditor.keys.index_path`)."""

_LOST_ENTRY = 7  # its copies are on seats 1 and 2
_ENSEMBLE_CHANGE_ENTRY = 20


class LedgerShape(NamedTuple):
    """A kind of ledger: its segments and its lost entries.

    A segment has a first entry and an ensemble. A seat is the distance of an ensemble member from the
    ledger's first bookie. ``lost_copies`` has (seat, entry) for each copy that its bookie lacks.
    """

    segments: tuple[tuple[int, tuple[int, ...]], ...]
    lost_copies: tuple[tuple[int, int], ...] = ()

    @property
    def bookie_offsets(self) -> tuple[int, ...]:
        """Return the seats of all ensemble members of all segments, ascending.

        A seat is the distance of a member from the ledger's first bookie.
        """
        return tuple(sorted({bookie_offset for _, ensemble in self.segments for bookie_offset in ensemble}))

    def entries_at_offset(self, bookie_offset: int) -> list[int]:
        """Return the entries of the member on a seat, computed entry by entry.

        A seat is the distance of an ensemble member from the ledger's first bookie.
        """
        entries = []
        for entry in range(ENTRIES):
            ensemble = [
                bookie_offsets for first_entry, bookie_offsets in self.segments if first_entry <= entry
            ][-1]
            offsets_with_entry = {
                ensemble[(entry + copy_number) % ENSEMBLE] for copy_number in range(WRITE_QUORUM)
            }
            if bookie_offset in offsets_with_entry and (bookie_offset, entry) not in self.lost_copies:
                entries.append(entry)
        return entries


_SINGLE_SEGMENT = ((0, (0, 1, 2)),)
PLAIN_SHAPE = LedgerShape(_SINGLE_SEGMENT)
CHANGED_SHAPE = LedgerShape((*_SINGLE_SEGMENT, (_ENSEMBLE_CHANGE_ENTRY, (0, 1, 3))))
ONE_MISSING_SHAPE = LedgerShape(_SINGLE_SEGMENT, ((1, _LOST_ENTRY),))
BOTH_MISSING_SHAPE = LedgerShape(_SINGLE_SEGMENT, ((1, _LOST_ENTRY), (2, _LOST_ENTRY)))
SHAPES = (PLAIN_SHAPE, CHANGED_SHAPE, ONE_MISSING_SHAPE, BOTH_MISSING_SHAPE)


class LedgerGroup(NamedTuple):
    """Ledgers of one shape whose ensembles begin at the same bookie.

    ``members`` maps seats (distances from the ledger's first bookie) to bookie numbers.
    """

    shape: LedgerShape
    members: dict[int, int]
    ids: Longs


@dataclass(frozen=True)
class Cluster:
    """A cluster of ``ledgers`` ledgers on ``bookies`` bookies.

    ``busy_bookie_percent`` is the percentage of ledgers whose first bookie is bookie 0. The other members
    of their ensembles are the remaining bookies in turn.

    ``full_cluster_size`` is the number of ledgers of a larger cluster that this cluster is a part of. The
    part consists of the ledgers whose index files are in the first directories. These directories are as
    full as in the larger cluster. The lowest 16 bits of a ledger id determine its directory.

    >>> Cluster(2_000, full_cluster_size=1_000_000).ledger_ids(np.array([0, 130, 131, 1_999])).tolist()
    [0, 130, 65536, 983074]
    >>> cluster = Cluster(20_000, 10)
    >>> len(cluster.findings()), sum(len(group.ids) for group in cluster.groups_of_ledgers())
    (40, 20000)
    """

    ledgers: int
    bookies: int = 5
    busy_bookie_percent: int = 0
    full_cluster_size: int = 0
    ids: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = tuple(
            f"10.0.{bookie_number // 250}.{bookie_number % 250 + 1}:3181"
            for bookie_number in range(self.bookies)
        )
        object.__setattr__(self, "ids", names)

    @property
    def end_id(self) -> int:
        """An id above the ids of all ledgers."""
        return max(self.ledgers, self.full_cluster_size)

    def ledger_ids(self, numbers: Longs) -> Longs:
        """Return the ids of ledgers by their numbers (0 to ``ledgers`` - 1).

        A higher number has a higher id.
        """
        if self.full_cluster_size <= self.ledgers:
            return numbers
        directory_count = DIRECTORIES * self.ledgers // self.full_cluster_size
        return numbers // directory_count * DIRECTORIES + numbers % directory_count

    def groups_of_ledgers(self) -> Iterator[LedgerGroup]:
        """Yield all ledgers, grouped by shape and first bookie."""
        ledger_numbers = np.arange(self.ledgers)
        # The later assignments replace the earlier ones, so a ledger lacks either one copy or both.
        shape_numbers = np.where(ledger_numbers % 4 == 1, 1, 0)
        shape_numbers[ledger_numbers % 1_000 == 999] = 2
        shape_numbers[ledger_numbers % 10_000 == 9_999] = 3
        # 37 and 100 have no common factor, so the hot ledgers are spread evenly.
        is_on_busy_bookie = ledger_numbers // 8 * 37 % 100 < self.busy_bookie_percent
        first_bookies = ledger_numbers // 8 % self.bookies
        sort_keys = (first_bookies * 2 + is_on_busy_bookie) * len(SHAPES) + shape_numbers
        sorted_ledgers = np.argsort(sort_keys, kind="stable")
        first_index_by_group = np.flatnonzero(np.diff(sort_keys[sorted_ledgers], prepend=-1))
        for group_ledgers in (
            np.split(sorted_ledgers, first_index_by_group[1:]) if len(sorted_ledgers) else ()
        ):
            ledger_shape = SHAPES[int(shape_numbers[group_ledgers[0]])]
            members = self._members(
                ledger_shape, int(first_bookies[group_ledgers[0]]), bool(is_on_busy_bookie[group_ledgers[0]])
            )
            yield LedgerGroup(ledger_shape, members, self.ledger_ids(group_ledgers))

    def _members(self, shape: LedgerShape, first_bookie: int, is_on_busy_bookie: bool) -> dict[int, int]:
        if not is_on_busy_bookie:
            return {
                bookie_offset: (first_bookie + bookie_offset) % self.bookies
                for bookie_offset in shape.bookie_offsets
            }
        other_bookie_count = self.bookies - 1
        return {
            seat: 1 + (first_bookie + seat) % other_bookie_count if seat else 0
            for seat in shape.bookie_offsets
        }

    def orphan_ledgers(self, bookie: int) -> Longs:
        """Return the ids of deleted ledgers that a bookie still has.

        Of these ledgers, the bookie has the entries that the first member has in a ledger of `PLAIN_SHAPE`.
        """
        return self.end_id + 10_000 * np.arange(bookie, self.ledgers // 1_000, self.bookies)

    def findings(self, asked_bookies: int = 0) -> set[tuple[str, int, str | None]]:
        """Return all findings that a correct audit reports: (check id, ledger id, bookie id or None).

        The audit requests listings from the first ``asked_bookies`` bookies, but only for ledgers in the
        metadata. It therefore reports no orphans on these bookies.
        """
        findings: set[tuple[str, int, str | None]] = {
            ("orphan-ledger", ledger, name)
            for bookie, name in enumerate(self.ids)
            if bookie >= asked_bookies
            for ledger in self.orphan_ledgers(bookie).tolist()
        }
        check_by_shape = {ONE_MISSING_SHAPE: "below-ack-quorum", BOTH_MISSING_SHAPE: "entry-lost"}
        for group in self.groups_of_ledgers():
            if group.shape in check_by_shape:
                findings |= {(check_by_shape[group.shape], ledger, None) for ledger in group.ids.tolist()}
        return findings

    def metadata(self, group: LedgerGroup) -> bytes:
        """Return the metadata of each ledger of a group: format 3, closed, with Pulsar's custom metadata."""
        message = LedgerMetadataFormat(
            quorumSize=WRITE_QUORUM,
            ensembleSize=ENSEMBLE,
            length=100 * ENTRIES,
            lastEntryId=ENTRIES - 1,
            state=LedgerMetadataFormat.CLOSED,
            ackQuorumSize=WRITE_QUORUM,
            ctime=NOW_MS,
            digestType=LedgerMetadataFormat.CRC32C,
            password=b"",
        )
        for first_bookie, bookie_offsets in group.shape.segments:
            segment = message.segment.add(firstEntryId=first_bookie)
            segment.ensembleMember.extend(
                self.ids[group.members[bookie_offset]] for bookie_offset in bookie_offsets
            )
        for custom_key, metadata_value in (("application", b"pulsar"), ("component", b"managed-ledger")):
            message.customMetadata.add(key=custom_key, value=metadata_value)
        return encode_binary(message)

    def cookie(self, bookie: int) -> bytes:
        """Return the cookie of a bookie, as in its ``VERSION`` files and in the metadata store."""
        return (
            f'5\nbookieHost: "{self.ids[bookie]}"\njournalDir: "/data/journal"\n'
            f'ledgerDirs: "1\\t/data/ledgers0"\ninstanceId: "{INSTANCE_ID}"\n'
        ).encode()


def encode_groups(shape: LedgerShape, bookie_offset: int) -> bytes:
    """Return the entries of one ensemble member as BP-34 groups of 24 bytes each.

    ``bookie_offset`` is the distance of the member from the ledger's first bookie.
    """
    entries = np.array(shape.entries_at_offset(bookie_offset), np.int64)
    return fold_entries(entries, np.array([0, len(entries)])).tobytes()
