"""Which ledgers of a batch are in good order, told from their fields, whatever format these came in.

Most ledgers of a cluster are alike and break no rule. Those become columns here without an object for any of
them; what is out of the ordinary in any way is left to `auditor.codecs.ledger_metadata.one`, which says what
is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.byte_column import arrow_of
from auditor.codecs.ledger_metadata.columns import (
    DIGEST_NAMES,
    STATE_NAMES,
    Bools,
    CustomField,
    LedgerColumns,
    LedgerField,
    LedgerFields,
    SegmentField,
)
from auditor.codecs.protobuf.fields import Blobs
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import is_text
from auditor.model.bookie_id import is_accepted
from auditor.model.ledger_metadata import NO_ENTRY

CLOSED = LedgerMetadataFormat.CLOSED

_WIDEST = 16
"""Ledgers with larger ensembles, or more custom metadata, are left out: all pairs are compared."""


def sound_ledgers(read: LedgerFields) -> tuple[Bools, LedgerColumns]:
    """Which of the ledgers break no rule, and the columns of these."""
    number, present = read.ledgers.numbers, read.ledgers.present
    write_quorum = number[LedgerField.QUORUM]
    # Where no ack quorum is written it is the write quorum, as the server reads it.
    ack_quorum = np.where(present[LedgerField.ACK], number[LedgerField.ACK], write_quorum)
    state, digest = (
        number[LedgerField.STATE],
        np.where(present[LedgerField.DIGEST], number[LedgerField.DIGEST], 1),
    )
    sound = ~read.ledgers.odd
    for required in (
        LedgerField.QUORUM,
        LedgerField.ENSEMBLE,
        LedgerField.LENGTH,
        LedgerField.STATE,
        LedgerField.SEGMENT,
    ):
        sound &= present[required]
    sound &= (ack_quorum > 0) & (ack_quorum <= write_quorum)
    sound &= (write_quorum <= number[LedgerField.ENSEMBLE]) & (number[LedgerField.ENSEMBLE] <= _WIDEST)
    sound &= (state >= 1) & (state < len(STATE_NAMES)) & (digest >= 1) & (digest < len(DIGEST_NAMES))

    owners = read.ledgers.blobs[LedgerField.SEGMENT].owners
    first, members = read.segments.numbers[SegmentField.FIRST], read.segments.blobs[SegmentField.MEMBER]
    codes, bookies = _words(read.octets, members)
    _leave(sound, owners[members.owners], ~_each(bookies, _is_bookie)[codes])
    _leave(sound, owners, _repeats(members.owners, codes, len(first)))
    _check_segments(read, sound)

    custom_owners = read.ledgers.blobs[LedgerField.CUSTOM].owners
    keys, key_names, values = _custom(read, custom_owners, sound)
    rows = np.flatnonzero(sound)
    kept, kept_custom = sound[owners], sound[custom_owners]
    closed = state[rows] == CLOSED
    return sound, LedgerColumns(
        damage={},
        rules={},
        format=np.full(len(rows), read.format),
        ensemble_size=number[LedgerField.ENSEMBLE][rows],
        write_quorum=write_quorum[rows],
        ack_quorum=ack_quorum[rows],
        state=state[rows],
        length=np.where(closed, number[LedgerField.LENGTH][rows], 0),
        last_entry_id=np.where(closed, number[LedgerField.LAST][rows], NO_ENTRY),
        digest_type=np.where(present[LedgerField.PASSWORD], digest, 0)[rows],
        ctime=number[LedgerField.CTIME][rows],
        has_ctime=present[LedgerField.CTIME][rows],
        has_password=present[LedgerField.PASSWORD][rows],
        segment_counts=np.bincount(owners, minlength=len(sound))[rows],
        segment_firsts=first[kept],
        member_counts=number[LedgerField.ENSEMBLE][owners[kept]],
        members=codes[kept[members.owners]],
        bookies=[name.decode("utf-8", "replace") for name in bookies],
        custom_counts=np.bincount(custom_owners, minlength=len(sound))[rows],
        custom_keys=keys[kept_custom],
        key_names=[name.decode("utf-8", "replace") for name in key_names],
        custom_values=_values(read, values, kept_custom),
    )


def _check_segments(read: LedgerFields, sound: Bools) -> None:
    """Each segment is as wide as the ensemble; they ascend strictly, and the first begins at entry 0."""
    owners = read.ledgers.blobs[LedgerField.SEGMENT].owners
    first, members = read.segments.numbers[SegmentField.FIRST], read.segments.blobs[SegmentField.MEMBER]
    _leave(sound, owners, read.segments.odd | ~read.segments.present[SegmentField.FIRST])
    # One array holds the segments of all ledgers: where the owner changes, a ledger's first one stands.
    follows = owners[1:] == owners[:-1]
    _leave(sound, owners[1:], follows & (first[1:] <= first[:-1]))
    _leave(sound, owners, np.append(True, ~follows)[: len(first)] & (first != 0))
    sizes = np.bincount(members.owners, minlength=len(first))
    _leave(sound, owners, sizes != read.ledgers.numbers[LedgerField.ENSEMBLE][owners])


def _custom(read: LedgerFields, owners: Longs, sound: Bools) -> tuple[Longs, list[bytes], Blobs]:
    """Custom metadata: for each item its key, as a place in a list of names, and where its value lies."""
    keys, values = read.custom.blobs[CustomField.KEY], read.custom.blobs[CustomField.VALUE]
    count = len(owners)
    single = [np.bincount(each.owners, minlength=count) == 1 for each in (keys, values)]
    _leave(sound, owners, read.custom.odd | ~(single[0] & single[1]))
    sound &= np.bincount(owners, minlength=len(sound)) <= _WIDEST
    codes, names = _words(read.octets, keys)
    if read.unescaped[CustomField.KEY]:
        places = {name: place for place, name in enumerate(names)}
        codes[list(read.unescaped[CustomField.KEY])] = [
            places.setdefault(name, len(places)) for name in read.unescaped[CustomField.KEY].values()
        ]
        names = list(places)
    _leave(sound, owners[keys.owners], ~_each(names, is_text)[codes])
    # One item a key and value: what is not so was left out above, and its place holds anything.
    at, starts, ends = (np.zeros(count, np.int64) for _ in range(3))
    at[keys.owners], starts[values.owners], ends[values.owners] = codes, values.starts, values.ends
    sound &= ~_repeats(owners, at, len(sound))
    return at, names, Blobs(owners, starts, ends)


def _values(read: LedgerFields, values: Blobs, kept: Bools) -> pa.BinaryArray:
    found = arrow_of(read.octets, values.starts[kept], values.ends[kept]).cast(pa.binary())
    unescaped = read.unescaped[CustomField.VALUE]
    if not unescaped:
        return found
    others = np.zeros(len(kept), np.bool_)
    others[list(unescaped)] = True
    texts = [text for item, text in sorted(unescaped.items()) if kept[item]]
    return pc.replace_with_mask(found, pa.array(others[kept]), pa.array(texts, pa.binary()))


def _leave(sound: Bools, owners: Longs, broken: Bools) -> None:
    """What owns something broken is not sound."""
    sound[owners[broken]] = False


def _repeats(owners: Longs, codes: Longs, count: int) -> Bools:
    """Of each of ``count`` owners, whether it has one code twice; each has its items side by side.

    Lists longer than `_WIDEST` are not looked at to their end; they are left out for their length.
    """
    found = np.zeros(count, np.bool_)
    most = int(np.bincount(owners, minlength=1).max())
    for apart in range(1, min(most, _WIDEST)):
        same = (owners[apart:] == owners[:-apart]) & (codes[apart:] == codes[:-apart])
        found[owners[apart:][same]] = True
    return found


def _words(octets: NDArray[np.uint8], blobs: Blobs) -> tuple[Longs, list[bytes]]:
    """Each blob as a place in a list of the different ones."""
    words = arrow_of(octets, blobs.starts, blobs.ends).dictionary_encode()
    return np.asarray(words.indices).astype(np.int64), words.dictionary.to_pylist()


def _each(words: list[bytes], test: Callable[[bytes], bool]) -> Bools:
    return np.fromiter(map(test, words), np.bool_, len(words))


def _is_bookie(word: bytes) -> bool:
    return is_text(word) and is_accepted(word.decode())
