"""The metadata of many ledgers at once, as the flat lists that Arrow columns are made of.

Building an object for every ledger and segment costs several times what reading the bytes does. Here each
field is one list over the whole batch, nested ones flat with counts beside them. Every row says what
`auditor.codecs.ledger_metadata` would; damage is a row, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from auditor.codecs import canonical_text, ledger_metadata
from auditor.codecs.groups import Longs
from auditor.codecs.ledger_message import DIGESTS_BY_NAME, text
from auditor.codecs.ledger_wire import CLOSED, DIGEST_NAMES, STATE_NAMES, SoundLedgers, read_sound
from auditor.errors import DecodeError
from auditor.model.ledger_metadata import NO_ENTRY, BrokenRule, LedgerState, find_broken_rules

V2 = ledger_metadata.MAGIC + b"2\n"


@dataclass(slots=True)
class LedgerColumns:
    """One item a row in every list but the flat ones, in the order of the values decoded.

    A row with ``damage`` (reason, byte offset) has None in its scalars, False for ``has_password`` and
    nothing in the nested lists; ``rules`` lists what a row that could be read breaks, and its values stay.
    Row ``i`` owns the next ``segment_counts[i]`` items of ``segment_firsts`` and ``member_counts``, and the
    next ``custom_counts[i]`` of ``custom_keys`` and ``custom_values``; each segment owns as many ``members``
    as its member count says. ``ctime`` is the metadata's own, in ms.
    """

    format: list[int | None] = field(default_factory=list)
    ensemble_size: list[int | None] = field(default_factory=list)
    write_quorum: list[int | None] = field(default_factory=list)
    ack_quorum: list[int | None] = field(default_factory=list)
    state: list[str | None] = field(default_factory=list)
    length: list[int | None] = field(default_factory=list)
    last_entry_id: list[int | None] = field(default_factory=list)
    digest_type: list[str | None] = field(default_factory=list)
    ctime: list[int | None] = field(default_factory=list)
    has_password: list[bool] = field(default_factory=list)
    segment_counts: list[int] = field(default_factory=list)
    segment_firsts: list[int] = field(default_factory=list)
    member_counts: list[int] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    custom_counts: list[int] = field(default_factory=list)
    custom_keys: list[str] = field(default_factory=list)
    custom_values: list[bytes] = field(default_factory=list)
    damage: list[tuple[str, int] | None] = field(default_factory=list)
    rules: list[tuple[BrokenRule, ...]] = field(default_factory=list)


def decode_batch(values: Sequence[bytes]) -> LedgerColumns:
    """Read the metadata of many ledgers, one value each, in any mix of formats.

    >>> columns = decode_batch([b"BookieMetadataFormatVersion\\t1\\n1\\n1\\n0\\n0\\tbk1:3181\\n", b"?"])
    >>> columns.state, columns.members, columns.damage
    (['OPEN', None], ['bk1:3181'], [None, ('the header is not that of ledger metadata', 0)])
    """
    batch = _Batch()
    sound = read_sound(values)
    # Rows that were read together lie in spans; between them is what has to be read alone.
    edges = np.flatnonzero(np.diff(sound.sound, prepend=False, append=False)).tolist()
    alone = 0
    for first, end in zip(edges[0::2], edges[1::2], strict=True):
        batch.put_alone(values[alone:first])
        batch.put_sound(sound, first, end)
        alone = end
    batch.put_alone(values[alone:])
    return batch.columns


class _Batch:
    """Columns being filled; ``put_canonical`` puts nothing for what it does not take."""

    def __init__(self) -> None:
        self.columns = LedgerColumns()
        # Bookie ids that some row has shown to be sound: a cluster names the same few over and over.
        self.sound: set[str] = set()

    def put_sound(self, read: SoundLedgers, first: int, end: int) -> None:
        """Put rows ``first`` to ``end``, which are all sound."""
        columns, rows = self.columns, slice(first, end)
        count = end - first
        closed = read.state[rows] == CLOSED
        columns.format += [3] * count
        columns.ensemble_size += read.ensemble_size[rows].tolist()
        columns.write_quorum += read.write_quorum[rows].tolist()
        columns.ack_quorum += read.ack_quorum[rows].tolist()
        columns.state += [STATE_NAMES[state] for state in read.state[rows].tolist()]
        columns.length += np.where(closed, read.length[rows], 0).tolist()
        columns.last_entry_id += np.where(closed, read.last_entry_id[rows], NO_ENTRY).tolist()
        has_password = read.has_password[rows].tolist()
        columns.digest_type += [
            DIGEST_NAMES[digest] if has else None
            for digest, has in zip(read.digest_type[rows].tolist(), has_password, strict=True)
        ]
        columns.ctime += [
            ctime if has else None
            for ctime, has in zip(read.ctime[rows].tolist(), read.has_ctime[rows].tolist(), strict=True)
        ]
        columns.has_password += has_password
        columns.damage += [None] * count
        columns.rules += [()] * count
        counts = np.diff(read.segment_offsets[first : end + 1])
        columns.segment_counts += counts.tolist()
        columns.segment_firsts += read.first_entries[_owned(read.segment_offsets, first, end)].tolist()
        columns.member_counts += np.repeat(read.ensemble_size[rows], counts).tolist()
        members = read.members[_owned(read.member_offsets, first, end)].tolist()
        columns.members += [read.bookies[member] for member in members]
        custom = _owned(read.custom_offsets, first, end)
        columns.custom_counts += np.diff(read.custom_offsets[first : end + 1]).tolist()
        columns.custom_keys += read.custom_keys[custom]
        columns.custom_values += read.custom_values[custom]

    def put_alone(self, values: Sequence[bytes]) -> None:
        for value in values:
            if not (value.startswith(V2) and self.put_canonical(value)):
                self.put_any(value)

    def put_canonical(self, value: bytes) -> bool:
        read = canonical_text.fields(value, len(V2))
        if read is None:
            return False
        self.put(
            2,
            read.ensemble_size,
            read.write_quorum,
            read.ack_quorum,
            LedgerState(read.state),
            read.length,
            read.last_entry_id,
            DIGESTS_BY_NAME[read.digest or "CRC32"] if read.has_password else None,
            read.ctime,
            read.has_password,
            read.firsts,
            read.ensembles,
            read.custom_metadata,
        )
        return True

    def put_any(self, value: bytes) -> None:
        try:
            read = ledger_metadata.parse(value)
        except DecodeError as error:
            self.put_damage(error)
            return
        self.put(
            read.format_version,
            read.ensemble_size,
            read.write_quorum,
            read.ack_quorum,
            read.state,
            read.length,
            read.last_entry_id,
            read.digest_type,
            read.ctime,
            read.has_password,
            [segment.first_entry_id for segment in read.segments],
            [list(segment.ensemble) for segment in read.segments],
            read.custom_metadata,
        )

    def put_damage(self, error: DecodeError) -> None:
        columns = self.columns
        for scalars in (
            columns.format,
            columns.ensemble_size,
            columns.write_quorum,
            columns.ack_quorum,
            columns.length,
            columns.last_entry_id,
            columns.ctime,
        ):
            scalars.append(None)
        columns.state.append(None)
        columns.digest_type.append(None)
        columns.has_password.append(False)
        columns.segment_counts.append(0)
        columns.custom_counts.append(0)
        columns.damage.append((error.reason, error.offset))
        columns.rules.append(())

    def put(
        self,
        version: int,
        ensemble_size: int,
        write_quorum: int,
        ack_quorum: int | None,
        state: LedgerState,
        length: int,
        last_entry_id: int,
        digest_type: str | None,
        ctime: int | None,
        has_password: bool,
        firsts: list[int],
        ensembles: list[list[str]],
        custom: Mapping[str, bytes],
    ) -> None:
        columns = self.columns
        if ack_quorum is None:
            ack_quorum = write_quorum
        closed = state is LedgerState.CLOSED
        columns.format.append(version)
        columns.ensemble_size.append(ensemble_size)
        columns.write_quorum.append(write_quorum)
        columns.ack_quorum.append(ack_quorum)
        columns.state.append(state.value)
        columns.length.append(length if closed else 0)
        columns.last_entry_id.append(last_entry_id if closed else NO_ENTRY)
        columns.digest_type.append(digest_type)
        columns.ctime.append(ctime)
        columns.has_password.append(has_password)
        columns.rules.append(self.rules(ensemble_size, write_quorum, ack_quorum, firsts, ensembles))
        columns.segment_counts.append(len(firsts))
        columns.segment_firsts += firsts
        for ensemble in ensembles:
            columns.member_counts.append(len(ensemble))
            columns.members += ensemble
        columns.custom_counts.append(len(custom))
        columns.custom_keys += custom
        columns.custom_values += custom.values()
        columns.damage.append(None)

    def rules(
        self,
        ensemble_size: int,
        write_quorum: int,
        ack_quorum: int,
        firsts: list[int],
        ensembles: list[list[str]],
    ) -> tuple[BrokenRule, ...]:
        """What the row breaks; for a row of sound parts a few comparisons say: nothing."""
        previous = -1
        fine = 0 < ack_quorum <= write_quorum <= ensemble_size and bool(firsts) and firsts[0] == 0
        for first, ensemble in zip(firsts, ensembles, strict=True):
            members = set(ensemble)
            if not (
                first > previous
                and len(ensemble) == len(members) == ensemble_size
                and self.sound.issuperset(members)
            ):
                fine = False
                # The library hands out strings that are not UTF-8 as bytes.
                ensemble[:] = map(text, ensemble)
            previous = first
        if fine:
            return ()
        broken = find_broken_rules(ensemble_size, write_quorum, ack_quorum, firsts, ensembles)
        if not any(rule.rule == "bookie-id-invalid" for rule in broken):
            self.sound.update(*ensembles)
        return broken


def _owned(offsets: Longs, first: int, end: int) -> slice:
    """What rows ``first`` to ``end`` own of a flat list."""
    return slice(int(offsets[first]), int(offsets[end]))
