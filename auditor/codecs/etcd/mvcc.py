"""Decoder of etcd's records of changed keys, in the bucket "key" of its storage file.

    bucket's key    main revision i64, "_", sub revision i64 (both big-endian); for a deletion then "t"
    value           protobuf (schemas/etcd_key_value.proto); for a deletion it has only the key

Each transaction has its own main revision. The sub revision counts the changes in a transaction. So the
bucket is sorted by time, not by changed key. The last change of a key is its current state. Compaction
removes every change that a later change of the same key replaces. The bucket "meta" contains the compacted
revision. The format is the same in etcd 3.0 to 3.6 (server/storage/mvcc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.etcd.bbolt import Elements, read_windows
from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb.etcd_key_value_pb2 import EtcdKeyValue
from auditor.errors import DecodeError

FORMAT_NAME = "etcd key"
KEY_BUCKET, META_BUCKET = b"key", b"meta"
COMPACT_REVISION_KEYS = (b"finishedCompactRev", b"scheduledCompactRev")
"""Keys of the bucket "meta" whose values are revisions. Changes before these revisions may be absent."""

REVISION_BYTES = 17
_SEPARATOR_OFFSET, _SEPARATOR, _DELETION_MARK = 8, ord("_"), ord("t")
_KEY_TAG = 0x0A  # field 1, bytes: etcd writes it first
_MAX_REVISION = 2**63 - 1


class KeyValue(NamedTuple):
    """One change of a key: its new value and its revisions."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions of many changes, as columns. They are read from the keys of the bucket.

    The numbers in a row are valid only if ``is_valid`` is True.
    """

    main_revisions: NDArray[np.int64]
    sub_revisions: NDArray[np.int64]
    is_deleted: NDArray[np.bool_]
    is_valid: NDArray[np.bool_]


def decode_key_value(data: bytes) -> KeyValue:
    """Read the value of a change. Raises `DecodeError` if it is damaged.

    >>> decode_key_value(bytes.fromhex("0a022f61 1002 1803 2001 2a0178"))
    KeyValue(key=b'/a', value=b'x', create_revision=2, mod_revision=3, version=1, lease=0)
    """
    message = proto_wire.parse(EtcdKeyValue, data, FORMAT_NAME)
    if not message.key:
        raise DecodeError(FORMAT_NAME, 0, "a change without a key")
    return KeyValue(
        message.key,
        message.value,
        message.create_revision,
        message.mod_revision,
        message.version,
        message.lease,
    )


def decode_revision(data: bytes) -> tuple[int, int]:
    """Read a revision without a deletion mark, such as the values in the bucket "meta".

    Raises `DecodeError` if ``data`` is not such a revision.

    >>> decode_revision(bytes.fromhex("0000000000000007 5f 0000000000000001"))
    (7, 1)
    """
    if len(data) != REVISION_BYTES or data[_SEPARATOR_OFFSET] != _SEPARATOR:
        raise DecodeError(FORMAT_NAME, 0, "no revision")
    main, sub = int.from_bytes(data[:8], "big"), int.from_bytes(data[9:], "big")
    if max(main, sub) > _MAX_REVISION:
        raise DecodeError(FORMAT_NAME, 0, "a negative revision")
    return main, sub


def revisions(data: memoryview, leaf_elements: Elements) -> Revisions:
    """Read the revisions of many changes at once."""
    key_length = leaf_elements.value_offsets - leaf_elements.key_offsets
    is_deleted = key_length == REVISION_BYTES + 1
    is_valid = ((key_length == REVISION_BYTES) | is_deleted) & ~leaf_elements.is_bucket
    # Rows of another length are read too, from the beginning of the file, and not used.
    key_rows = read_windows(data, np.where(is_valid, leaf_elements.key_offsets, 0), REVISION_BYTES)
    main_revisions = np.ascontiguousarray(key_rows[:, :8]).view(">i8").ravel().astype(np.int64)
    sub_revisions = np.ascontiguousarray(key_rows[:, 9:]).view(">i8").ravel().astype(np.int64)
    is_valid &= (key_rows[:, _SEPARATOR_OFFSET] == _SEPARATOR) & (main_revisions >= 0) & (sub_revisions >= 0)
    octets = np.frombuffer(data, np.uint8)
    is_valid &= ~is_deleted | (
        octets[np.where(is_deleted, leaf_elements.value_offsets - 1, 0)] == _DELETION_MARK
    )
    return Revisions(main_revisions, sub_revisions, is_deleted, is_valid)


def key_spans(data: memoryview, leaf_elements: Elements) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets in the file at which each changed key begins and ends.

    Both offsets are -1 if the record of a change does not begin with a key. They are also -1 for a key of
    more than 16 KiB.
    """
    octets = np.frombuffer(data, np.uint8)
    value_size = leaf_elements.value_ends - leaf_elements.value_offsets

    def octet(byte_index: int) -> NDArray[np.int64]:
        return np.where(
            value_size > byte_index,
            octets[np.where(value_size > byte_index, leaf_elements.value_offsets + byte_index, 0)],
            0,
        ).astype(np.int64)

    first_length_byte, second_length_byte = octet(1), octet(2)
    is_long = first_length_byte >= 0x80
    key_start = leaf_elements.value_offsets + np.where(is_long, 3, 2)
    length = np.where(
        is_long, (first_length_byte & 0x7F) | (second_length_byte & 0x7F) << 7, first_length_byte
    )
    # A key of more than 16 KiB would need a third byte.
    is_valid = (
        (octet(0) == _KEY_TAG)
        & (length > 0)
        & (key_start + length <= leaf_elements.value_ends)
        & ~(is_long & (second_length_byte >= 0x80))
    )
    return np.where(is_valid, key_start, -1), np.where(is_valid, key_start + length, -1)
