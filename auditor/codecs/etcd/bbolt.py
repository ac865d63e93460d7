"""Decoder of etcd's storage file: a bbolt database whose pages form B+ trees.

    page    16 bytes before its content: own number u64, kind u16 (1 branch, 2 leaf, 4 meta, 16 free list),
            elements u16, overflow u32: number of the pages after it that belong to it
    meta    pages 0 and 1: magic 0xED0CDAED u32, format 2 u32, page size u32, flags u32, page of the root
            bucket u64, its sequence u64, page of the free list u64, number of pages u64, transaction u64,
            FNV-1a of these 56 bytes u64; the valid page with the later transaction counts
    branch  elements of 16 bytes: position u32, key length u32, page u64
    leaf    elements of 16 bytes: flags u32 (1: a bucket), position u32, key length u32, value length u32
    bucket  a leaf's value: page of its root u64, sequence u64; if the page is 0, a leaf page follows here

Numbers are little-endian, as on every machine that etcd supports except s390x. A position counts from the
start of its element. Keys and values follow the last element, one after another without a gap. Only the
meta pages have a checksum. Source: go.etcd.io/bbolt, format 2, which has not changed since boltdb 1.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from auditor.errors import DecodeError

FORMAT_NAME = "bbolt database"
BRANCH_PAGE, LEAF_PAGE, META_PAGE = 1, 2, 4
PAGE_HEADER = struct.Struct("<QHHI")
META_FIELDS = struct.Struct("<IIIIQQQQQQ")
BUCKET_HEADER = struct.Struct("<QQ")
MAGIC, FORMAT_VERSION = 0xED0CDAED, 2
PAGE_SIZES = tuple(1024 << shift for shift in range(7))  # 1 KiB to 64 KiB: what machines use
MAX_DEPTH = 32
"""Largest depth of branch pages. A billion keys need five."""

_PAGE_HEADER_DTYPE = np.dtype([("number", "<u8"), ("kind", "<u2"), ("count", "<u2"), ("overflow", "<u4")])
_BRANCH_ELEMENT = np.dtype([("position", "<u4"), ("key", "<u4"), ("page", "<u8")])
_LEAF_ELEMENT = np.dtype([("flags", "<u4"), ("position", "<u4"), ("key", "<u4"), ("value", "<u4")])
_BUCKET_FLAG = 1


class Meta(NamedTuple):
    """The content of the newest valid meta page.

    ``are_both_valid`` is True if the other meta page is valid too.
    """

    page_size: int
    root: int
    pages: int
    transaction: int
    are_both_valid: bool


class PageSpan(NamedTuple):
    """The bytes from ``start`` to ``end``: a page with its overflow pages, or a page inside a value."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Elements:
    """Keys and values of some leaves, in order. Positions are offsets in the file.

    ``leaf_index`` has the position of each element's leaf in the list of requested leaves. ``error_by_leaf``
    has the error of each leaf that breaks the format, by this position. The elements of damaged leaves are
    left out.
    """

    leaf_index: NDArray[np.int64]
    key_offsets: NDArray[np.int64]
    value_offsets: NDArray[np.int64]
    value_ends: NDArray[np.int64]
    is_bucket: NDArray[np.bool_]
    error_by_leaf: dict[int, DecodeError]


def fnv_1a(data: bytes) -> int:
    """Return the 64-bit FNV-1a checksum of a meta page.

    >>> hex(fnv_1a(b"a"))
    '0xaf63dc4c8601ec8c'
    """
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = (checksum ^ byte) * 0x100000001B3 & (2**64 - 1)
    return checksum


def read_meta(data: memoryview) -> Meta:
    """Return the newer one of the valid meta pages. Raises `DecodeError` if no meta page is valid."""
    first_meta = _read_meta_page(data, 0, 0)
    # Where the first is broken, nothing says how long a page is.
    possible_sizes = (first_meta.page_size,) if first_meta else PAGE_SIZES
    second_meta = next(filter(None, (_read_meta_page(data, size, 1) for size in possible_sizes)), None)
    valid_metas = sorted(filter(None, (first_meta, second_meta)), key=lambda meta: meta.transaction)
    if not valid_metas:
        raise DecodeError(FORMAT_NAME, 0, "neither of the first two pages is a valid meta page")
    return valid_metas[-1]._replace(are_both_valid=len(valid_metas) == 2)


def bucket(data: memoryview, meta: Meta, name: bytes) -> PageSpan | None:
    """Return the root page of a top-level bucket, or None if there is no such bucket.

    Raises:
        DecodeError: The tree of buckets is damaged.
    """
    for leaf in leaves(data, meta, page_span(data, meta, meta.root)):
        if isinstance(leaf, DecodeError):
            raise leaf
        for key, span, is_bucket in _items(data, leaf):
            if is_bucket and key == name:
                return _bucket_root(data, meta, span)
    return None


def read_key_values(data: memoryview, meta: Meta, root: PageSpan) -> Iterator[tuple[bytes, bytes]]:
    """Yield every key and value of a small bucket. Raises `DecodeError` if it is damaged."""
    for leaf in leaves(data, meta, root):
        if isinstance(leaf, DecodeError):
            raise leaf
        for key, span, _ in _items(data, leaf):
            yield key, bytes(data[span.start : span.end])


def page_span(data: memoryview, meta: Meta, number: int) -> PageSpan:
    """Return the span of a branch or leaf page. Raises `DecodeError` if page ``number`` is neither."""
    offset = number * meta.page_size
    if not 2 <= number < meta.pages:
        raise DecodeError(
            FORMAT_NAME, min(offset, len(data)), f"no page has number {number}; there are {meta.pages} pages"
        )
    if offset + meta.page_size > len(data):
        raise DecodeError(FORMAT_NAME, len(data), f"the file ends before the end of page {number}")
    page_number, page_kind, count, overflow = PAGE_HEADER.unpack_from(data, offset)
    page_end = offset + (1 + overflow) * meta.page_size
    if page_number != number:
        raise DecodeError(FORMAT_NAME, offset, f"page {number} has number {page_number} in its header")
    if page_kind not in (BRANCH_PAGE, LEAF_PAGE):
        raise DecodeError(
            FORMAT_NAME, offset + 8, f"page {number} is of kind {page_kind}, neither branch nor leaf"
        )
    if number + overflow >= meta.pages or page_end > len(data):
        raise DecodeError(FORMAT_NAME, offset + 12, f"page {number} is continued beyond the end of the file")
    if PAGE_HEADER.size + 16 * count > page_end - offset:
        raise DecodeError(FORMAT_NAME, offset + 10, f"page {number} has no room for {count} elements")
    return PageSpan(offset, page_end)


def leaves(data: memoryview, meta: Meta, root: PageSpan) -> Iterator[PageSpan | DecodeError]:
    """Yield the leaf pages below ``root`` in key order, with an error in place of unreachable leaves.

    Each page is visited once. So the walk ends even if pages of the file refer to each other in a cycle.
    """
    # The smaller of what the meta page says and what the file has room for: a false number allocates nothing.
    is_visited = np.zeros(min(meta.pages, len(data) // meta.page_size + 1), bool)
    if PAGE_HEADER.unpack_from(data, root.start)[1] == LEAF_PAGE:
        yield root
        return
    # Iterators on a stack: how deep a damaged tree goes is bounded by MAX_DEPTH, not by Python's recursion.
    child_iterators = [iter(_child_pages(data, root))]
    while child_iterators:
        child = next(child_iterators[-1], None)
        if child is None:
            child_iterators.pop()
            continue
        try:
            if isinstance(child, DecodeError):
                raise child
            span = page_span(data, meta, child)
            if is_visited[child]:
                raise DecodeError(FORMAT_NAME, span.start, f"page {child} has two references")
            is_visited[child] = True
            if PAGE_HEADER.unpack_from(data, span.start)[1] == BRANCH_PAGE:
                if len(child_iterators) == MAX_DEPTH:
                    raise DecodeError(
                        FORMAT_NAME,
                        span.start,
                        f"branch pages that are nested more than {MAX_DEPTH} levels deep",
                    )
                child_iterators.append(iter(_child_pages(data, span)))
            else:
                yield span
        except DecodeError as damage:
            yield damage


def elements(data: memoryview, offsets: NDArray[np.int64], end: NDArray[np.int64]) -> Elements:
    """Read the elements of many leaves at once. Leaf i extends from byte ``offsets[i]`` to ``end[i]``."""
    page_heads = _records_at(data, offsets, _PAGE_HEADER_DTYPE)
    counts = page_heads["count"].astype(np.int64)
    is_valid_leaf = (page_heads["kind"] == LEAF_PAGE) & (PAGE_HEADER.size + 16 * counts <= end - offsets)
    error_by_leaf = {
        int(leaf_index): DecodeError(
            FORMAT_NAME, int(offsets[leaf_index]), "not a leaf page, or too short for its elements"
        )
        for leaf_index in np.flatnonzero(~is_valid_leaf)
    }
    counts[~is_valid_leaf] = 0
    leaf = np.repeat(np.arange(len(offsets)), counts)
    first_elements = np.cumsum(counts) - counts
    element_offsets = offsets[leaf] + PAGE_HEADER.size + 16 * (np.arange(len(leaf)) - first_elements[leaf])
    fields = _records_at(data, element_offsets, _LEAF_ELEMENT)
    key_offsets = element_offsets + fields["position"]
    value_offsets = key_offsets + fields["key"]
    value_ends = value_offsets + fields["value"]
    # bbolt leaves no gap between keys and values, so each element begins where the one before it ends. Pages
    # have no checksum: that this holds is all that tells a damaged leaf.
    expected_starts = np.empty_like(key_offsets)
    expected_starts[1:] = value_ends[:-1]
    expected_starts[first_elements[counts > 0]] = (offsets + PAGE_HEADER.size + 16 * counts)[counts > 0]
    faulty_rows = np.flatnonzero(
        (key_offsets != expected_starts) | (value_ends > end[leaf]) | (fields["flags"] > _BUCKET_FLAG)
    )
    for row in faulty_rows.tolist():
        reason = "an element's key and value do not begin where the previous element ends"
        error_by_leaf.setdefault(int(leaf[row]), DecodeError(FORMAT_NAME, int(element_offsets[row]), reason))
    # One element in the wrong place puts its whole leaf in doubt.
    is_sound = np.ones(len(leaf), bool)
    if faulty_rows.size:
        is_sound = ~np.isin(leaf, leaf[faulty_rows])
    return Elements(
        leaf[is_sound],
        key_offsets[is_sound],
        value_offsets[is_sound],
        value_ends[is_sound],
        (fields["flags"] == _BUCKET_FLAG)[is_sound],
        error_by_leaf,
    )


def read_windows(data: memoryview, offsets: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return ``width`` bytes from each offset on, one row per offset.

    >>> read_windows(memoryview(b"abcdef"), np.array([1, 3]), 2).tobytes()
    b'bcde'
    """
    if not len(offsets):
        return np.empty((0, width), np.uint8)
    return sliding_window_view(np.frombuffer(data, np.uint8), width)[offsets]


def _records_at(data: memoryview, offsets: NDArray[np.int64], kind: np.dtype[np.void]) -> NDArray[np.void]:
    return read_windows(data, offsets, kind.itemsize).view(kind).ravel()


def _read_meta_page(data: memoryview, offset: int, number: int) -> Meta | None:
    fields_offset = offset + PAGE_HEADER.size
    if fields_offset + META_FIELDS.size > len(data):
        return None
    page_number, page_kind, _, _ = PAGE_HEADER.unpack_from(data, offset)
    magic, version, page_size, _, root, _, _, pages, transaction, checksum = META_FIELDS.unpack_from(
        data, fields_offset
    )
    header = (page_number, bool(page_kind & META_PAGE), magic, version)
    if header != (number, True, MAGIC, FORMAT_VERSION) or page_size not in PAGE_SIZES:
        return None
    if checksum != fnv_1a(bytes(data[fields_offset : fields_offset + META_FIELDS.size - 8])):
        return None
    return Meta(page_size, root, pages, transaction, True)


def _bucket_root(data: memoryview, meta: Meta, span: PageSpan) -> PageSpan:
    if span.end - span.start < BUCKET_HEADER.size:
        raise DecodeError(FORMAT_NAME, span.start, "a bucket is shorter than its header")
    root, _ = BUCKET_HEADER.unpack_from(data, span.start)
    if root:
        return page_span(data, meta, root)
    # Page 0 is a meta page and no root: so bbolt says that a small bucket has its one leaf in its own value.
    inline_page = PageSpan(span.start + BUCKET_HEADER.size, span.end)
    if inline_page.end - inline_page.start < PAGE_HEADER.size:
        raise DecodeError(
            FORMAT_NAME, inline_page.start, "a bucket within a value is shorter than a page's header"
        )
    if PAGE_HEADER.unpack_from(data, inline_page.start)[1] != LEAF_PAGE:
        raise DecodeError(FORMAT_NAME, inline_page.start + 8, "a bucket within a value is not a leaf page")
    return inline_page


def _child_pages(data: memoryview, branch: PageSpan) -> list[int | DecodeError]:
    count = PAGE_HEADER.unpack_from(data, branch.start)[2]
    elements_start = branch.start + PAGE_HEADER.size
    branch_elements = np.frombuffer(data, _BRANCH_ELEMENT, count, elements_start)
    key_starts = elements_start + 16 * np.arange(count) + branch_elements["position"]
    key_ends = key_starts + branch_elements["key"]
    expected_key_starts = np.concatenate([[elements_start + 16 * count], key_ends[:-1]])
    faulty_rows = np.flatnonzero((key_starts != expected_key_starts) | (key_ends > branch.end))
    if count == 0 or faulty_rows.size:
        offset = elements_start + 16 * int(faulty_rows[0]) if count else branch.start + 10
        return [DecodeError(FORMAT_NAME, offset, "a branch page with a gap between its keys")]
    pages: list[int | DecodeError] = branch_elements["page"].tolist()
    return pages


def _items(data: memoryview, leaf: PageSpan) -> Iterator[tuple[bytes, PageSpan, bool]]:
    leaf_elements = elements(data, np.array([leaf.start]), np.array([leaf.end]))
    for damage in leaf_elements.error_by_leaf.values():
        raise damage
    element_columns = (
        leaf_elements.key_offsets,
        leaf_elements.value_offsets,
        leaf_elements.value_ends,
        leaf_elements.is_bucket,
    )
    for key_at, value_at, value_end, is_bucket in zip(
        *(column.tolist() for column in element_columns), strict=True
    ):
        yield bytes(data[key_at:value_at]), PageSpan(value_at, value_end), is_bucket
