"""Metadata of format 3, of many ledgers at once: the sound ones, as arrays.

Most ledgers of a cluster are alike and break no rule. Those are read here without an object for any of them;
what is out of the ordinary in any way is left to `auditor.codecs.ledger_metadata`, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs import ledger_metadata
from auditor.codecs.groups import Longs
from auditor.codecs.ledger_message import DIGESTS, STATES
from auditor.codecs.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.wire_fields import PADDING, Blobs, read_fields, varints
from auditor.model.bookie_id import accepted

V3 = ledger_metadata.MAGIC + b"3\n"

_NUMBER = {name: field.number for name, field in LedgerMetadataFormat.DESCRIPTOR.fields_by_name.items()}
QUORUM, ENSEMBLE, LENGTH, LAST, STATE, SEGMENT, DIGEST, PASSWORD, ACK, CTIME, CUSTOM = (
    _NUMBER[name]
    for name in (
        "quorumSize",
        "ensembleSize",
        "length",
        "lastEntryId",
        "state",
        "segment",
        "digestType",
        "password",
        "ackQuorumSize",
        "ctime",
        "customMetadata",
    )
)
STATE_NAMES = ("", *(STATES[number].value for number in sorted(STATES)))
"""By the number that a message has."""

CLOSED = LedgerMetadataFormat.CLOSED

DIGEST_NAMES = ("", *(DIGESTS[number] for number in sorted(DIGESTS)))

_SCALARS = (QUORUM, ENSEMBLE, LENGTH, LAST, STATE, DIGEST, ACK, CTIME, _NUMBER["cToken"])
_MEMBER, _FIRST = 1, 2  # of a segment
_KEY, _VALUE = 1, 2  # of an item of the custom metadata

_MOST_BYTES = 1 << 20
_WIDEST = 16
"""Ledgers with larger ensembles, or more custom metadata, are left out: all pairs are compared."""


@dataclass(frozen=True, slots=True)
class SoundLedgers:
    """The ledgers of a batch that break no rule: ``sound`` says which of the values they are.

    Scalars have one item a value of the batch, which means nothing where ``sound`` is false. The nested lists
    are flat: value i owns ``segment_offsets[i]:segment_offsets[i + 1]`` of the first entries, and so for
    ``members``, as many a segment as the ensemble size, given by their place in ``bookies``, and for the
    custom metadata; a value that is not sound owns nothing.
    """

    sound: NDArray[np.bool_]
    ensemble_size: Longs
    write_quorum: Longs
    ack_quorum: Longs
    state: Longs
    length: Longs
    last_entry_id: Longs
    digest_type: Longs
    ctime: Longs
    has_ctime: NDArray[np.bool_]
    has_password: NDArray[np.bool_]
    segment_offsets: Longs
    first_entries: Longs
    member_offsets: Longs
    members: Longs
    bookies: list[str]
    custom_offsets: Longs
    custom_keys: list[str]
    custom_values: list[bytes]


def read_sound(values: Sequence[bytes]) -> SoundLedgers:
    """Read the metadata of those ledgers among ``values`` that are of format 3 and in good order.

    >>> body = bytes.fromhex("08011001180020012805320b0a07626b313a333138311000")
    >>> read_sound([V3 + bytes([len(body)]) + body]).sound.tolist()  # a state that nobody knows
    [False]
    """
    data, starts, ends = _bodies(values)
    raw = np.frombuffer(data, np.uint8)
    fields = read_fields(raw, starts, ends, _SCALARS, (SEGMENT, PASSWORD, CUSTOM))
    number, present = fields.numbers, fields.present
    write_quorum = number[QUORUM]
    ack_quorum = np.where(present[ACK], number[ACK], write_quorum)
    state, digest = number[STATE], np.where(present[DIGEST], number[DIGEST], 1)
    sound = (starts < ends) & ~fields.odd
    for required in (QUORUM, ENSEMBLE, LENGTH, STATE, SEGMENT):
        sound &= present[required]
    sound &= (ack_quorum > 0) & (ack_quorum <= write_quorum)
    sound &= (write_quorum <= number[ENSEMBLE]) & (number[ENSEMBLE] <= _WIDEST)
    sound &= (state >= 1) & (state < len(STATE_NAMES)) & (digest >= 1) & (digest < len(DIGEST_NAMES))

    segments, custom = fields.blobs[SEGMENT], fields.blobs[CUSTOM]
    inner = read_fields(raw, segments.starts, segments.ends, (_FIRST,), (_MEMBER,))
    first, members = inner.numbers[_FIRST], inner.blobs[_MEMBER]
    codes, names = _words(data, members)
    _leave(sound, segments.owners, inner.odd | ~inner.present[_FIRST])
    _leave(sound, segments.owners[members.owners], ~_each(names, _is_bookie)[codes])
    follows = segments.owners[1:] == segments.owners[:-1]
    _leave(sound, segments.owners[1:], follows & (first[1:] <= first[:-1]))
    _leave(sound, segments.owners, np.append(True, ~follows)[: len(first)] & (first != 0))
    sizes = np.bincount(members.owners, minlength=len(first))
    _leave(sound, segments.owners, sizes != number[ENSEMBLE][segments.owners])
    _leave(sound, segments.owners, _repeats(members.owners, codes, len(first)))

    keys, texts, values_at = _custom(data, raw, custom, sound)
    kept_segments, kept_custom = sound[segments.owners], sound[custom.owners]
    segment_counts = np.bincount(segments.owners[kept_segments], minlength=len(values))
    return SoundLedgers(
        sound=sound,
        ensemble_size=number[ENSEMBLE],
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        state=state,
        length=number[LENGTH],
        last_entry_id=number[LAST],
        digest_type=digest,
        ctime=number[CTIME],
        has_ctime=present[CTIME],
        has_password=present[PASSWORD],
        segment_offsets=_offsets(segment_counts),
        first_entries=first[kept_segments],
        member_offsets=_offsets(segment_counts * np.where(sound, number[ENSEMBLE], 0)),
        members=codes[kept_segments[members.owners]],
        bookies=[name.decode("utf-8", "replace") for name in names],
        custom_offsets=_offsets(np.bincount(custom.owners[kept_custom], minlength=len(values))),
        custom_keys=[texts[key] for key in keys[kept_custom].tolist()],
        custom_values=[
            data[start:end]
            for start, end in zip(
                values_at.starts[kept_custom].tolist(), values_at.ends[kept_custom].tolist(), strict=True
            )
        ],
    )


def _bodies(values: Sequence[bytes]) -> tuple[bytes, Longs, Longs]:
    """All values in one, and where the message of each lies; nowhere if it is of another format."""
    data = b"".join([*values, bytes(PADDING)])
    raw = np.frombuffer(data, np.uint8)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    at = np.flatnonzero(np.fromiter(map(methodcaller("startswith", V3), values), np.bool_, len(values)))
    size, begin, fine = varints(raw, starts[at] + len(V3))
    fine &= (size >= 0) & (size < _MOST_BYTES) & (size <= ends[at] - begin)
    found_starts, found_ends = np.zeros_like(starts), np.zeros_like(starts)
    found_starts[at[fine]], found_ends[at[fine]] = begin[fine], (begin + size)[fine]
    return data, found_starts, found_ends


def _custom(
    data: bytes, raw: NDArray[np.uint8], custom: Blobs, sound: NDArray[np.bool_]
) -> tuple[Longs, list[str], Blobs]:
    """Custom metadata: for each item its key, as a place in a list of texts, and where its value lies."""
    inner = read_fields(raw, custom.starts, custom.ends, (), (_KEY, _VALUE))
    keys, values = inner.blobs[_KEY], inner.blobs[_VALUE]
    count = len(custom.owners)
    single = [np.bincount(each.owners, minlength=count) == 1 for each in (keys, values)]
    _leave(sound, custom.owners, inner.odd | ~(single[0] & single[1]))
    _leave(sound, np.arange(len(sound)), np.bincount(custom.owners, minlength=len(sound)) > _WIDEST)
    codes, names = _words(data, keys)
    _leave(sound, custom.owners[keys.owners], ~_each(names, _is_text)[codes])
    # One item a key and value: what is not so was left out above, and its place holds anything.
    at, value_starts, value_ends = (np.zeros(count, np.int64) for _ in range(3))
    at[keys.owners], value_starts[values.owners], value_ends[values.owners] = (
        codes,
        values.starts,
        values.ends,
    )
    _leave(sound, np.arange(len(sound)), _repeats(custom.owners, at, len(sound)))
    texts = [name.decode("utf-8", "replace") for name in names]
    return at, texts, Blobs(custom.owners, value_starts, value_ends)


def _offsets(counts: Longs) -> Longs:
    return np.append(0, np.cumsum(counts))


def _leave(sound: NDArray[np.bool_], owners: Longs, broken: NDArray[np.bool_]) -> None:
    """What owns something broken is not sound."""
    sound[owners[broken]] = False


def _repeats(owners: Longs, codes: Longs, count: int) -> NDArray[np.bool_]:
    """Of each of ``count`` owners, whether it has one code twice; each has its items side by side.

    Lists longer than `_WIDEST` are not looked at to their end; they are left out for their length.
    """
    found = np.zeros(count, np.bool_)
    most = int(np.bincount(owners, minlength=1).max())
    for apart in range(1, min(most, _WIDEST)):
        same = (owners[apart:] == owners[:-apart]) & (codes[apart:] == codes[:-apart])
        found[owners[apart:][same]] = True
    return found


def _words(data: bytes, blobs: Blobs) -> tuple[Longs, list[bytes]]:
    """Each blob as a place in a list of the different ones."""
    count = len(blobs.starts)
    if not count:
        return np.zeros(0, np.int64), []
    # Word, gap, word, gap: one Arrow array over the bytes where they are, of which each second item is taken.
    edges = np.stack([blobs.starts, blobs.ends], axis=1).ravel()
    laid = pa.Array.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    words = laid.take(pa.array(np.arange(0, 2 * count, 2))).dictionary_encode()
    return np.asarray(words.indices).astype(np.int64), words.dictionary.to_pylist()


def _each(words: list[bytes], test: Callable[[bytes], bool]) -> NDArray[np.bool_]:
    return np.fromiter(map(test, words), np.bool_, len(words))


def _is_text(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_bookie(word: bytes) -> bool:
    return _is_text(word) and accepted(word.decode())
