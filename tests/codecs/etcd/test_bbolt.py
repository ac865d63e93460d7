"""bbolt databases: one of a real server, properties of every database, and damaged databases."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.etcd.bbolt import (
    PageSpan,
    bucket,
    elements,
    leaves,
    page_span,
    read_key_values,
    read_meta,
)
from auditor.errors import DecodeError
from tests.codecs.bbolt_writer import branch, database, leaf, meta_page
from tests.codecs.damage import points_within, refusal
from tests.examples import examples

SNAPSHOT = Path(__file__).parents[2] / "data" / "etcd" / "etcd-snapshot.db.gz"


def bucket_pairs(file: bytes, name: bytes) -> list[tuple[bytes, bytes]] | None:
    data = memoryview(file)
    meta = read_meta(data)
    root = bucket(data, meta, name)
    return None if root is None else list(read_key_values(data, meta, root))


def read(file: bytes, name: bytes) -> list[tuple[bytes, bytes]]:
    key_values = bucket_pairs(file, name)
    assert key_values is not None
    return key_values


def test_database_of_a_real_server_is_read() -> None:
    data = memoryview(gzip.decompress(SNAPSHOT.read_bytes()))
    meta = read_meta(data)
    assert (meta.page_size, meta.pages, meta.are_both_valid) == (4096, 13, True)
    assert len(data) == 13 * 4096 + 32
    # 3.4 makes its buckets when it starts; what they hold is in some of them nothing.
    for name in (
        b"alarm",
        b"auth",
        b"authRoles",
        b"authUsers",
        b"cluster",
        b"key",
        b"lease",
        b"members",
        b"meta",
    ):
        assert bucket(data, meta, name) is not None
    assert bucket(data, meta, b"ke") is None
    keys = [key for key, _ in read(bytes(data), b"key")]
    assert keys == sorted(keys)
    assert keys[0] == struct.pack(">qcq", 2, b"_", 0)
    assert dict(read(bytes(data), b"cluster")) == {b"clusterVersion": b"3.4.0"}
    assert list(dict(read(bytes(data), b"meta"))) == [b"consistent_index"]


pairs = st.dictionaries(st.binary(min_size=1, max_size=40), st.binary(max_size=3000), max_size=60).map(
    lambda mapping: sorted(mapping.items())
)


@settings(deadline=None)
@given(pairs, st.sampled_from([1024, 4096, 65536]), st.integers(2, 9), st.booleans())
def test_written_database_is_read_back(
    held: list[tuple[bytes, bytes]], page_size: int, per_branch: int, inline: bool
) -> None:
    file = database(
        {b"key": held, b"other": [(b"a", b"b")]},
        page_size=page_size,
        per_branch=per_branch,
        inline=[b"key", b"other"] if inline else [b"other"],
    )
    assert read(file, b"key") == held
    assert read(file, b"other") == [(b"a", b"b")]


def test_valid_meta_page_of_the_later_transaction_is_used() -> None:
    file = bytearray(database({b"key": [(b"a", b"1")]}, page_size=4096))
    older = meta_page(1, 4096, 99, 100, 3)
    file[4096:8192] = older
    assert read_meta(memoryview(file)).transaction == 7
    file[4096:8192] = meta_page(1, 4096, 5, 6, 8)
    assert read_meta(memoryview(file))[1:] == (5, 6, 8, True)
    file[16 + 60] ^= 1  # in the first page's checksum
    assert read_meta(memoryview(file))[1:] == (5, 6, 8, False)
    file[4096 + 16] ^= 1
    with pytest.raises(DecodeError) as damage:
        read_meta(memoryview(file))
    assert damage.value.offset == 0


def tree(*pages: tuple[int, int, bytes], root: int = 3, count: int = 8) -> memoryview:
    """Return a file of 1 KiB pages; each of ``pages`` is (kind, element count, content)."""
    body = [meta_page(number, 1024, root, count, 7) for number in (0, 1)] + [bytes(1024)]
    for number, (kind, elements_, content) in enumerate(pages, 3):
        body.append((struct.pack("<QHHI", number, kind, elements_, 0) + content).ljust(1024, b"\0"))
    return memoryview(b"".join(body).ljust(count * 1024, b"\0"))


def walk(data: memoryview) -> tuple[list[int], list[int]]:
    """Return the page numbers found, and the offsets of the damage."""
    meta = read_meta(data)
    results = list(leaves(data, meta, page_span(data, meta, meta.root)))
    spans = [page.start // 1024 for page in results if isinstance(page, PageSpan)]
    return spans, [damage.offset for damage in results if isinstance(damage, DecodeError)]


LEAF = (2, 1, leaf([(b"k", b"v")]))


@pytest.mark.parametrize(
    ("pages", "leaf_pages", "wrong"),
    [
        pytest.param([(1, 2, branch([(b"a", 4), (b"b", 5)])), LEAF, LEAF], [4, 5], [], id="whole"),
        pytest.param([(1, 2, branch([(b"a", 4), (b"b", 4)])), LEAF], [4], [4096], id="a page twice"),
        pytest.param([(1, 2, branch([(b"a", 3), (b"b", 4)])), LEAF], [4], [3072, 4096], id="a circle"),
        pytest.param([(1, 2, branch([(b"a", 9), (b"b", 4)])), LEAF], [4], [8192], id="beyond the end"),
        pytest.param([(1, 2, branch([(b"a", 2**63), (b"b", 4)])), LEAF], [4], [8192], id="far beyond"),
        pytest.param([(1, 2, branch([(b"a", 1), (b"b", 4)])), LEAF], [4], [1024], id="a meta page"),
        pytest.param(
            [(1, 2, branch([(b"a", 5), (b"b", 4)])), LEAF, (16, 0, b"")], [4], [5128], id="a free list"
        ),
        pytest.param(
            [(1, 2, branch([(b"a", 5), (b"b", 4)])), LEAF, (2, 65535, b"")], [4], [5130], id="too full"
        ),
        pytest.param([(1, 0, b"")], [], [3082], id="a branch of nothing"),
        pytest.param([(1, 1, struct.pack("<IIQ", 17, 1, 4)), LEAF], [], [3088], id="a key elsewhere"),
        pytest.param([(1, 1, struct.pack("<IIQ", 16, 2000, 4)), LEAF], [], [3088], id="a key too long"),
    ],
)
def test_damaged_path_to_a_leaf_is_reported_and_its_neighbours_are_read(
    pages: list[tuple[int, int, bytes]], leaf_pages: list[int], wrong: list[int]
) -> None:
    assert walk(tree(*pages)) == (leaf_pages, wrong)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(struct.pack("<IIII", 0, 17, 1, 1) + b"kv", id="a key elsewhere"),
        pytest.param(struct.pack("<IIII", 0, 16, 1, 1000) + b"kv", id="a value too long"),
        pytest.param(struct.pack("<IIII", 0, 16, 2**32 - 1, 2**32 - 1), id="lengths beyond all"),
        pytest.param(struct.pack("<IIII", 2, 16, 1, 1) + b"kv", id="an unknown flag"),
    ],
)
def test_damaged_leaf_is_skipped_and_its_neighbours_are_read(content: bytes) -> None:
    data = tree(LEAF, (2, 1, content), LEAF)
    offsets = np.array([3072, 4096, 5120])
    result = elements(data, offsets, offsets + 1024)
    assert result.leaf_index.tolist() == [0, 2]
    assert {place: damage.offset for place, damage in result.error_by_leaf.items()} == {1: 4096 + 16}


def test_branch_page_inside_an_inline_value_is_refused() -> None:
    sound_file = database({b"key": [(b"a", b"1")]}, inline=[b"key"])
    page = struct.pack("<QHHI", 0, 2, 1, 0)  # the leaf's header within the value: number, kind, elements
    assert sound_file.count(page) == 1
    offset = sound_file.index(page)
    file = sound_file[:offset] + struct.pack("<QHHI", 0, 1, 65535, 0) + sound_file[offset + 16 :]
    with pytest.raises(DecodeError) as damage:
        bucket_pairs(file, b"key")
    assert damage.value.offset == offset + 8


def test_too_long_chain_of_pages_is_refused() -> None:
    chain = [(1, 1, branch([(b"a", number + 1)])) for number in range(3, 60)]
    assert walk(tree(*chain, LEAF, count=61))[1] == [(3 + 32) * 1024]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_damaged_database_raises_only_typed_errors(data: st.DataObject) -> None:
    key_values = [(b"%03d" % number, bytes(number)) for number in range(120)]
    file = bytearray(database({b"key": key_values}))
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(file[: data.draw(st.integers(0, len(file)))])
    for damaged in (bytes(file), cut):
        assert points_within(refusal(lambda data: bucket_pairs(data, b"key"), damaged), damaged)
