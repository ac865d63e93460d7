"""Key changes as etcd stores them: those of a real server, and values that are no key change."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.etcd.bbolt import Elements, bucket, read_key_values, read_meta
from auditor.codecs.etcd.mvcc import KeyValue, decode_key_value, decode_revision, key_spans, revisions
from auditor.codecs.protobuf.pb.etcd_key_value_pb2 import EtcdKeyValue
from auditor.errors import DecodeError
from tests.codecs.bbolt_writer import revision
from tests.codecs.damage import points_within, refusal

SNAPSHOT = Path(__file__).parents[2] / "data" / "etcd" / "etcd-snapshot.db.gz"
int64s = st.integers(0, 2**63 - 1)


def as_leaf(pairs: list[tuple[bytes, bytes]]) -> tuple[memoryview, Elements]:
    """Return keys and values one after another, as in a leaf, and their positions."""
    ends = np.cumsum([0, *(len(part) for pair in pairs for part in pair)])
    data = memoryview(b"".join(part for pair in pairs for part in pair) + bytes(32))
    rows = np.arange(len(pairs))
    flags = np.zeros(len(pairs), bool)
    return data, Elements(rows, ends[0:-1:2], ends[1::2], ends[2::2], flags, {})


def test_changes_of_a_real_server_are_read() -> None:
    data = memoryview(gzip.decompress(SNAPSHOT.read_bytes()))
    meta = read_meta(data)
    root = bucket(data, meta, b"key")
    assert root is not None
    changes = list(read_key_values(data, meta, root))
    first = decode_key_value(changes[0][1])
    assert first == KeyValue(b"/bk/cluster1", b"", 2, 2, 1, 0)
    assert decode_revision(changes[0][0]) == (2, 0)
    assert all(decode_key_value(value).mod_revision == decode_revision(key)[0] for key, value in changes
               if len(key) == 17)  # fmt: skip
    deleted = [decode_key_value(value) for key, value in changes if len(key) == 18]
    assert deleted
    assert all(change[1:] == (b"", 0, 0, 0, 0) for change in deleted)


@given(
    st.lists(
        st.tuples(int64s, int64s, st.booleans(), st.binary(min_size=1, max_size=300), st.binary()), min_size=1
    )
)
def test_batch_decoding_of_changes_returns_every_row(
    rows: list[tuple[int, int, bool, bytes, bytes]],
) -> None:
    data, leaf = as_leaf(
        [
            (revision(main, sub, is_deleted), EtcdKeyValue(key=key, value=value).SerializeToString())
            for main, sub, is_deleted, key, value in rows
        ]
    )
    stamps = revisions(data, leaf)
    assert stamps.is_valid.all()
    assert list(
        zip(
            stamps.main_revisions.tolist(),
            stamps.sub_revisions.tolist(),
            stamps.is_deleted.tolist(),
            strict=True,
        )
    ) == [row[:3] for row in rows]
    begin, end = key_spans(data, leaf)
    assert [bytes(data[a:b]) for a, b in zip(begin.tolist(), end.tolist(), strict=True)] == [
        row[3] for row in rows
    ]


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"x",
        revision(1)[:16],
        revision(1) + b"x",
        revision(1) + b"tt",
        revision(1).replace(b"_", b"-"),
        revision(-1),
        revision(1, -1),
    ],
)
def test_invalid_revision_key_is_marked_invalid_and_refused(key: bytes) -> None:
    data, leaf = as_leaf([(revision(1), b""), (key, b""), (revision(2), b"")])
    assert revisions(data, leaf).is_valid.tolist() == [True, False, True]
    with pytest.raises(DecodeError):
        decode_revision(key)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x0a", id="a cut tag"),
        pytest.param(b"\x0a\x00", id="an empty key"),
        pytest.param(b"\x0a\x05abcd", id="a cut key"),
        pytest.param(b"\x10\x01\x0a\x01a", id="another field first"),
        pytest.param(b"\x0a\x80\x80\x01" + bytes(16384), id="a key of 16 KiB"),
    ],
)
def test_value_without_a_leading_key_gets_no_key_span(value: bytes) -> None:
    data, leaf = as_leaf([(revision(1), b"\x0a\x01a"), (revision(2), value), (revision(3), b"\x0a\x01b")])
    begin, end = key_spans(data, leaf)
    assert (begin[1], end[1]) == (-1, -1)
    assert bytes(data[begin[2] : end[2]]) == b"b"


@pytest.mark.parametrize(
    ("damaged", "offset"), [(b"\x0a\x05abcd", 0), (b"\x0a\x01a\x10\xff", 3), (b"", 0), (b"\x07", 0)]
)
def test_key_value_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode_key_value(damaged)
    assert damage.value.offset == offset


@given(st.binary(max_size=60))
def test_damaged_key_value_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(decode_key_value, damaged), damaged)
    assert points_within(refusal(decode_revision, damaged), damaged)
    data, leaf = as_leaf([(damaged, damaged), (struct.pack("<I", len(damaged)), b"")])
    revisions(data, leaf)
    key_spans(data, leaf)
